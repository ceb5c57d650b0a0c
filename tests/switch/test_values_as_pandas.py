"""Values of dataframes on GPUs are those of pandas, missing ones too. Here cuDF is a subclass of pandas."""

from contextlib import nullcontext
from types import SimpleNamespace

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cudf_stand_in import FRAME, Frame, Series, as_stand_in, assert_equal, cases, gpu_cell, on_both, to_gpu_as
from dask._collections import new_collection
from dask.dataframe.dask_expr._concat import Concat
from dask.dataframe.dask_expr.io import FromPandas

from jupyter_gpudask.fallback.missing import DifferentResultError
from jupyter_gpudask.inspection.placement import place_of, to_gpu
from jupyter_gpudask.patches.frames.as_pandas import AsTypeAsPandas, replaced
from jupyter_gpudask.patches.frames.missing_values import COMPARED_BY_UFUNC, cat

pytestmark = pytest.mark.usefixtures("cudf_stand_in")


def flags(frame):
    return frame.k > 3


def small(frame):
    return frame.k.astype("int32") + 2**24


def codes(frame):
    return frame.name.astype(pd.CategoricalDtype(["a", "b", "cc"])).cat.codes


NAN = float("nan")


def tenths(frame):
    return (frame.k - 4) / 10


def of_arrow(frame):
    return frame[["k", "x"]].astype({"x": "double[pyarrow]"})


