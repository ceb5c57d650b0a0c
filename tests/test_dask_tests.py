"""oracle/dask_tests.py: how two runs of a test of Dask are judged, and what a lost process costs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import dask_judge as kinds
import pytest
from dask_judge import Failure, Outcome, Row, judge, kind
from dask_tests import PACKAGE, TestProcess, copy_tests, full_name, may_have, portions
from processes import Journal
from sides import Side

PASSED = Outcome("passed", on_gpu=1)


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        (PASSED, PASSED, kinds.AGREES),
        (PASSED, Outcome("failed", Failure("AssertionError", "", "assert x.sum() == 3")), kinds.VALUE),
        (PASSED, Outcome("failed", Failure("TypeError", "Unsupported dtype")), kinds.FAILS),
        (PASSED, Outcome("lost", Failure("", "took over 30 s")), kinds.LOST),
        (PASSED, Outcome("skipped", Failure("Skipped", "no CuPy")), kinds.SKIPPED),
        (PASSED, Outcome("xfailed"), kinds.SKIPPED),
        (PASSED, Outcome("not run"), kinds.NOT_RUN),
        (Outcome("failed"), None, kinds.LEFT_OUT),
        (Outcome("not run"), None, kinds.NOT_RUN),
    ],
)
def test_two_runs_are_judged(first, second, outcome):
    assert judge("array/test_x.py::test_y", first, second).outcome == outcome


ASSERT_EQ = {
    "line": "assert_eq(x, y.dtype)",
    "raised": "assert allclose(a, b)",
    "place": "dask/array/utils.py:assert_eq",
}


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (Failure("AssertionError", "found values in 'a' and 'b' which differ", **ASSERT_EQ), kinds.VALUE),
        (Failure("AssertionError", "a and b have different dtypes (a: int64, b: int32)", **ASSERT_EQ), kinds.DTYPE),
        (Failure("AssertionError", "different types (a: <class 'cupy.ndarray'>, b: ...)", **ASSERT_EQ), kinds.TYPES),
        (Failure("AssertionError", "different types (a: ndarray, b: MaskedArray)", **ASSERT_EQ), kinds.VALUE),
        (Failure("AssertionError", "", "assert isinstance(x.compute(), np.ndarray)"), kinds.TYPES),
        (Failure("AssertionError", "", "assert len(x.dask) == 3", "assert len(x.dask) == 3"), kinds.GRAPH),
        (Failure("AssertionError", "", "assert str(x.compute()) == y"), kinds.VALUE),
        (Failure("AssertionError", "", "assert_eq(x.dask, y)", "assert chunk.dtype == x.dtype"), kinds.DTYPE),
        (Failure("Failed", "DID NOT WARN. No warnings of type", "with pytest.warns(RuntimeWarning):"), kinds.RAISES),
        (
            Failure("AssertionError", "", "dd.concat(x)", 'assert join == "outer"', "dask_cudf/backends.py:f"),
            kinds.FAILS,
        ),
        (Failure("KeyError", "'x'", "assert len(x.dask) == 3"), kinds.FAILS),
        (Failure("AssertionError", place="dask/dataframe/utils.py:assert_dask_dtypes"), kinds.TYPES),
    ],
)
def test_a_difference_is_of_a_kind_and_of_the_value_unless_something_explains_it(failure, outcome):
    assert kind(failure) == outcome


def test_dasks_tests_are_copied_and_taken_in_turns(tmp_path):
    files = copy_tests(["array", "expressions"], tmp_path)
    assert {file.parent.name for file in files} == {"array", "expressions"}
    assert not any("cupy" in file.name for file in files)
    assert [file for file in files if may_have(file, ["array/test_ufunc", "array/test_wrap.py::test_full"])] == [
        tmp_path / PACKAGE / "array" / "test_ufunc.py",
        tmp_path / PACKAGE / "array" / "test_wrap.py",
    ]
    of_files = {files[0]: ["a", "b", "c"], files[1]: ["d"]}
    assert [portion.names for portion in portions(of_files, 2)] == [("a", "b"), ("d",), ("c",)]
    first = [full_name(files[0], "b"), full_name(files[0], "c")]
    assert [portion.names for portion in portions(of_files, 2, first)] == [("b",), ("c",), ("a",), ("d",)]
    many = [f"a[{n}]" for n in range(12)]
    few, *others = portions({files[0]: [*many, "b"]})
    assert few.names == (*many[::2], "b")
    assert [portion.names for portion in others] == [tuple(many[1::2])]


TESTS = """
import os, time
import dask.array as da
import numpy as np
import pytest
from dask.array.utils import assert_eq

