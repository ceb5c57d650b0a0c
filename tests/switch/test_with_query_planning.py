"""The switch with Dask's setting ``array.query-planning``: arrays are expressions, and many functions are lacking."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from device import HAS_GPU, MARKS
from helpers import fake_gpu_environment
from lacking import is_lack_of_dask
from test_creation_table import CALLERS, GIVEN

from jupyter_gpudask.patches.array_functions import module_with
from jupyter_gpudask.patches.patch import resolve
from jupyter_gpudask.patches.table import EXPRESSION_FUNCTIONS, PATCHES

pytestmark = MARKS

HERE = Path(__file__).parent
ON = {"DASK_ARRAY__QUERY_PLANNING": "True"}
FILES = {
    "test_switch.py": 17,
    "test_arrays.py": 77,
    "test_creation_table.py": 5,
    "test_random.py": 530,
    "test_names_of_variables.py": 9,
}
"""The tests of the switch and of creation, with the number of those that pass at least: the others are skipped."""


def test_the_tests_of_the_switch_and_of_creation_pass_or_dask_lacks_what_they_call():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *(f"switch/{file}" for file in FILES)],
        env=os.environ | ON,
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        timeout=300 if HAS_GPU else 100,  # CuPy compiles
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    for file, least in FILES.items():
        passed = re.findall(rf"^PASSED \S*{file}::", done.stdout, re.MULTILINE)
        assert len(passed) >= least, file


@pytest.mark.parametrize(
    "error",
    [
        AssertionError("Function where is not implemented for dask-expr."),
        AttributeError("'Array' object has no attribute 'blocks'", name="blocks", obj=[]),
        NotImplementedError("Another library lacks it."),
        TypeError("object of type 'int' has no len()"),
    ],
)
def test_no_other_failure_passes_for_what_dask_lacks(error):
    with pytest.raises(type(error)) as failure:
        raise error
    assert not is_lack_of_dask(failure)


SURVEY = """
import inspect
from types import FunctionType
import dask.array as da

assert da.ARRAY_EXPR_ENABLED
for name in da.__all__:
    function = getattr(da, name)
    if getattr(function, "__qualname__", "") == "raise_not_implemented_error.<locals>.inner_func":
        continue
    if isinstance(function, FunctionType) or type(function).__name__ == "partial":
        behind = getattr(function, "func", function)
        first = next(iter(inspect.signature(function).parameters.values()), "") if behind is function else ""
        print(name, str(first).split("=")[0].split(":")[0] or "-", behind.__module__, getattr(behind, "__name__", ""))
"""

NO_CREATION = set("array_expr_enabled assert_eq compute gufunc isneginf isposinf shuffle reduction".split())


def test_every_function_that_may_create_an_array_is_patched(run_python):
    found = [line.split() for line in run_python(SURVEY, os.environ | ON).splitlines()]
    patched = {change.target for row in PATCHES if row.name == "array expressions" for change in row.changes}
    may_create = {
        name: f"{module}:{function}"
        for name, first, module, function in found
        if (first not in GIVEN or re.match("from|as.*array|array|.*_like$|stack|concatenate", name))
        and name not in NO_CREATION | CALLERS
    }
    assert {name for name, target in may_create.items() if target not in patched} == {"full"}  # it calls that of `ones`
    assert set("ones zeros empty full arange linspace array asarray from_array".split()) <= may_create.keys()
    assert {name for names in EXPRESSION_FUNCTIONS.values() for name in names} <= may_create.keys()


def test_the_modules_that_define_functions_for_graphs_have_those_of_the_table(run_python):
    targets = [change.target for row in PATCHES for change in row.changes if change.target.startswith("dask.array:")]
    where = run_python(
        f"from jupyter_gpudask.patches.patch import resolve\n"
        f"for target in {targets}: print(resolve(target).__qualname__, resolve(target).__module__)",
        os.environ | ON,
    )
    here = [f"{resolve(target).__qualname__} {resolve(target).__module__}" for target in targets]
    assert where.splitlines() == here
    assert "_array_expr" not in where
    assert module_with("asarray").__name__ == "dask.array"


CELL = """
import dask
import dask.array as da
import numpy as np
from distributed import futures_of, wait