COMPUTATIONS = {
    "quotients and remainders of floats are not rounded": [
        lambda f: tenths(f) // 0.1,
        lambda f: tenths(f) % 0.1,
        lambda f: tenths(f) % np.inf,
        lambda f: tenths(f) // f.k,
        lambda f: f.k % tenths(f),
        lambda f: 1 // tenths(f),
        lambda f: -7 % tenths(f),
        lambda f: tenths(f).astype("float32") // 0.1,
        lambda f: tenths(f).floordiv(0.1),
        lambda f: tenths(f).rmod(1),
        lambda f: np.remainder(tenths(f), 0.1),
        lambda f: np.floor_divide(tenths(f), 0.1),
        lambda f: f.x % (-f.x).min(),
        lambda f: f.x.astype("Float64") // 0.1,
        lambda f: f.x.astype("double[pyarrow]") // 0.1,
        lambda f: f[["k", "x"]] % 0.3,
        lambda f: f[["k", "x"]] // f[["k", "x"]],
        lambda f: f[["k", "x"]].rmod(0.7),
        lambda f: f.k.astype("Int64").mask(f.k > 5) // 0.3,
        lambda f: f.k.astype("Int64").mask(f.k > 5) % tenths(f),
        lambda f: flags(f) // 0.3,
        lambda f: f[["k", "when"]].assign(h=f.k > 3)[["k", "h"]] // 0.3,
        lambda f: (f.x * np.inf) // 0.1,
        lambda f: tenths(f) % -np.inf,
        lambda f: f.k // 3,
    ],
    "integers that are replaced by NaN are missing": [
        lambda f: f.k.replace(5, np.nan),
        lambda f: f[["k", "x"]].replace({5: np.nan, 1.0: 7}),
        lambda f: f.k.astype("Int64").mask(f.k > 5).replace(5, np.nan),
    ],
    "NaN is a missing value of Arrow": [
        lambda f: of_arrow(f).x <= NAN,
        lambda f: of_arrow(f).x != NAN,
        lambda f: (of_arrow(f) <= NAN) | (of_arrow(f) > 3),
        lambda f: (of_arrow(f) < NAN).x,
        lambda f: (of_arrow(f) < NAN)[["k"]],
        lambda f: of_arrow(f).mask((of_arrow(f) <= NAN) | (of_arrow(f) > 3)),
        lambda f: f.x <= NAN,
    ],
    "booleans and small integers are numbers": [
        lambda f: flags(f) - 0.5,
        lambda f: 0.5 * flags(f),
        lambda f: flags(f) + 127,
        lambda f: flags(f) + np.float32(0.25),
        lambda f: flags(f) - flags(f).mean(),
        lambda f: flags(f).astype("boolean") * 0.5,
        lambda f: flags(f).sub(0.5),
        lambda f: flags(f) < 0.5,
        lambda f: flags(f).between(0.2, 0.8),
        lambda f: np.multiply(flags(f), 0.5),
        lambda f: np.less(flags(f), 0.5),
        lambda f: flags(f) / 3,
        lambda f: small(f) / 1,
        lambda f: 1 / small(f),
        lambda f: small(f) / (f.k.astype("int16") + 1),
        lambda f: small(f).div(3),
        lambda f: np.divide(small(f), 3),
        lambda f: flags(f) == True,  # noqa: E712
        lambda f: f.k * 0.5,
        lambda f: f.k / 3,
        lambda f: f[["k", "x"]].assign(p=f.k > 3) * 0.5,
    ],
    "an infinite quotient has the sign of its operands, and the others theirs": [
        lambda f: 2 / ((f.k - 3) * -1.0),
        lambda f: ((f.k - 3) * -1.0).rdiv(2),
        lambda f: 2 / ((f[["k", "x"]] - 3) * -1.0),
        lambda f: (f.k / 0.0) / -2,
        lambda f: f.k / ((f.k - 3) * -1.0),
    ],
    "a comparison with NaN is true or false": [
        lambda f: f.x > 0,
        lambda f: f.x != 1,
        lambda f: ~(f.x == 1),
        lambda f: f.x.ne(1),
        lambda f: f.x >= f.k,
        lambda f: f.x.between(0, 2),
        lambda f: f.when < pd.Timestamp("2024-06-01"),
        lambda f: f.when != f.when,
        lambda f: f[["x", "k"]] != 1,
        lambda f: f[["k", "x"]].le(4),
        lambda f: f[["k"]].le(f[["x"]]),
        lambda f: f[~(f.x > 0)].k,
    ],
    "NaN is converted to true": [
        lambda f: f.x.astype(bool),
        lambda f: f[["x", "k"]].astype("bool"),
        lambda f: f[["x", "k"]].astype({"x": bool}),
        lambda f: f[["x", "k"]].astype({"x": bool, "k": float}).x,
        lambda f: f[["x", "k"]].astype({"x": bool, "k": "Int64"}),
        lambda f: f.x.astype("boolean"),
        lambda f: f.k.astype(bool),
    ],
    "a comparison of texts keeps missing values": [
        lambda f: f.name == "b",
        lambda f: f[["name", "x"]] != "b",
        lambda f: f.name.where(f.k < 0) != "b",
        lambda f: f[f.name.where(f.k < 0) == "b"].k,
    ],
    "rounded numbers of a nullable dtype keep missing values": [lambda f: f.x.astype("Float64").round(0) > 0],
    "missing values are among others of which one is missing": [
        lambda f: f[f.x.isin([1.0, np.nan])].k,
        lambda f: f[f.x.isin([None])].k,
        lambda f: f[f.x.isin([2.0])].k,
        lambda f: f[f.when.isin([None])].k,
        lambda f: f[f.when.isin([pd.Timestamp("2024-05-01"), pd.NaT])].k,
    ],
    "functions of NumPy compare NaN": [
        lambda f: np.isnan(f.x),
        lambda f: ~np.isfinite(f.x),
        lambda f: np.isnan(f[["x", "k"]]),
        lambda f: np.isfinite(f[["x", "k"]]),
        lambda f: np.not_equal(f.x, 1),
        lambda f: np.greater(f.x, f.k),
        lambda f: f[np.isnan(f.x)].k,
    ],
    "no value of a column is lost because another one is missing": [
        lambda f: np.sqrt(f[["x", "k"]]),
        lambda f: np.exp(f[["k", "x"]]),
        lambda f: np.maximum(f[["x", "k"]], 2),
        lambda f: np.arctan2(f[["x", "k"]], f[["x", "k"]] + 1),
        lambda f: np.add(f[["x", "k"]], 1),
        lambda f: np.less(f[["x", "k"]], 3),
    ],
    "infinities are missing in windows": [
        lambda f: (f.k / (f.k - 3)).rolling(2).max(),
        lambda f: f[["k"]].assign(z=f.k / (f.k - 3)).rolling(2).max(),
    ],
    "rows are concatenated": [
        lambda f: dd.concat([f[["k", "x"]], f[["x", "name", "k"]]], join="inner"),
        lambda f: dd.concat([f[["x", "k"]], f, f[["name", "k"]]], join="inner", axis="index"),
        lambda f: dd.concat([f.x, f.k], join="inner"),
        lambda f: dd.concat([f[["k"]], f[["x", "k"]]], join="outer"),
        lambda f: dd.concat([f[["k", "x"]], f[["k", "x"]]]),
    ],
}
WITH_DTYPES = {
    "functions of several columns and a number": [
        lambda f: np.maximum(f[["x", "k"]], 2),
        lambda f: np.maximum(2, f[["x", "k"]]),
        lambda f: np.add(f[["x", "k"]], 1),
        lambda f: np.negative(f[["x", "k"]]),
    ],
    "integers in which nothing is replaced remain integers": [
        lambda f: f.k.where(f.k >= 0),
        lambda f: f.k.mask(f.k > 3),
        lambda f: f[["k"]].mask(f[["k"]] > 99),
        lambda f: f[["k", "x"]].where(f[["k", "x"]] != 3),
        lambda f: f.k.where(f.k != 3, -1),
    ],
    "an accessor": [
        lambda f: f.name.str.len(),
        lambda f: f.name.str.isalnum(),
        lambda f: f.name.str.count("c"),
        lambda f: f.name.str.upper(),
        lambda f: f.when.dt.is_quarter_end,
        lambda f: f.when.dt.quarter,
        lambda f: f.dropna().when.dt.quarter,
        codes,
    ],
}


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")  # of NumPy, which stands for CuPy
@pytest.mark.parametrize(("compute", "has_dtypes"), [*cases(COMPUTATIONS, False), *cases(WITH_DTYPES, True)])
def test_values_are_those_of_pandas(compute, has_dtypes):
    expected, result = on_both(compute)
    assert_equal(result, expected, check_dtype=has_dtypes)


