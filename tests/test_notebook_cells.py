"""oracle/notebook_cells.py: cells run in two shells, their outcomes are told apart, and a death costs one cell."""

import json
import time

import pytest
from notebook_cells import AGREES, DIFFERS, FAILS, FAILS_PLAINLY, FOLLOWS, NOTEBOOKS, Runs, judge
from notebook_runs import Notebook, Outcome, Shell

SCRIPT = """\
# A notebook
# needs: numpy

# %% data
import os

import dask.array as da
import numpy as np

x = da.from_array(np.arange(6.0), chunks=3)
x  # shown

# %% normals tags=["random"]
noise = da.random.default_rng().normal(size=10)
float(noise.sum())

# %% death
marker = 1 / 0 if "here" in os.environ else os._exit(3)

# %% afterwards
(x + 1).sum()

# %% error
unknown_name
"""


@pytest.fixture
def notebook(tmp_path):
    file = tmp_path / "small.py"
    file.write_text(SCRIPT)
    return Notebook.read(file)


def test_a_script_in_the_percent_format_is_read_as_cells(notebook):
    assert (notebook.needs, [cell.title for cell in notebook.cells]) == (
        ("numpy",),
        ["data", "normals", "death", "afterwards", "error"],
    )
    assert [cell.is_random for cell in notebook.cells] == [False, True, False, False, False]
    assert notebook.cells[0].names == ["x"]
    assert "__last__ = (x)  # shown" in notebook.cells[0].recording


def test_every_cell_of_the_notebooks_can_be_recorded_and_has_a_name_of_its_own():
    cells = [cell for file in NOTEBOOKS.glob("*.py") for cell in Notebook.read(file).cells]
    assert len({cell.key for cell in cells}) == len(cells) >= 300
    for cell in cells:
        compile(cell.recording, cell.key, "exec")


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_the_cells_after_a_death_run_in_a_new_process(notebook):
    shells = Shell(), Shell("%gpudask start --cpu 1", "%%gpudask\n")
    plain, switched = (Runs(shell, 60, time.monotonic() + 200).run(notebook.cells) for shell in shells)
    for outcomes in plain, switched:
        assert "the process died with 3" in outcomes["small: death"].error
        assert outcomes["small: afterwards"].results == {"": 21.0}
        assert "name 'unknown_name' is not defined" in outcomes["small: error"].error
    rows = {row.key: row.outcome for row in judge(notebook.cells, plain, switched)}
    assert rows == {
        "small: data": AGREES,
        "small: normals": AGREES,
        "small: death": FAILS_PLAINLY,
        "small: afterwards": AGREES,
        "small: error": FAILS_PLAINLY,
    }


def test_other_values_errors_and_what_follows_from_them_are_told_apart(notebook):
    data, _, death, after, _ = notebook.cells
    plain = {cell.key: Outcome(results={"": 1.0, "x": [1, 2]}) for cell in (data, death, after)}
    switched = {
        data.key: Outcome(error="TypeError: no"),
        death.key: Outcome(error="NameError: name 'x' is not defined"),
        after.key: Outcome(results={"": 1.0, "x": [1, 3]}),
    }
    rows = list(judge([data, death, after], plain, switched))
    assert [row.outcome for row in rows] == [FAILS, FOLLOWS, DIFFERS]
    assert rows[2].note.startswith("x: at [1]")


def test_the_python_of_a_notebook_file_is_read_as_cells_too(tmp_path):
    cells = [
        ("markdown", "# Taxis", ()),
        ("code", "%%time\nimport dask.array as da\n!ls\nx = da.ones(6)\n%time y = x.sum()", ()),
        ("code", "%matplotlib inline", ()),
        ("code", ["noise = da.random.normal(size=3)\n", "noise"], ()),
        ("code", "noise + x", ()),
        ("code", "z = clock()", ("random",)),
        ("code", "this is no Python", ()),
    ]
    file = tmp_path / "taxis.ipynb"
    made = [{"cell_type": kind, "source": source, "metadata": {"tags": tags}} for kind, source, tags in cells]
    file.write_text(json.dumps({"cells": made}))
    first, *others = Notebook.read(file).cells
    assert (first.key, first.names, first.is_random) == ("taxis: cell 2", ["x", "y"], False)
    assert [(cell.title, cell.is_random) for cell in others] == [("cell 4", True), ("cell 5", True), ("cell 6", True)]
