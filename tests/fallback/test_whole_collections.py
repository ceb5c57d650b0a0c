"""Collections that come to the CPU as a whole: arrays that CuPy cannot hold, and operations with a result of pandas."""

import re
from types import SimpleNamespace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.base import is_dask_collection
from device import MARKS

from jupyter_gpudask.errors import MixedBackendsError, NotOnGpuError
from jupyter_gpudask.inspection.placement import place_of, to_gpu
from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.patches.frames.differences import _NOT_SYMMETRIC, _WITH_NAN, is_only_of_pandas, reason_for_host
from jupyter_gpudask.patches.frames.missing_values import COMPARED_BY_UFUNC
from jupyter_gpudask.switch.context import switched_to

pytestmark = MARKS

MASKED = np.ma.array([1.0, 2.0, 3.0, 4.0], mask=[False, True, False, False])
NUMBERS = np.arange(4.0)
WORDS = np.array(["a", "b", "c", "d"], dtype=object)
DAYS = np.array(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"], dtype="M8[D]")


def array(data):
    return da.from_array(data, chunks=2)


def test_a_masked_array_keeps_its_mask(cell):
    cell()
    for masked in (array(MASKED), da.asarray(MASKED), da.ma.masked_array(MASKED.data, mask=MASKED.mask)):
        assert place_of(masked) == "host"
        assert masked.compute().mask.tolist() == MASKED.mask.tolist()
        assert float(masked.sum().compute()) == 8


@pytest.mark.parametrize(
    ("data", "operation", "name"),
    [
        (MASKED, lambda x, y: x + y, "add"),
        (MASKED, lambda x, y: y * x, "mul"),
        (WORDS, lambda x, y: x * y.astype(int), "mul"),
        (DAYS, lambda x, y: x + y.astype(int), "add"),
        (WORDS, lambda x, y: da.where(y > 1, x, "none"), "where"),
        (MASKED, lambda x, y: da.concatenate([x, y]), "concatenate"),
        (WORDS, lambda x, y: da.stack([y, x]), "stack"),
        (WORDS, lambda x, y: da.tensordot(y.astype(int), x, axes=1), "tensordot"),
    ],
)
def test_an_operation_with_an_array_that_cupy_cannot_hold_runs_on_the_host(cell, data, operation, name):
    expected = operation(array(data), array(NUMBERS)).compute(scheduler="sync")
    on_host = cell()
    numbers = array(NUMBERS)
    assert place_of(numbers) == "gpu"
    result = operation(array(data), numbers)
    assert place_of(result) == "host"
    assert np.array_equal(np.ma.filled(result.compute(), -1), np.ma.filled(expected, -1))
    assert on_host()[name] >= 2


RECORDS = np.array([(1, 2.0), (3, 4.0), (5, 6.0), (7, 8.0)], dtype=[("a", "i8"), ("b", "f8")])


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x * (array(WORDS) == "a"),
        lambda x: da.where(array(DAYS) > DAYS[1], x, np.ones(4)),
        lambda x: x + (array(DAYS) - DAYS[0]).astype(int) * np.arange(4),
        lambda x: array(RECORDS)["b"] + x,
        lambda x: da.ma.filled(array(MASKED), 0) - x,
        lambda x: da.ma.getmaskarray(array(MASKED)) & (x > 0),
        lambda x: da.isin(array(WORDS), ["a", "c"]) | (x > 2),
        lambda x: da.concatenate([array(WORDS).map_blocks(lambda words: words == "b", dtype=bool), x > 0]),
        lambda x: x.astype("m8[s]") / np.timedelta64(1, "s") + x,
        lambda x: assigned(x, array(WORDS) == "a", 9.0),
    ],
)
def test_numbers_computed_from_what_cupy_cannot_hold_are_moved_to_numbers_on_gpus(cell, operation):
    expected = operation(array(NUMBERS)).compute(scheduler="sync")
    cell()
    result = operation(array(NUMBERS))
    assert place_of(result) == "gpu"
    found = result.compute().get()
    assert found.tolist() == expected.tolist()
    assert found.dtype == expected.dtype