AT_TIMES = pd.DataFrame(
    {"k": [1, 2, 1, 1, 2, 2], "x": [0.0, -1.0, 5.0, 1.0, 7.0, 2.0]},
    index=pd.DatetimeIndex([f"2024-05-0{day}" for day in (1, 1, 1, 2, 4, 4)]),
)


@pytest.mark.parametrize("npartitions", [1, 2])
@pytest.mark.parametrize(
    ("compute", "repeated"),
    [
        (lambda f: f.x.rolling("2D").max(), AT_TIMES.index.duplicated()),
        (lambda f: f.rolling("2D").max(), AT_TIMES.index.duplicated()),
        (
            lambda f: f.groupby("k").x.rolling("3D").max(),
            AT_TIMES.reset_index()[["index", "k"]].duplicated().to_numpy(),
        ),
    ],
)
def test_windows_of_times_are_computed_on_the_host_if_these_repeat(npartitions, compute, repeated):
    with pytest.raises(DifferentResultError):
        compute(to_gpu(dd.from_pandas(AT_TIMES, npartitions=npartitions))).compute()
    once = dd.from_pandas(AT_TIMES[~repeated], npartitions=npartitions)
    result = compute(to_gpu(once)).compute()
    result = result.to_pandas() if hasattr(result, "to_pandas") else result
    assert result.equals(compute(once).compute())


class AnyNumber(Series):
    """Converts as cuDF, which makes an integer of any number."""

    __module__ = Series.__module__

    def astype(self, dtype, **options):
        dtype = pd.api.types.pandas_dtype(dtype)
        plain = pd.Series(self)
        if not hasattr(dtype, "numpy_dtype") or dtype.kind == "f":
            return AnyNumber(plain.astype(dtype, **options))
        numbers = plain.fillna(0).to_numpy("float64").astype("bool" if dtype.kind == "b" else "int64")
        return AnyNumber(pd.Series(numbers.astype(dtype.numpy_dtype)).astype(dtype).mask(self.isna()))


@pytest.mark.parametrize("wanted", ["Int8", "UInt8", "Int64", "boolean", "Float32", "int8[pyarrow]", "bool[pyarrow]"])
@pytest.mark.parametrize(
    "series",
    [
        *(pd.Series([1, 0], dtype=dtype) for dtype in ("float64", "Float64", "int64", "uint8", "int64[pyarrow]")),
        *(pd.Series([300, 1], dtype=dtype) for dtype in ("float32", "Float64", "int64", "Int16", "int64[pyarrow]")),
        *(pd.Series([-1, 0], dtype=dtype) for dtype in ("float64", "Float64", "int64", "Int16", "int64[pyarrow]")),
        *(pd.Series([1.5, None], dtype=dtype) for dtype in ("float64", "float32", "Float64")),
        *(pd.Series([1, None], dtype=dtype) for dtype in ("float64", "Float64", "Int16", "int64[pyarrow]")),
    ],
    ids=lambda series: f"{series.tolist()} {series.dtype}",
)
def test_a_number_becomes_a_nullable_one_or_an_error(series, wanted):
    convert = AsTypeAsPandas.operation
    try:
        expected = series.astype(wanted)
    except (ValueError, TypeError):
        with pytest.raises(TypeError):
            convert(AnyNumber(series), wanted)
        return
    pd.testing.assert_series_equal(convert(AnyNumber(series), wanted).to_pandas(), expected)


class Integers(Series):
    """As integers of cuDF, of which some may be missing."""

    __module__ = Series.__module__
    dtype = np.dtype("int64")