import jupyter_gpudask

outside = da.ones((4, 4), chunks=2)


def kinds(array):
    kept = array.persist()
    wait(kept)
    return {future.type.__module__ for future in futures_of(kept)}


if __name__ == "__main__":
    with jupyter_gpudask.gpu(array="cupy", dataframe="pandas", gpus=1) as client:
        x = da.ones((4, 4), chunks=2)
        arrays = {
            "ones": (x, 16),
            "zeros": (da.zeros(4, chunks=2), 0),
            "full": (da.full(4, 7.0, chunks=2), 28),
            "arange": (da.arange(10, chunks=5), 45),
            "linspace": (da.linspace(0, 1, 5, chunks=3), 2.5),
            "from_array": (da.from_array(np.arange(4.0), chunks=2), 6),
            "asarray": (da.asarray([1, 2]), 3),
            "ones_like": (da.ones_like(np.ones(3)), 3),
            "stack": (da.stack([np.ones(2), np.ones(2)]), 4),
            "concatenate": (da.concatenate([np.ones(2), np.ones(2)]), 4),
            "permutation": (da.random.permutation(5), 10),
            "a NumPy array beside one": (da.asarray(np.ones((4, 4)), chunks=2) + x, 32),
            "plain data": (da.ones(3, chunks=3) + np.ones(3), 6),
            "map_blocks": (x.map_blocks(lambda block: block + 1), 32),
            "map_overlap": (x.map_overlap(lambda block: block, depth=1, boundary=0) + x, 32),
            "sums": (x.sum(axis=0), 16),
            "quotient": (x // 0.1, 144),
        }
        for name, (array, total) in arrays.items():
            result = array.compute()
            assert (type(result), float(result.sum())) == (np.ndarray, total), (name, result)
            assert type(array._meta).__module__ == "cupy", name
            assert kinds(array) == {"cupy"}, name
        generators = da.random, da.random.default_rng(1), da.random.RandomState(1)
        for drawn in [generator.normal(size=4, chunks=2) for generator in generators]:
            assert kinds(drawn) == {"cupy"}
        assert type(x.sum().compute()) is np.float64
        results = dask.compute(x, [x.sum()], {"x": x.persist()})
        assert [type(results[0]), type(results[1][0]), type(results[2]["x"])] == [np.ndarray, np.float64, np.ndarray]
        assert type(client.compute(x, sync=True)) is np.ndarray
        for mix in (lambda: x + outside, lambda: da.stack([x, outside]), lambda: da.concatenate([outside, x])):
            try:
                mix()
            except jupyter_gpudask.errors.MixedBackendsError as error:
                assert "outside is on the CPU and x on the GPU" in str(error)
            else:
                raise SystemExit("mixed")
        assert kinds(outside + 1) == {"numpy"}
        outer, masked = lambda: da.add.outer(x, x), lambda: da.add(x, 1, where=x > 0)
        for lacking in (outer, masked, lambda: da.eye(3), lambda: x.std()):
            try:
                lacking()
            except NotImplementedError:
                continue
            raise SystemExit("not refused")
    assert kinds(da.ones(4)) == {"numpy"}
    print("done")
"""


@pytest.mark.cluster
@pytest.mark.parametrize(
    "dataframe", ["pandas", pytest.param("cudf", marks=pytest.mark.skipif(not HAS_GPU, reason="needs cuDF and a GPU"))]
)
def test_what_a_cell_creates_is_on_the_gpus_of_a_cluster(dataframe):
    environment = os.environ | ON if dataframe == "cudf" else fake_gpu_environment(cupy=True, FAKE_GPUS="1", **ON)
    done = subprocess.run(
        [sys.executable, "-c", CELL.replace('dataframe="pandas"', f'dataframe="{dataframe}"')],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["done"]), done.stderr