def assigned(array, where, value):
    array = array.copy()
    array[where] = value
    return array


def test_it_is_refused_by_strict_and_without_the_fallback(cell):
    cell("strict")
    with pytest.raises(NotOnGpuError, match=r"add .*cannot run on the GPU: TypeError: CuPy has no masked arrays"):
        array(MASKED) + array(NUMBERS)
    cell("error")
    with pytest.raises(MixedBackendsError):
        array(MASKED) + array(NUMBERS)


def test_arrays_that_cupy_could_hold_are_still_refused(cell):
    outside = array(NUMBERS)
    cell()
    with pytest.raises(MixedBackendsError):
        outside + array(NUMBERS)


@pytest.mark.parametrize(
    ("where", "number", "axis"),
    [(1, 6, 1), (1, 6, -1), (0, 6.5, 0), ([1, 2], np.int8(6), 1), (slice(0, 2), 6, 0), (-1, 6, 1)],
)
def test_a_number_is_inserted(cell, where, number, axis):
    data = np.arange(6).reshape(2, 3)
    expected = da.insert(array(data), where, number, axis).compute(scheduler="sync")
    cell()
    result = da.insert(array(data), where, number, axis)
    assert place_of(result) == "gpu"
    assert result.dtype == expected.dtype
    assert result.compute().get().tolist() == expected.tolist()


def test_a_function_of_numpy_that_dask_has_not_gets_the_results_of_the_cell():
    with switched_to("cupy", "pandas", CellRecord(fallback="host", results="host")), dask.config.set(scheduler="sync"):
        ones = da.ones((4, 4), chunks=2)
        with pytest.warns(FutureWarning, match="einsum_path"):
            assert np.einsum_path("ij,jk->ik", ones, ones)[0] == ["einsum_path", (0, 1)]


FRAME = dd.from_pandas(
    pd.DataFrame({"n": [1, 2], "x": [1.0, 2.5], "when": pd.to_datetime(["2024", "2025"]), "name": ["a", "b"]}),
    npartitions=1,
)

TEXTS = FRAME[["n", "name"]]

GRADES = dd.from_pandas(
    pd.DataFrame({"grade": pd.Categorical(["low", "high"], ["low", "high"], ordered=True)}), npartitions=2
).grade
BY_CATEGORY = dd.from_pandas(TEXTS.compute().astype({"name": "category"}), npartitions=2)


BY_DAY = dd.from_pandas(pd.DataFrame({"x": NUMBERS}, index=pd.DatetimeIndex(DAYS)), npartitions=1)


def merged_by_index(left, right, how):
    """The merge, whose index Dask renames."""
    return SimpleNamespace(expr=left.merge(right, left_index=True, right_index=True, how=how).expr.frame)