@pytest.mark.parametrize(
    ("numbers", "is_different"),
    [
        (Integers([2, None]), True),
        (Integers([2, 3]), False),
        (Series([2, None], dtype="Int64"), False),
        (Series([2.0, 3.0]), True),
        (Frame({"a": [2], "b": [2.5]}), True),
        (Series([True, False]), False),
    ],
    ids=str,
)
def test_texts_of_integers_beside_missing_ones_are_made_on_the_host(numbers, is_different):
    """As after ``replace(0, np.nan)``; pandas has floats."""
    with pytest.raises(DifferentResultError) if is_different else nullcontext():
        AsTypeAsPandas.operation(numbers, "string")
    assert AsTypeAsPandas.operation(pd.Series([2.0, None]), "string").tolist() == ["2.0", pd.NA]


OF_COLUMNS = {
    "fillna": lambda frame: frame.fillna({"x": -5.0, "k": 7}),
    "fillna by a Series": lambda frame: frame.fillna(pd.Series({"x": -5.0, "k": 7})),
    "isin": lambda frame: frame.isin({"k": [1], "x": [2.0]}),
    "replace by a value": lambda frame: frame.replace({"k": 1}, 7),
    "replace by dictionaries": lambda frame: frame.replace({"k": {1: 2, 2: 1}}),
    "replace by values": lambda frame: frame.replace({"k": 1, "x": 2.0}, {"k": 7, "x": -1.5}),
    "round": lambda frame: (frame / 7).round({"k": 1, "x": 2}),
}
"""With arguments that have a value for each column; Dask on the CPU fails for one column, or loses them."""


@pytest.mark.parametrize("columns", ["x", "k", ["k", "x"]], ids=str)
@pytest.mark.parametrize("change", OF_COLUMNS)
def test_a_column_that_is_selected_after_a_change_of_columns_is_changed(change, columns):
    def compute(frame):
        return OF_COLUMNS[change](frame[["k", "x"]])[columns]

    assert_equal(compute(to_gpu(dd.from_pandas(FRAME, npartitions=3))).compute(), compute(FRAME))


def test_a_column_that_is_selected_after_a_change_of_columns_on_the_host_is_changed():
    with gpu_cell(fallback="host"):
        frame = dd.from_pandas(pd.DataFrame({"k": [1, 2], "x": [1.5, 2.5]}), npartitions=1)
        changed = frame.replace({"k": {1: 2, 2: 1}})
    assert changed.k.compute().tolist() == [2, 1]


OTHERS = {
    "integers": pd.DataFrame({"e": [4]}, index=[1]),
    "small integers": pd.DataFrame({"e": pd.array([4], "UInt8")}, index=[1]),
    "another column": pd.DataFrame({"z": [4], "t": ["a"]}, index=[1]),
    "objects beside them": pd.DataFrame({"k": ["a"], "e": [4]}, index=[1]),
    "another row": pd.DataFrame({"e": [4]}, index=[9]),
}


@pytest.mark.parametrize("other", OTHERS)
def test_values_that_are_filled_from_a_partition_without_rows_keep_their_fractions(other):
    """pandas converts them to the dtypes of no rows, and so has Dask 2026.7 other values than pandas on the CPU."""
    frame = pd.DataFrame({"e": [-1.5, None, 2.5, 3.5], "k": [1, 2, 3, 4]})
    with gpu_cell(fallback="host", results="host"):
        one, two = (dd.from_pandas(each, npartitions=n) for each, n in ((frame, 2), (OTHERS[other], 1)))
        result = one.combine_first(two).compute()
    pd.testing.assert_frame_equal(result.sort_index(), frame.combine_first(OTHERS[other]), check_dtype=False)