def test_agrees():
    import array  # of the standard library, not the folder of this file
    assert array.array("b", [1])[0] == 1
    assert_eq(da.ones(4, chunks=2) + 1, np.full(4, 2.0))

def test_ends_the_process():
    os._exit(3)

@pytest.mark.parametrize("n", [1, 2])
def test_fails(n):
    assert da.ones(3).sum().compute() == n

def test_fails_in_compiled_code():
    exec(compile("raise ValueError(1)", "nowhere.pyx", "exec"))

def test_ends_pytest():
    pytest.exit("now")

def test_stands_still():
    time.sleep(10_000)
"""


def test_a_lost_process_costs_one_test(tmp_path):
    file = tmp_path / "array" / "test_some.py"
    file.parent.mkdir()
    file.write_text(TESTS)
    process = TestProcess(Side.switched("numpy", "pandas"))
    try:
        names = process.collect(file)
        assert [name.removeprefix("test_") for name in names] == [
            "agrees",
            "ends_the_process",
            "fails[1]",
            "fails[2]",
            "fails_in_compiled_code",
            "ends_pytest",
            "stands_still",
        ]
        outcomes = process.run(file, names[:-1], limit=60)
        last = process.run(file, names[-1:], limit=0.2)
        file.write_text("import os; os._exit(3)")
        assert process.collect(file) == []
    finally:
        process.close()
    assert [outcomes[name].outcome for name in names[:-1]] == ["passed", "lost", "failed", "failed", "failed", "lost"]
    assert outcomes["test_fails_in_compiled_code"].failure.error == "ValueError"
    assert outcomes["test_agrees"].compared == 1
    assert outcomes["test_ends_the_process"].failure.message == "the process died with 3"
    failure = outcomes["test_fails[2]"].failure
    assert (failure.error, failure.line) == ("AssertionError", "assert da.ones(3).sum().compute() == n")
    assert last["test_stands_still"].failure.message == "took over 0 s"


def test_a_run_goes_on_where_it_was_cut_off(tmp_path):
    file, options = tmp_path / "rows.jsonl", {"array": "cupy"}
    rows = [Row("a", kinds.VALUE, "1 | 2", seconds=[0.5, 1.0], on_cpu={"median": 3}), Row("b", kinds.NOT_RUN)]
    Journal(file, options, Row).add(*rows)
    file.write_text(file.read_text() + '{"name": "c", "outco')
    journal = Journal(file, options, Row)
    assert journal.rows == {"a": rows[0]}
    journal.add(Row("d", kinds.AGREES))
    assert list(Journal(file, options, Row).rows) == ["a", "d"]
    with pytest.raises(ValueError, match="Give another file"):
        Journal(file, {"array": "numpy"}, Row)


def compared(folder, *suites, dataframe):
    script, out = Path(__file__).parents[1] / "oracle" / "dask_tests.py", folder / "rows.json"
    options = ["--array=numpy", f"--dataframe={dataframe}", "--processes=2", "--seconds=600", "--suites", *suites]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent / "switch")}
    command = [sys.executable, script, *options, "--out", out]
    subprocess.run(command, check=True, capture_output=True, timeout=650, env=environment)
    return json.loads(out.read_text())


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_dasks_own_tests_of_frames_pass_as_the_kernel_plans_them_for_gpus(tmp_path):
    """With the stand-in for cuDF, whose own gaps make other tests fail, in other places."""
    result = compared(tmp_path, "dataframe", "expressions", dataframe="cudf")
    assert result["counts"]["agrees"] > 1500
    failing = [row["name"] for row in result["tests that do not agree"] if "[dask/_expr.py:" in row["note"]]
    known = ("test_datasets.py::test_optimization", "test_collection.py::test_tree_repr")  # they look for other classes
    assert [name for name in failing if not any(each in name for each in known)] == []


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_dasks_own_tests_of_arrays_pass_with_optimized_graphs(tmp_path):
    """On the CPU, where the switch changes nothing but the graphs."""
    result = compared(tmp_path, "array", dataframe="pandas")
    assert result["counts"]["agrees"] > 4000
    # In a cell, a data set of HDF5 is in a graph by the name of its file.
    differ = {row["name"] for row in result["tests that do not agree"]}
    assert {name for name in differ if "test_asarray_h5py" not in name} == set()
