"""`%gpudask on` without a cluster: which cells are switched, and where the call is added."""

import ast
import datetime as dt
import functools
import math
import sys
from collections import defaultdict
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import TransformerManager

from jupyter_gpudask.magics.arguments import ON_OPTIONS, check_on_options
from jupyter_gpudask.magics.cell_transform import AUTOMATIC_MAGIC, AutomaticCells, CellTransformer
from jupyter_gpudask.magics.commands import parse_line

SETTINGS = SimpleNamespace(on=True)
CALL = f"get_ipython().run_line_magic('{AUTOMATIC_MAGIC}', '')"


class Anything:
    """What may use Dask inside."""


def anything():
    return Anything()


NAMESPACE = MappingProxyType({"x": Anything(), "y": Anything(), "get_ipython": anything})


def switched(cell, namespace=NAMESPACE):
    """The statements of a cell as they run after `%gpudask on`; CALL stands for the call."""
    manager = TransformerManager()
    shell = SimpleNamespace(transform_cell=manager.transform_cell, input_transformers_cleanup=[], ast_transformers=[])
    cell = "".join(CellTransformer(shell).transform(cell.splitlines(keepends=True)))
    shell.user_ns = namespace
    tree = AutomaticCells(shell, SETTINGS).visit(ast.parse(manager.transform_cell(cell)))
    compile(ast.fix_missing_locations(tree), "cell", "exec")
    return [ast.unparse(statement).replace(CALL, "CALL") for statement in tree.body]


@pytest.fixture(params=[True, False], ids=["with dask", "without dask"])
def has_dask(request, monkeypatch):
    if request.param:
        monkeypatch.setitem(sys.modules, "dask", sys)
    else:
        monkeypatch.delitem(sys.modules, "dask", raising=False)
    return request.param


def test_a_cell_is_switched_at_its_start_or_by_its_own_imports(has_dask):
    cell = "x = 1\nimport math\ntry:\n    import os\nfinally:\n    y = 2\ny"
    expected = ["x = 1", "import math", "try:\n    import os\nfinally:\n    y = 2", "y"]
    for position in [0] if has_dask else [3, 2]:
        expected.insert(position, "CALL")
    assert switched(cell) == expected


def test_the_first_statements_of_a_module_stay_the_first(has_dask):
    cell = "'text'\nfrom __future__ import annotations\nimport math, x"
    expected = ["'text'", "from __future__ import annotations", "import math, x"]
    expected.insert(2 if has_dask else 3, "CALL")
    assert switched(cell) == expected
    assert switched("from __future__ import annotations")[:1] == ["from __future__ import annotations"]


@pytest.mark.usefixtures("has_dask")
def test_cells_of_magics_are_as_they_were():
    cells = [
        "%%bash\nls",
        "%%time\nx = 1",
        "%gpudask on",
        "!ls",
        "started = %gpudask start",
        "%%gpudask\nx",
        "%time x",
        "",
    ]
    assert [cell for cell in cells if "CALL" in switched(cell)] == []


@pytest.fixture
def with_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", sys)


@pytest.mark.usefixtures("with_dask")
def test_a_magic_that_runs_a_file_is_switched_and_a_line_keeps_its_number():
    assert switched("%run job.py")[0] == "CALL"
    assert switched("%matplotlib inline\nx = 1")[0] == "CALL"
    shell = SimpleNamespace(user_ns={"array": Anything()})
    tree = AutomaticCells(shell, SETTINGS).visit(ast.parse("\n\nx = array\ny = 2"))
    assert [statement.lineno for statement in tree.body] == [3, 3, 4]


@pytest.mark.usefixtures("with_dask")
@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1 + 1", None),
        ("import math, os\nlen(str(x))", 1.5),
        ("x + 1", np.ones(2)),
        ("x.sum(), print(x)", pd.DataFrame({"a": [1]})),
        ("x.sqrt(2)", math),
        ("x(2)", math.sqrt),
        ("x.isoformat()", dt.date(2024, 1, 1)),
        ("{**x}", {"a": [1, "b", (None, 2.5)]}),
    ],
)
def test_a_cell_that_cannot_use_dask_is_as_it_was(cell, value):
    assert "CALL" not in switched(cell, {"x": value})


@pytest.mark.usefixtures("with_dask")
@pytest.mark.parametrize(
    "value",
    [
        Anything(),
        anything,
        [1, [Anything()]],
        {"a": Anything()},
        functools.partial(anything),
        defaultdict(list, a=[Anything()]),
        SimpleNamespace(a=Anything()),
        np.array([Anything()]),
        np.vectorize(anything),
        np.frompyfunc(anything, 0, 1),
        map(anything, []),
        [0] * 2000,
        sys.modules[__name__],
        exec,
    ],
)
def test_a_cell_that_may_use_dask_is_switched(value):
    assert switched("print(x)", {"x": value})[0] == "CALL"


@pytest.mark.usefixtures("with_dask")
def test_a_cell_that_imports_anything_else_is_switched():
    for cell in ("import dask", "from analysis import run", "from . import run", "eval('1')"):
        assert switched(cell, {})[0] == "CALL"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--compare", "%gpudask on does not take --compare. Use it in a cell: %%gpudask --compare"),
        ("--report a.html", "%gpudask on does not take --report. Use it in a cell: %%gpudask --report"),
        ("--move x,y", "%gpudask on does not take --move x,y, because not every cell has them. Use --move all"),
        ("--array torch", "invalid choice: 'torch'"),
    ],
)
def test_options_for_one_cell_are_refused(options, sentence):
    with pytest.raises(UsageError, match=sentence.replace("(", r"\(")):
        parse_line(f"on {options}")


def test_the_other_options_are_kept_as_they_were_typed():
    line = "--array numpy --dataframe pandas --move all --results gpu --strict --profile"
    assert parse_line(f"on {line}") == ("on", {"options": line})
    assert all(option in line for option in ON_OPTIONS)
    check_on_options("")