@pytest.mark.parametrize(
    "compute",
    [
        lambda one, other: one.combine_first(other),
        lambda one, other: one + other,
        lambda one, other: one.x.fillna(other.x),
        lambda one, other: one.mask(other > 3),
    ],
)
@pytest.mark.parametrize("clear", [(True, False), (False, True), (False, False)])
def test_single_partitions_are_aligned_of_which_the_divisions_differ(compute, clear):
    """Files are read as one partition: where Dask has several on the CPU, and shuffles them, it would fail."""
    last = 3 if any(clear) else 4
    frames = [pd.DataFrame({"x": [1, None, 3]}), pd.DataFrame({"x": [2, 4, 6]}, range(last - 3, last))]
    with gpu_cell(fallback="host"):
        given = [dd.from_pandas(frame, npartitions=1) for frame in frames]
        pairs = zip(given, clear, strict=True)
        result = compute(*(frame.clear_divisions() if is_cleared else frame for frame, is_cleared in pairs)).compute()
    assert_equal(result, compute(*frames))


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("keys", [("k", "id"), ("id", "k"), (["k", "x"], ["id", "y"])])
@pytest.mark.parametrize(
    "select",
    [
        lambda frame: frame.id_y,
        lambda frame: frame[["id_x", "x"]],
        lambda frame: frame[["id_y", "k_x"]],
        lambda frame: frame.id_x + frame.k_y,
        lambda frame: frame.eval("x != id_y"),
    ],
)
def test_keys_that_have_a_suffix_are_selected(select, keys, how):
    one = pd.DataFrame({"id": [1, 2, 3], "k": [7, 8, 9], "x": [1, 2, 3], "a": [0, 0, 0]})
    two = pd.DataFrame({"id": [7, 8, 2], "k": [3, 2, 5], "y": [1, 2, 3], "b": [0, 0, 0]})
    options = {"left_on": keys[0], "right_on": keys[1], "how": how}
    with gpu_cell(fallback="host", results="host"):
        frames = (dd.from_pandas(each, npartitions=n) for each, n in ((one, 2), (two, 1)))
        result = pd.DataFrame(select(next(frames).merge(next(frames), **options)).compute())
    expected = pd.DataFrame(select(one.merge(two, **options)))
    names = list(expected)
    rows = (each.sort_values(names).reset_index(drop=True) for each in (result, expected))
    pd.testing.assert_frame_equal(*rows, check_dtype=False)


def medians(frame, key, **options):
    return frame.groupby(key, **options).x.median().to_frame()


@pytest.mark.parametrize(
    "compute",
    [
        lambda large, small, other: large.merge(small, on="k").merge(other, on="k"),
        lambda large, small, other: large.merge(small, on="k", how="left")[["k", "x"]].merge(other, on="k"),
        lambda large, small, other: other.merge(small.merge(large, on="k", how="right"), on="k", how="outer"),
        lambda large, small, _: medians(large.merge(small, on="k"), "k"),
        lambda large, small, _: medians(large.merge(small, left_on="x", right_on="y", how="left"), "y", dropna=False),
        lambda large, _, other: medians(large.merge(other, left_on="x", right_on="z", how="left"), "z", dropna=False),
        lambda large, small, other: medians(large.merge(other, on="k"), "k").reset_index().merge(small, on="k"),
        lambda large, small, other: large.merge(other, on="k").groupby("k").x.sum().reset_index().merge(small, on="k"),
        lambda large, small, _: large.k.value_counts().to_frame("n").join(small.set_index("k")),
        lambda large, _, other: large.drop_duplicates().join(other[["z"]], how="outer"),
        lambda large, *_: medians(large.drop_duplicates(), "k"),
        lambda large, small, other: small[["y"]].join(large).join(other[other.k > 1][["z"]].drop_duplicates()),
    ],
)
def test_rows_meet_in_merges_and_groups_after_merges(compute):
    """Where Dask takes the partitions of the first merge for those of a shuffle by its key, on the CPU too."""
    size = 60
    large = pd.DataFrame({"k": np.arange(size) % 20, "x": range(size)}, index=range(size))
    small, other = pd.DataFrame({"k": range(20), "y": range(20)}), pd.DataFrame({"k": range(15), "z": range(15)})
    frames = (large, small, other)
    with gpu_cell(fallback="host", results="host"):
        found = compute(*(dd.from_pandas(each, npartitions=n) for each, n in zip(frames, (30, 2, 7), strict=True)))
        result = found.compute()
    wanted = compute(*frames)
    names = list(wanted.columns)
    rows = (each.sort_values(names).reset_index(drop=True) for each in (result, wanted))
    pd.testing.assert_frame_equal(*rows, check_dtype=False)


@pytest.mark.parametrize("wanted", ["uint8", {"x": "uint64"}])
def test_negative_floats_are_refused_as_unsigned_integers(wanted):
    for place in (lambda frame: frame, to_gpu):
        frame = place(dd.from_pandas(pd.DataFrame({"x": [1.0, -2.0]}), npartitions=1))
        with pytest.raises(ValueError, match="Cannot losslessly cast from float64 to uint"):
            frame.astype(wanted).compute(scheduler="sync")


@pytest.mark.parametrize("method", ["mask", "where"])
@pytest.mark.parametrize(
    "select", [lambda frame: frame.x, lambda frame: frame[["k"]], lambda frame: frame.eval("k + k")]
)
def test_columns_are_selected_of_values_that_are_replaced_by_a_condition_of_several(method, select):
    def compute(frame):
        return select(getattr(frame[["k", "x"]], method)(frame[["k", "x"]] > 1, 0))

    result = compute(to_gpu(dd.from_pandas(FRAME, npartitions=3))).compute()
    assert_equal(result, compute(FRAME))  # where Dask has an error on the CPU, except for the text


