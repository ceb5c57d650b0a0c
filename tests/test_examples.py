"""The program that runs the examples of docstrings twice, on the CPU both times."""

import pytest
from docstring_examples import Worker, judge
from docstrings import Docstring, dask_docstrings, translated
from sides import Side
from strict_rules import AS_HOST

pytestmark = pytest.mark.cluster

CPU, SWITCHED = Side(), Side.switched("numpy", "pandas", results="gpu")

IS_NUMPYS = "isinstance(np.ones(2), np.ndarray)"
IS_SWITCHED = "__import__('jupyter_gpudask.overlay', fromlist=['x']).current_overlay() is not None"

CHOSEN = (
    "da.where",
    "da.linalg.norm",
    "da.fft.rfft",
    "da.random.normal",
    "da.ma.masked_where",
    "da.map_overlap",
    "da.Array.blocks",
    "dd.DataFrame.nlargest",
    "dd.Series.value_counts",
    "dd.Series.str.len",
    "dd.Series.dt.year",
    "dd.GroupBy.mean",
    "dd.read_csv",
)


@pytest.fixture(scope="module")
def workers():
    worker = Worker(CPU, SWITCHED)
    yield {CPU: worker, SWITCHED: worker}
    worker.close()


@pytest.fixture(scope="module")
def docstrings():
    return {docstring.name: docstring for docstring in dask_docstrings()}


def made_up(*examples: str, origin: str = "dask") -> Docstring:
    return Docstring("da.sum", origin, examples, ("",) * len(examples))


@pytest.mark.parametrize("name", CHOSEN)
def test_examples_agree_with_themselves(name, docstrings, workers):
    row = judge(docstrings[name], CPU, SWITCHED, workers)
    assert row.outcome == "agree", row.note
    assert row.ran
    assert row.compared


@pytest.mark.parametrize(
    ("examples", "outcome", "begin", "end"),
    [
        ((f"n = {IS_SWITCHED}", "da.ones(3).sum() + n"), "differ", "`n = __import__", "`: False and True"),
        (
            ("da.ones(3).sum()", f"1 / (not {IS_SWITCHED})"),
            "fails",
            "`1 / (not ",
            "ZeroDivisionError: division by zero",
        ),
        (("x = da.random.normal(size=5)", "y = x + 1", "y"), "agree", "", ""),  # by its shape
    ],
)
def test_what_differs_or_fails_only_under_the_switch_is_found(workers, examples, outcome, begin, end):
    row = judge(made_up(*examples), CPU, SWITCHED, workers)
    assert row.outcome == outcome
    assert row.note.startswith(begin)
    assert row.note.endswith(end)
    assert row.random == ("random" in examples[0])


@pytest.mark.parametrize(
    ("examples", "outcome"),
    [
        ((f"n = {IS_NUMPYS} or {IS_SWITCHED}",), AS_HOST),
        ((f"n = {IS_NUMPYS} or {IS_SWITCHED}", f"n = {IS_SWITCHED}"), "differ"),
        ((f"n = {IS_SWITCHED}", f"n = {IS_NUMPYS} or {IS_SWITCHED}"), "differ"),
        ((f"n = 2 if {IS_NUMPYS} else {IS_SWITCHED}",), "differ"),
        ((f"n = [{IS_SWITCHED}][{IS_NUMPYS}]",), "differ"),  # which fails with NumPy
        ((f"n = da.ones(2).sum().compute() + ({IS_SWITCHED} or {IS_NUMPYS})",), "differ"),  # not of NumPy alone
        ((f"np.random.normal(size=4 if {IS_NUMPYS} else 4 if {IS_SWITCHED} else (4, 4))",), AS_HOST),
        ((f"np.random.normal(size=3 if {IS_NUMPYS} else 4 if {IS_SWITCHED} else (4, 4))",), "differ"),
    ],
)
def test_numpy_decides_where_the_runs_differ(workers, examples, outcome):
    row = judge(made_up("np.ones(3).sum()", *examples, origin="numpy"), CPU, SWITCHED, workers)
    assert row.outcome == outcome, row.note


@pytest.mark.parametrize("example", ["import os; os._exit(3)", "while True: pass"])
def test_a_crash_or_a_standstill_costs_one_docstring(example, workers):
    lost = judge(made_up("da.ones(3).sum()", example), CPU, SWITCHED, workers, limit=1)
    assert lost.outcome == "left out"
    assert lost.note in ("the process died with 3", "took over 1 s")
    assert judge(made_up("da.ones(3).sum()"), CPU, SWITCHED, workers).outcome == "agree"


def test_examples_for_numpy_and_pandas_become_examples_for_dask():
    numpy = made_up("import numpy as np", "np.linalg.norm(np.array([1, 2]))", "np.sum([1, 2])", origin="numpy")
    assert translated(numpy)[1:] == ["da.linalg.norm(da.array([1, 2]))", "da.sum(da.array([1, 2]))"]
    pandas = made_up("df = pd.DataFrame({'x': np.array([1])}, index=pd.Index([2]))", origin="pandas")
    frame = "pd.DataFrame({'x': np.array([1])}, index=pd.Index([2]))"
    assert translated(pandas) == [f"df = dd.from_pandas({frame}, npartitions=2)"]