@pytest.mark.parametrize(
    ("make", "differs"),
    [
        (lambda f: f.name.str.encode("ascii"), True),
        (lambda f: f.name.str.findall("a"), True),
        (lambda f: f.name.str.replace({"a": "b"}), True),
        (lambda f: f.name.str.replace("a", "b"), False),
        (lambda f: f.name.str.replace(re.compile("A", re.IGNORECASE), "b", regex=True), True),
        (lambda f: f.name.str.count(re.compile("A", re.IGNORECASE)), True),
        (lambda f: f.name.nunique_approx(), True),
        (lambda f: f.groupby("n").x.idxmin(), True),
        (lambda f: f.groupby("n")[["x"]].idxmax(), True),
        (lambda f: f.name.str.upper(), False),
        (lambda _: GRADES.cat.set_categories(["low", "mid", "high"]), True),
        (lambda _: GRADES.cat.add_categories(["top"]), True),
        (lambda _: GRADES.cat.set_categories(["low", "high"], ordered=True), False),
        (lambda _: GRADES.cat.set_categories(["low", "high"], True), False),
        (lambda _: GRADES.cat.as_unordered().cat.remove_categories(["low"]), False),
        (lambda f: f.when.dt.time, True),
        (lambda f: f.when.dt.hour, False),
        (lambda f: BY_DAY.resample("2D").agg({"x": lambda x: x.mean()}), True),
        (lambda f: BY_DAY.resample("2D").agg({"x": "mean"}), False),
        (lambda f: f.x + 1, False),
        (lambda f: f.dropna(thresh=None), True),
        (lambda f: f.dropna(thresh=1), False),
        (lambda f: f[["n"]].pow(f[["x"]], fill_value=0), True),
        (lambda f: f.x.rpow(f.n, fill_value=0), True),
        (lambda f: f[["n"]].pow(f[["x"]]), False),
        (lambda f: f[["n"]].add(f[["x"]], fill_value=0), False),
        (lambda f: f[["n", "x"]].groupby(f.n + 1).mean(), True),
        (lambda f: f[["n", "x"]].groupby(f.n + 1).transform("sum"), True),
        (lambda f: f[["n", "x"]].groupby([f.n + 1, f.x > 1]).var(), True),
        (lambda f: f[["n", "x"]].groupby(f.n + 1).sum(), False),
        (lambda f: f[["n", "x"]].groupby("n").mean(), False),
        (lambda f: f.groupby(f.n > 1).x.mean(), False),
        (lambda f: f.groupby("n").x.mean(), False),
        (lambda f: dd.concat([f[["n"]], f[["x"]]], join="inner"), True),
        (lambda f: dd.concat([f, f.x], join="inner"), True),
        (lambda f: dd.concat([f, f[["x"]]], join="inner"), False),
        (lambda f: dd.concat([f.x, f.n], join="inner"), False),
        (lambda f: dd.concat([f, f]), False),
        (lambda f: dd.concat([f.set_index("n"), f.set_index("x", sorted=True)], axis=1), True),
        (lambda f: dd.concat([f[["n"]], f[["x"]]], axis=1), False),
        (lambda f: f.merge(f, on="n"), False),
        (lambda f: f.merge(f, left_index=True, right_on="n"), True),
        (lambda f: f[["x"]].merge(f, left_index=True, right_on="n"), False),
        (lambda f: f.merge(f, left_on=["n"], right_index=True), True),
        (lambda f: f.merge(f, left_index=True, right_index=True), False),
        (lambda f: f.merge(f, left_index=True, right_index=True, how="outer"), False),
        (lambda f: merged_by_index(f, f.rename_axis("i"), "outer"), True),
        (lambda f: merged_by_index(f, f.rename_axis("i"), "left"), False),
        (lambda f: da.clip(f[["n"]], 0.5, 3), True),
        (lambda f: da.clip(f[["n"]], 0, 3), False),
        (lambda f: da.clip(f[["x"]], 0.5, 3), False),
        (lambda f: np.sqrt(f.n), False),
        (lambda f: np.fmax(f.x, 0), True),
        (lambda f: np.logical_or(f.x, f.n), True),
        (lambda f: np.fmax(f.n, 0), True),
        (lambda f: np.float_power(f.x, f.x), True),
        (lambda f: np.float_power(f.x, 0.0), True),
        (lambda f: np.float_power(f.x, 2.0), False),
        (lambda f: np.maximum(f.x, 0), False),
        (lambda f: np.hypot(f.x, 2.0), True),
        (lambda f: np.heaviside(f.n, 2), True),
        (lambda f: np.logical_or(f.n > 1, f.x > 1), False),
        (lambda f: np.arctan2(2, f.n), True),
        (lambda f: np.arctan2(f.n, 2), False),
        (lambda f: np.arctan2(f.n, f.x), False),
        (lambda f: np.subtract(2, f.n), False),
        (lambda f: np.fmod(f.n, 3), True),
        (lambda f: np.mod(f.n, 3), False),
        (lambda f: np.float_power(f.n, 30), True),
        (lambda f: np.float_power(f.n, f.n), True),
        (lambda f: np.float_power(f.n, 0.5), False),
        (lambda f: SimpleNamespace(expr=np.sqrt(f.n).expr.substitute_parameters({"func": np.real})), True),
        (lambda f: f.name.str.cat(f.name.str.upper(), sep=":"), False),
        (lambda f: f.name.str.cat([f.name, pd.Series(["c", "d"])]), True),
        (lambda f: f.name.str.cat(), False),
        (lambda f: f.groupby("n").max(), False),
        (lambda f: f.groupby("n").max(numeric_only=True), False),
        (lambda f: f.groupby(f.n)[["name"]].first(), False),
        (lambda f: f.groupby("n").name.max(), False),
        (lambda f: f.groupby("n")[["x", "name"]].sum(), True),
        (lambda f: f.groupby("n")[["x"]].sum(), False),
        (lambda f: f.groupby("n")[["x", "name"]].sum(numeric_only=True), False),
        (lambda _: BY_CATEGORY.groupby("n").first(), True),
        (lambda _: BY_CATEGORY.groupby("name").first(), False),
        (lambda _: BY_CATEGORY.set_index("name"), True),
        (lambda _: BY_CATEGORY.set_index(BY_CATEGORY.name, divisions=["a", "b"]), True),
        (lambda _: BY_CATEGORY.sort_values(["n", "name"]), True),
        (lambda _: BY_CATEGORY.sort_values("n"), False),
        (lambda f: f.astype({"name": "category"}).set_index("name"), False),
        (lambda f: f.set_index("name").index.str.findall("a"), True),
        (lambda f: f.groupby("n").agg({"x": ["median", "median"]}), True),
        (lambda f: f.groupby("n").agg({"x": ["median", np.median]}), True),
        (lambda f: f.groupby("n").agg({"x": ["median", "sum"]}), False),
        (lambda f: f.rename(columns={"x": "n"}), True),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_expressions_whose_result_differs_are_known(make, differs):
    assert bool(reason_for_host(make(FRAME).expr)) == differs


@pytest.mark.parametrize("name", ["first", "last"])
def test_groups_that_cannot_be_aggregated_have_their_own_error(name, monkeypatch):
    grouped = getattr(FRAME.groupby("n"), name)()

    def refuse(*_args, **_kwargs):
        raise TypeError(f"category type does not support {name} operations")

    monkeypatch.setattr(type(grouped.expr), "chunk", refuse)
    expression = type(grouped.expr)(*grouped.expr.operands[:-1], "other")
    with pytest.raises(TypeError):
        expression._meta  # noqa: B018
    assert not reason_for_host(expression)


NUMBERS_WITH_NAN = [np.nan, 0.0, 1.0, -1.0, 2.0, 3.5, np.inf, -np.inf]
OPERATORS_OF_CUDF = {
    *("add", "subtract", "multiply", "divide", "floor_divide", "power", "float_power", "remainder", "fmod"),
    *("equal", "not_equal", "greater", "greater_equal", "less", "less_equal", "matmul"),
}
"""The functions of NumPy that cuDF 26.10 replaces by operators; all others it leaves to CuPy."""


def ufuncs_of_two():
    found = {getattr(np, name) for name in dir(np) if isinstance(getattr(np, name), np.ufunc)}
    return sorted((one for one in found if one.nin == 2 and one.nout == 1 and not one.signature), key=str)


@pytest.mark.parametrize("function", ufuncs_of_two(), ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_two_numbers_that_cudf_gets_wrong_are_known(function):
    """Compares each function of NumPy with what cuDF does with every such function."""
    name = function.__name__

    def value(*operands):
        try:
            return function(*operands)
        except TypeError:  # not for these
            return None

    pairs = [(a, b) for a in NUMBERS_WITH_NAN for b in NUMBERS_WITH_NAN]
    pairs += [(int(a), int(b)) for a in (1, 2, 3) for b in (1, 2, 3)]
    values = [(pair, value(*pair), value(*pair[::-1])) for pair in pairs]
    not_missing = any(np.isnan(pair).any() and one is not None and not np.isnan(one) for pair, one, _ in values)
    assert not not_missing or name in {*_WITH_NAN, *COMPARED_BY_UFUNC, "power"}  # cuDF has the powers of NaN and 0
    not_symmetric = any(one is not None and not np.array_equal(one, other, equal_nan=True) for _, one, other in values)
    assert not not_symmetric or name in _NOT_SYMMETRIC or name in OPERATORS_OF_CUDF


def test_times_of_a_day_lists_and_columns_of_one_name_stay_on_the_host():
    assert is_only_of_pandas(FRAME.when.dt.time.expr)
    assert is_only_of_pandas(FRAME.name.str.findall("a").expr)
    assert is_only_of_pandas(FRAME[["x", "x"]].expr)
    assert not is_only_of_pandas(FRAME.when.dt.hour.expr)
    assert not is_only_of_pandas(FRAME.x.sum().expr)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "differs"),
    [
        ("clip", (FRAME[["n"]], 0.5), {}, True),
        ("clip", (FRAME[["n"]], 1.0, 2), {}, False),
        ("clip", (FRAME.x,), {"upper": 0.5}, False),
        ("describe", (FRAME,), {}, True),
        ("describe", (FRAME.x,), {}, False),
        ("describe", (FRAME.x,), {"percentiles": [0.1, 0.9]}, False),
        ("describe", (TEXTS.name,), {}, True),
        ("describe", (TEXTS,), {}, False),
        ("describe", (TEXTS, False, [0.1, 0.9]), {}, False),
        ("describe", (TEXTS,), {"include": "all"}, True),
        ("describe", (TEXTS,), {"include": "str"}, True),
        ("describe", (TEXTS,), {"exclude": np.dtype(float)}, True),
        ("describe", (TEXTS,), {"percentiles_method": "dask"}, False),
        ("describe", (TEXTS,), {"exclude": ["number"]}, True),
        ("describe", (TEXTS[["name"]],), {}, True),
        ("groupby", (FRAME.x, FRAME.x > 1), {}, True),
        ("groupby", (FRAME.x, FRAME.n), {}, False),
        ("groupby", (FRAME[["n", "x"]], "n"), {}, False),
        ("groupby", (FRAME[["n", "x"]], [FRAME.n > 1, "x"]), {}, False),
        ("isin", (FRAME.x.astype("category"), [1]), {}, True),
        ("isin", (FRAME, [1]), {}, False),
        ("mode", (FRAME,), {}, False),
        ("mode", (FRAME.x,), {}, False),
        ("rename_axis", (FRAME,), {"index": {"a": "b"}}, True),
        ("rename_axis", (FRAME,), {"index": "b"}, False),
        ("replace", (FRAME, {"n": {1: 2}}), {}, True),
        ("replace", (FRAME, {1: 2}), {}, True),  # beside times
        ("replace", (FRAME[["n", "x"]], {1: 2}), {}, False),
        ("replace", (FRAME.name, {"a": None}), {}, True),
        ("replace", (FRAME.name, "a", "b"), {}, True),
        ("replace", (FRAME, ["a"]), {"value": "b"}, True),
        ("replace", (FRAME.x, "a", "b"), {}, False),
        ("replace", (FRAME.name, "a", None), {}, True),
        ("replace", (FRAME.x, np.nan, 0), {}, False),
        ("replace", (FRAME.x > 1, True, 0), {}, True),
        ("replace", (FRAME, np.nan, pd.Timestamp("2024-01-01")), {}, False),
        ("corr", (FRAME[["n", "x"]],), {}, False),
        ("var", (FRAME[[]],), {}, True),
        ("std", (FRAME[["n"]],), {}, False),
        ("sem", (FRAME.n,), {}, False),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_methods_whose_result_differs_run_on_the_host(cell, name, args, kwargs, differs):
    def moved(argument):
        if isinstance(argument, list):
            return list(map(moved, argument))
        return to_gpu(argument) if is_dask_collection(argument) else argument

    owner, *others = map(moved, args)
    on_host = cell()
    result = getattr(owner, name)(*others, **kwargs)
    if name == "groupby":
        result = result.sum()
    assert place_of(result) == "gpu"
    assert bool(on_host()) == differs