@pytest.mark.parametrize(
    ("values", "value", "differs"),
    [([True], "a", True), ([1], "1", True), (["a"], 1, True), (["a"], "b", False), ([1], 2.5, False)],
)
def test_categories_are_compared_on_the_host_with_a_value_of_another_kind(values, value, differs):
    series, frame = Series(values, dtype="category"), Frame({"x": pd.Series(values, dtype="category"), "y": 1.0})
    for operand in (series, frame) if differs else (series,):
        for operands in ((operand, value), (value, operand)):
            with pytest.raises(DifferentResultError, match="kind of the categories") if differs else nullcontext():
                COMPARED_BY_UFUNC["not_equal"](*operands)


class Texts(Series):
    """As texts of cuDF, whose comparisons are missing where a text is."""

    def _cmp_method(self, other, op):
        return Series(super()._cmp_method(other, op)).astype("boolean").mask(self.isna())


@pytest.mark.parametrize("dtype", ["object", "str"])
@pytest.mark.parametrize("compare", [lambda s: s == "a", lambda s: s != "a", lambda s: s < "b"])
def test_comparisons_of_texts_with_nan_are_never_missing(dtype, compare):
    texts = pd.Series(["a", None, "b"], dtype=dtype)
    with dask.config.set({"dataframe.convert-string": False}):
        result = compare(to_gpu_as(Texts, dd.from_pandas(texts, npartitions=1))).compute()
    assert result.tolist() == compare(texts.astype("str")).tolist()


def test_other_arithmetic_keeps_its_expression():
    series = dd.from_pandas(FRAME.k, npartitions=3)
    on_gpu = to_gpu(series)
    for result in (on_gpu + 1, on_gpu / 2, on_gpu * on_gpu):
        assert replaced(result.expr) is result.expr
    frame = to_gpu(dd.from_pandas(FRAME[["k", "x"]], npartitions=3))
    assert type((frame * 2).expr).__name__ == "Mul"
    assert type(((frame > 2) * 2).expr).__name__ == "MulAsPandas"


TRUTH = pd.DataFrame(
    {
        "p": pd.array([True, False, None] * 3, dtype="boolean"),
        "q": pd.array([True] * 3 + [False] * 3 + [None] * 3, dtype="boolean"),
        "x": [1.0, None, 3.0] * 3,
    }
)


@pytest.mark.parametrize(
    "compute",
    [
        lambda f: f.p | f.q,
        lambda f: f.p & f.q,
        lambda f: ~(f.p & f.q) | f.q,
        lambda f: f.p | True,
        lambda f: f.p & False,
        lambda f: f[["p"]] | f[["p"]],
    ],
)
def test_true_or_missing_is_true_and_false_and_missing_is_false(compute):
    on_gpu = compute(to_gpu(dd.from_pandas(TRUTH, npartitions=2)))
    assert type(on_gpu.expr).__name__ in ("OrAsPandas", "AndAsPandas")
    assert_equal(on_gpu.compute(), compute(TRUTH))


@pytest.mark.parametrize("partitions", [2, 3])
@pytest.mark.parametrize(
    "compute", [lambda f, g: f.p | g.q, lambda f, g: f.p & g.q, lambda f, g: f.x != g.x, lambda f, g: f.x >= g.x]
)
def test_dataframes_of_two_sources_are_compared_as_those_of_one(compute, partitions):
    left, right = dd.from_pandas(TRUTH, npartitions=2), dd.from_pandas(TRUTH.assign(y=1), npartitions=partitions)
    result = compute(*map(to_gpu, (left, right)))
    assert type(result.expr).__name__ == "AlignedAsPandas"
    assert list(map(str, result.compute())) == list(map(str, compute(TRUTH, TRUTH)))


@pytest.mark.parametrize(
    ("texts", "differs"), [([""], True), (["a:b"], False), (["", ""], False), ([None], False), ([], False)]
)
def test_an_empty_text_of_a_single_row_may_be_a_missing_one(texts, differs):
    result = Series(texts, dtype="string")
    series = SimpleNamespace(str=SimpleNamespace(cat=lambda others, sep: result))
    with pytest.raises(DifferentResultError, match="empty text") if differs else nullcontext():
        assert cat(series, series, sep=":") is result


def test_texts_of_two_columns_are_concatenated_as_in_pandas():
    frame = dd.from_pandas(FRAME, npartitions=10)
    texts = new_collection(replaced(frame.name.str.cat(frame.name.str.upper(), sep=":").expr))
    assert type(texts.expr).__name__ == "CatBlockwiseAsPandas"
    expected = FRAME.name.str.cat(FRAME.name.str.upper(), sep=":")
    pd.testing.assert_series_equal(texts.compute(), expected, check_dtype=False)


@pytest.mark.parametrize(
    "compute",
    [
        lambda f, flags: dd.concat([f.assign(b=flags), f]),
        lambda f, flags: dd.concat([f, f.assign(b=flags)], interleave_partitions=True),
        lambda f, flags: dd.concat([f.assign(b=flags), f]).repartition(npartitions=1),
        lambda f, flags: dd.concat([f, f.assign(b=flags)])[["k", "b"]].repartition(npartitions=1),
    ],
)
def test_booleans_that_a_dataframe_lacks_are_missing(compute):
    expected, result = on_both(lambda f: compute(f[["k"]], f.k > 3))
    assert result.b.isna().tolist() == expected.b.isna().tolist()
    assert result.b.dropna().tolist() == expected.b.dropna().tolist()


def test_a_column_of_a_description_is_computed_without_the_others():
    description = to_gpu(dd.from_pandas(FRAME[["k", "x"]], npartitions=2)).describe()["x"]
    read = description.optimize(fuse=False).expr.find_operations(FromPandas)
    assert {name for part in read for name in part.columns} == {"x"}


LABELED = pd.DataFrame({"b": [1.0, 2.0]}, [3, 20])


@pytest.mark.parametrize(
    "compute",
    [
        lambda lib, f, _: lib.concat([f[["k"]], f[["x"]]])["x"],
        lambda lib, f, _: lib.concat([f[["k"]], f["x"]])[["k"]],
        lambda lib, f, _: lib.concat([f[["k", "x"]], f[["k", "x"]]]).assign(z=1)["z"],
        lambda lib, f, _: lib.concat([f, f["x"].rename("again")], axis=1).assign(z=lambda d: d["again"] - 1)["z"],
        lambda lib, f, _: lib.concat([f, f["x"].rename("again")], axis=1).assign(z=1)["z"],
        lambda lib, f, _: lib.concat([f[["k"]][f.k > 3], f[["x"]]], axis=1)["k"],
        lambda lib, f, other: lib.concat([f[["k"]], other], axis=1)["k"],
        lambda lib, f, other: lib.concat([f[["k"]], other["b"]], axis=1)[["b"]],
    ],
)
def test_columns_of_a_concatenation_have_all_its_rows(compute):
    """Dask on the CPU loses rows, or the name, or fails."""
    parts = [to_gpu(dd.from_pandas(each, npartitions=2)) for each in (FRAME, LABELED)]
    result, expected = compute(dd, *parts).compute(), compute(pd, FRAME, LABELED)
    assert_equal(result.sort_index(kind="stable"), expected.sort_index(kind="stable"))


@pytest.mark.parametrize("select", [lambda f: f.b, lambda f: f[["k"]], lambda f: f.eval("k > 1 or b > 1")])
def test_columns_of_a_concatenation_of_labels_of_two_kinds_have_all_its_rows(select):
    """It runs on the host."""
    data = FRAME[["k"]], LABELED.set_index(pd.to_datetime(["2024-01-05", "2024-01-06"]))
    with gpu_cell(fallback="host", results="host"):
        result = select(dd.concat([dd.from_pandas(each, npartitions=2, sort=False) for each in data])).compute()
    np.testing.assert_array_equal(result.squeeze().to_numpy(), select(pd.concat(data)).squeeze().to_numpy())


@pytest.mark.parametrize(
    "compute",
    [
        lambda f: dd.concat([f[["x"]], f[["k"]]], join="inner"),
        lambda f: dd.concat([f[["x"]], f.k], join="inner"),
        lambda f: dd.concat([f[["k", "x"]], f[["x", "name"]]], join="inner", axis=1),
    ],
)
def test_a_join_that_is_none_of_columns_is_not_changed(compute):
    frame = to_gpu(dd.from_pandas(FRAME, npartitions=3))
    assert type(compute(frame).expr) is Concat  # which runs on the host in a cell with the fallback


@pytest.mark.parametrize(
    "compute",
    [
        lambda unknown, known: dd.concat([unknown.assign(other=1), known[["c"]]]),
        lambda unknown, known: dd.concat([known[["k", "c"]], unknown[["c"]]], join="inner"),
        lambda unknown, known: dd.concat([unknown.c, known.c.rename("d")]),
    ],
)
def test_a_result_has_no_category_that_stands_for_unknown_ones(compute):
    letters = pd.DataFrame({"k": range(6), "c": pd.Categorical(list("abcbca"))})
    on_gpu = to_gpu(dd.from_pandas(letters, npartitions=2))
    unknown = on_gpu.assign(c=on_gpu.c.cat.as_unknown())
    collection = compute(unknown, on_gpu)
    assert place_of(collection) == "gpu"
    result = collection.compute()
    assert isinstance(result, Frame | Series)
    values = result.c if result.ndim > 1 else result
    assert set(values.dtype.categories) == set("abc")
    assert values.astype(object).tolist() == list("abcbca") * 2


class WithoutObjects(Frame):
    """As a dataframe of cuDF, which makes texts of numbers that are to be objects."""

    @property
    def _constructor(self):
        return WithoutObjects

    def astype(self, dtypes, **options):
        objects = [name for name, dtype in dtypes.items() if str(dtype) == "object"]
        texts = {name: "str" for name in objects if self[name].dtype.kind in "biuf"}
        return WithoutObjects(pd.DataFrame(self).astype(dtypes | texts, **options))


@pytest.mark.parametrize("options", [{}, {"interleave_partitions": True}])
def test_booleans_beside_rows_without_them_remain_booleans(options):
    def compute(frame):
        return dd.concat([frame, frame[["k"]].astype({"k": "int32"})], **options).compute().sort_values("k")

    data = pd.DataFrame({"k": [1, 2, 3], "b": [True, False, True]})
    frame = dd.from_pandas(data, npartitions=2)
    found, expected = compute(to_gpu_as(WithoutObjects, frame)), compute(frame)
    assert found.b.dropna().tolist() == expected.b.dropna().tolist() == [True, False, True]
    assert found.b.isna().sum() == expected.b.isna().sum() == 3


@pytest.mark.parametrize("compare", [lambda s: s == "b", lambda s: s != "b"])
def test_comparisons_of_elements_of_lists_are_never_missing(compare):
    expected, result = on_both(lambda frame: compare(frame.name.str.split("a").str[0]))
    assert result.tolist() == expected.tolist()


def test_comparisons_of_numbers_are_not_filled():
    frame = dd.from_pandas(FRAME, npartitions=3)
    for comparison in (frame.x > 1, frame.x.between(0, 1)):
        assert isinstance(replaced(comparison.expr), type(comparison.expr))


@pytest.mark.parametrize(
    "compute",
    [
        lambda f: np.log1p(f.a),
        lambda f: np.sqrt(f.b) > 0,
        lambda f: f.a / (f.a + 4) / 0 > 1,
        lambda f: f.b**0.5,
        lambda f: np.sqrt(f[["a", "b"]]),
        lambda f: f.mask(f > 1),
        lambda f: f.b.where(f.b > 0),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_is_missing_in_a_nullable_dtype(compute):
    data = pd.DataFrame({"a": pd.array([1, -4, None], "Int64"), "b": pd.array([4.0, -1.0, None], "double[pyarrow]")})
    expected, result = compute(data), compute(to_gpu_as(as_stand_in, dd.from_pandas(data, npartitions=1))).compute()
    assert np.array_equal(result.isna(), expected.isna())
    assert np.array_equal(result.isna().to_numpy(), (result.astype(object).map(lambda each: each is pd.NA)).to_numpy())


def test_comparisons_of_partitions_on_the_host_are_those_of_pandas():
    equal = COMPARED_BY_UFUNC["equal"]
    assert equal(pd.Series([1, None], dtype="Int64"), 1).tolist() == [True, pd.NA]
    assert equal(pd.Series(["a", None], dtype="str"), "a").tolist() == [True, False]


@pytest.mark.parametrize(
    "condition",
    [
        lambda f: ((f.a == 1) & (f.b == 1)) | ((f.a == 1) & (f.c == 1)),
        lambda f: ((f.b == 1) & (f.a == 1)) | ((f.c == 1) & (f.a == 1) & (f.n < 9)) | (f.a == 1) & (f.n == 2),
        lambda f: (f.b == 1) | (f.c == 1),
    ],
)
def test_alternatives_that_are_missing_lose_no_rows(condition):
    data = pd.DataFrame({"a": [1, 1, 1, 0], "b": pd.array([None, 1, 0, 0], "Int64"), "n": range(4)})
    data["c"] = pd.array([1, None, 0, None], "Int64")
    frame = dd.from_pandas(data, npartitions=1)
    for compute in (lambda f: f[condition(f)].n, lambda f: f[condition(f)][["n"]].sum(), lambda f: f[condition(f)]):
        expected, result = compute(frame).compute(), compute(to_gpu_as(as_stand_in, frame)).compute()
        assert result.to_numpy().tolist() == expected.to_numpy().tolist()
