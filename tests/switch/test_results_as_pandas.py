"""Results of cuDF are those of pandas: comparisons, dtypes, the order of groups. Here cuDF is a subclass of pandas."""

import pickle
import sys
from types import SimpleNamespace

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask._collections import new_collection
from dask.dataframe.dask_expr import _groupby
from dask.dataframe.dispatch import meta_nonempty

from jupyter_gpudask.fallback.log import fallback_log
from jupyter_gpudask.inspection import placement
from jupyter_gpudask.inspection.placement import place_of
from jupyter_gpudask.overlay.cell_record import CellRecord
from jupyter_gpudask.patches.apply import patches
from jupyter_gpudask.patches.frames import methods
from jupyter_gpudask.patches.frames.as_pandas import FunctionMapAsPandas, PropertyMapAsPandas, replaced
from jupyter_gpudask.patches.frames.groupby import FilledSums, with_sums_of_nothing
from jupyter_gpudask.patches.frames.partial_time_strings import loc
from jupyter_gpudask.patches.frames.reductions import VarianceAsPandas
from jupyter_gpudask.switch.context import switched_to

FRAME = pd.DataFrame(
    {
        "k": [5, 3, 5, 1, 2, 4, 1, 9, 3, 0],
        "x": [1.0, None] * 5,
        "name": pd.array(["b", None, "a", "cc", "b"] * 2, dtype="string"),
        "when": pd.to_datetime(["2024-01-01", None, "2024-05-01", "2024-07-01", "2024-12-01"] * 2),
    }
)


def with_missing(result, *operands):
    """As cuDF, whose comparisons have a missing value where an operand has one."""
    missing = pd.Series(data=False, index=result.index)
    for operand in operands:
        missing |= pd.isna(operand)
    return result.astype("boolean").mask(missing)


class Series(pd.Series):
    """Stands for `cudf.Series`."""

    __module__ = "cudf_stand_in"  # not "cudf", which Dask would import

    @property
    def _constructor(self):
        return Series

    @property
    def _constructor_expanddim(self):
        return Frame

    def _cmp_method(self, other, op):
        return Series(with_missing(self.to_pandas()._cmp_method(other, op), self, other))

    def astype(self, dtype, **options):
        result = pd.Series(self).astype(dtype, **options)
        return Series(with_missing(result, self) if self.dtype.kind == "f" and result.dtype == bool else result)

    def _logical_method(self, other, op):
        return Series(with_missing(self.to_pandas()._logical_method(other, op), self, other))

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        plain = [each.to_pandas() if isinstance(each, Series) else each for each in inputs]
        result = getattr(ufunc, method)(*plain, **options)
        return Series(with_missing(result, *plain) if result.dtype == bool else result)

    def between(self, left, right, inclusive="both"):
        return Series(with_missing(self.to_pandas().between(left, right, inclusive), self))

    def to_pandas(self, **_):
        return pd.Series(self)

    @property
    def str(self):
        return SmallIntegers(self.to_pandas().str)

    @property
    def dt(self):
        return SmallIntegers(self.to_pandas().dt)

    @property
    def cat(self):
        return Categories(self.to_pandas().cat)


class SmallIntegers:
    """Its accessors: numbers are of 32 bits, and booleans of Arrow."""

    def __init__(self, accessor):
        self._accessor = accessor

    def __getattr__(self, name):
        found = getattr(self._accessor, name)
        return (lambda *args: as_cudf(found(*args))) if callable(found) else as_cudf(found)


class Categories:
    """Its accessor of categories, whose codes have missing values."""

    def __init__(self, accessor):
        self.categories = accessor.categories
        self.codes = Series(accessor.codes.astype("Int8").mask(accessor.codes < 0))
        self.set_categories = lambda categories: Series(accessor.set_categories(categories))


def as_cudf(result):
    kinds = {"i": "int32[pyarrow]", "b": "bool[pyarrow]"}
    return Series(result.astype(kinds.get(result.dtype.kind, result.dtype)))


class Frame(pd.DataFrame):
    """Stands for `cudf.DataFrame`."""

    __module__ = "cudf_stand_in"

    @property
    def _constructor(self):
        return Frame

    @property
    def _constructor_sliced(self):
        return Series

    def _cmp_method(self, other, op):
        return Frame({name: Series(column)._cmp_method(other, op) for name, column in self.items()})

    def astype(self, dtypes, **options):
        given = dtypes if isinstance(dtypes, dict) else dict.fromkeys(self.columns, dtypes)
        return Frame({name: column.astype(given.get(name, column.dtype)) for name, column in self.items()})

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        columns, missing = {}, pd.Series(data=False, index=self.index)
        for name in self:  # the missing values of all columns so far, as in cuDF's Frame._apply_cupy_ufunc_to_operands
            operands = [each[name] if isinstance(each, Frame) else each for each in inputs]
            if ufunc.__name__ in ("add", "greater", "less", "not_equal"):  # operators of cuDF
                missing[:] = False
            for each in operands:
                missing |= pd.isna(each)
            result = pd.Series(getattr(ufunc, method)(*operands, **options))
            columns[name] = (result.astype("boolean") if result.dtype == bool else result).mask(missing)
        return Frame(columns)

    def query(self, text, **options):
        return Frame(self.dropna(subset=["x"]).to_pandas().query(text, **options))

    def merge(self, right, how="inner", **options):
        merged = self.to_pandas().merge(right.to_pandas(), how=how, **options)
        return Frame(merged[list(merged)[::-1]] if how == "right" else merged)

    def to_pandas(self, **_):
        return pd.DataFrame(self)


@meta_nonempty.register((Series, Frame))
def nonempty(meta):
    return type(meta)(meta_nonempty(meta.to_pandas()))


@pytest.fixture(autouse=True, scope="module")
def patches_applied():
    patches.apply("kernel")
    place_of_data = placement._place_of_data
    with pytest.MonkeyPatch.context() as patch, dask.config.set(scheduler="sync"):
        # These are objects of pandas, too.
        is_ours = lambda data: isinstance(data, Frame | Series)  # noqa: E731
        patch.setattr(placement, "_place_of_data", lambda data: "gpu" if is_ours(data) else place_of_data(data))
        yield


def on_both(compute):
    """What it gives for pandas, and for dataframes that stand for those of cuDF."""
    frame = dd.from_pandas(FRAME, npartitions=3)
    on_gpu = frame.map_partitions(Frame, meta=Frame(frame._meta))
    assert place_of(on_gpu) == "gpu"
    assert place_of(on_gpu.x) == "gpu"
    return compute(frame).compute(), compute(on_gpu).compute()


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: frame.x > 0,
        lambda frame: frame.x != 1,
        lambda frame: ~(frame.x == 1),
        lambda frame: frame.x.ne(1),
        lambda frame: frame.x >= frame.k,
        lambda frame: frame.x.between(0, 2),
        lambda frame: frame.when < pd.Timestamp("2024-06-01"),
        lambda frame: frame.when != frame.when,
        lambda frame: frame[["x", "k"]] != 1,
        lambda frame: frame[["k", "x"]].le(4),
        lambda frame: frame[["k"]].le(frame[["x"]]),
    ],
)
def test_a_comparison_with_nan_is_true_or_false(compute):
    expected, result = on_both(compute)
    assert not np.any(pd.isna(result))
    assert np.array_equal(np.asarray(result, dtype=bool), expected)


def test_rows_that_a_comparison_with_nan_selects_are_those_of_pandas():
    expected, result = on_both(lambda frame: frame[~(frame.x > 0)].k)
    assert result.tolist() == expected.tolist() == [3, 1, 4, 9, 0]


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: frame.x.astype(bool),
        lambda frame: frame[["x", "k"]].astype("bool"),
        lambda frame: frame[["x", "k"]].astype({"x": bool}),
        lambda frame: frame[["x", "k"]].astype({"x": bool, "k": float}).x,
        lambda frame: frame.x.astype("boolean"),
        lambda frame: frame.k.astype(bool),
    ],
)
def test_nan_is_converted_to_true(compute):
    expected, result = on_both(compute)
    assert pd.DataFrame(result).isna().to_numpy().tolist() == pd.DataFrame(expected).isna().to_numpy().tolist()
    assert pd.DataFrame(result).eq(1).to_numpy().tolist() == pd.DataFrame(expected).eq(1).to_numpy().tolist()


@pytest.mark.parametrize("compute", [lambda frame: frame.name == "b", lambda frame: frame[["name", "x"]] != "b"])
def test_a_comparison_of_strings_keeps_missing_values(compute):
    expected, result = on_both(compute)
    assert pd.DataFrame(result).isna().to_numpy().tolist() == pd.DataFrame(expected).isna().to_numpy().tolist()


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: frame.name.str.len(),
        lambda frame: frame.name.str.isalnum(),
        lambda frame: frame.name.str.count("c"),
        lambda frame: frame.name.str.upper(),
        lambda frame: frame.when.dt.is_quarter_end,
        lambda frame: frame.dropna().when.dt.quarter,
    ],
)
def test_numbers_and_booleans_of_an_accessor_have_the_dtype_of_pandas(compute):
    expected, result = on_both(compute)
    assert result.dtype == expected.dtype
    pd.testing.assert_series_equal(pd.Series(result), expected)


TRUTH = pd.DataFrame(
    {
        "p": pd.array([True, False, None] * 3, dtype="boolean"),
        "q": pd.array([True] * 3 + [False] * 3 + [None] * 3, dtype="boolean"),
    }
)


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: frame.p | frame.q,
        lambda frame: frame.p & frame.q,
        lambda frame: ~(frame.p & frame.q) | frame.q,
        lambda frame: frame.p | True,
        lambda frame: frame.p & False,
        lambda frame: frame[["p"]] | frame[["p"]],
    ],
)
def test_true_or_missing_is_true_and_false_and_missing_is_false(compute):
    frame = dd.from_pandas(TRUTH, npartitions=2)
    on_gpu = compute(frame.map_partitions(Frame, meta=Frame(frame._meta)))
    assert type(on_gpu.expr).__name__ in ("OrAsPandas", "AndAsPandas")
    expected = compute(TRUTH)
    assert pd.DataFrame(on_gpu.compute()).to_numpy().tolist() == pd.DataFrame(expected).to_numpy().tolist()


@pytest.mark.parametrize("partitions", [2, 3])
@pytest.mark.parametrize(
    "compute",
    [
        lambda left, right: left.p | right.q,
        lambda left, right: left.p & right.q,
        lambda left, right: left.x != right.x,
        lambda left, right: left.x >= right.x,
    ],
)
def test_dataframes_of_two_sources_are_compared_as_those_of_one(compute, partitions):
    data = TRUTH.assign(x=[1.0, None, 3.0] * 3)
    left, right = dd.from_pandas(data, npartitions=2), dd.from_pandas(data.assign(y=1), npartitions=partitions)
    result = compute(*(each.map_partitions(Frame, meta=Frame(each._meta)) for each in (left, right)))
    assert type(result.expr).__name__ == "AlignedAsPandas"
    assert list(map(str, result.compute())) == list(map(str, compute(data, data)))


def test_several_dataframes_are_joined_two_at_a_time():
    first, second, third = (
        dd.from_pandas(pd.DataFrame({name: range(4)}, index=[4, 3, 2, 1]), npartitions=2).map_partitions(Frame)
        for name in "abc"
    )
    for how in ("outer", "left"):
        joined = first.join([second, third], how=how)
        assert type(joined.expr).__name__ == "Merge"
        assert joined.compute().sort_index().to_numpy().tolist() == [[number] * 3 for number in (3, 2, 1, 0)]
    with pytest.raises(ValueError, match="overlap"):
        first.join([second, first.rename(columns={"a": "b"})])


class Strict(Frame):
    """As a dataframe of cuDF, which refuses the extremes of integers without rows."""

    @property
    def _constructor(self):
        return Strict

    def _extreme(self, name, options):
        if not len(self):
            raise ValueError("cannot convert float NaN to integer")
        return Series(getattr(self.to_pandas(), name)(**options))

    def min(self, **options):
        return self._extreme("min", options)

    def max(self, **options):
        return self._extreme("max", options)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: frame[["k"]].min(),
        lambda frame: frame[["k"]].max(),
        lambda frame: frame[frame.k > 4][["k", "x"]].max(),
        lambda frame: frame[frame.k > 4].min(numeric_only=True),
        lambda frame: frame[frame.k > 4][["k", "x"]].min(skipna=False),
    ],
)
def test_extremes_ignore_partitions_without_rows(compute, partitions):
    data = FRAME.assign(k=[9, 2, 7, *range(-6, 1)]).set_index(pd.Index(list("abcdefghij")))
    frame = dd.from_pandas(data, npartitions=partitions)
    result = compute(frame.map_partitions(Strict, meta=Strict(frame._meta)))
    assert placement.place_of_partitions(result.expr.lower_completely()) == "gpu"
    pd.testing.assert_series_equal(pd.Series(result.compute()), compute(frame).compute(), check_dtype=False)


def test_an_expression_whose_metadata_cannot_be_computed_has_no_place():
    class Refused:
        @property
        def _meta(self):
            raise ValueError("cannot convert float NaN to integer")

    assert placement.place_of_partitions(Refused()) is None


def test_a_merge_has_its_columns_in_the_order_of_pandas():
    frame = dd.from_pandas(FRAME[["x", "k"]], npartitions=2)
    on_gpu = frame.map_partitions(Frame, meta=Frame(frame._meta))
    for how in ("right", "left"):
        expected = FRAME[["x", "k"]].merge(FRAME[["x", "k"]], on="k", how=how)
        merged = on_gpu.merge(on_gpu, on="k", how=how)
        assert list(merged.columns) == list(merged.compute().columns) == list(expected.columns) == ["x_x", "k", "x_y"]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (slice(None), ["k", "x", "name", "when"]),
        (slice("x", "name"), ["x", "name"]),
        (lambda frame: frame.columns.str.startswith("n"), ["name"]),
        (["x"], ["x"]),
        ("x", "x"),
        (None, None),
    ],
)
def test_columns_that_loc_selects_are_listed_for_dask(columns, expected):
    frame = dd.from_pandas(FRAME, npartitions=2)
    on_gpu = SimpleNamespace(obj=frame.map_partitions(Frame, meta=Frame(frame._meta)))
    assert loc(lambda self, iindexer, cindexer: cindexer, on_gpu, None, columns) == expected


# Partitions without rows or without numbers


NUMBERS = pd.DataFrame({"a": [3.0, None, 4, 2, None, None, 5, 6, 1], "b": [1, 2, 3, 4, 5, 6, 7, 8, 9], "c": np.nan})


@pytest.mark.parametrize("ddof", [0, 1, 20])
@pytest.mark.parametrize("skipna", [True, False])
@pytest.mark.parametrize("split_every", [False, 2])
@pytest.mark.parametrize(
    "choose",
    [
        lambda frame: frame,
        lambda frame: frame[frame.b > 3],
        lambda frame: frame[(frame.b == 2) | (frame.b > 8)],
        lambda frame: frame[frame.b > 9],
    ],
)
def test_the_variance_ignores_partitions_without_numbers(choose, split_every, skipna, ddof):
    frame = choose(dd.from_pandas(NUMBERS, npartitions=5))
    expected = choose(NUMBERS).var(skipna=skipna, ddof=ddof)
    of_frame = VarianceAsPandas(frame.expr, skipna, ddof, False, split_every)
    pd.testing.assert_series_equal(new_collection(of_frame).compute(), expected)
    for name in NUMBERS:
        of_column = VarianceAsPandas(frame[name].expr, skipna, ddof, False, split_every)
        np.testing.assert_allclose(new_collection(of_column).compute(), expected[name], rtol=1e-12)


def test_the_variance_of_dask_cudf_is_replaced():
    frame = dd.from_pandas(NUMBERS.assign(d="text"), npartitions=5)
    variance = type("VarCudf", (VarianceAsPandas,), {})(frame.expr, True, 1, True, False)
    result = new_collection(replaced(variance))
    assert type(result.expr) is VarianceAsPandas
    pd.testing.assert_series_equal(result.compute(), NUMBERS.var())


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummin", "cummax"])
@pytest.mark.parametrize("columns", [["a"], ["a", "b"], "a"])
def test_cumulative_results_ignore_partitions_without_rows(name, columns):
    chosen = lambda frame: frame[(frame.b < 2) | (frame.b > 6)][columns]  # noqa: E731
    frame = chosen(dd.from_pandas(NUMBERS, npartitions=5))
    try:
        getattr(dd.from_pandas(NUMBERS[["a"]], npartitions=2), name)().compute()
    except IndexError:  # of pandas 3.0 for cummin and cummax
        pytest.skip("Dask does not do it with this pandas")
    result = new_collection(pickle.loads(pickle.dumps(replaced(getattr(frame, name)().expr))))  # noqa: S301
    expected = getattr(chosen(NUMBERS), name)()
    assert result.compute().to_numpy().tolist() == expected.to_numpy().tolist()


@pytest.mark.parametrize(
    ("compute", "values"),
    [
        (lambda groups: groups.x.sum(), 0),
        (lambda groups: groups.sum(), {"x": 0, "n": 0}),
        (lambda groups: groups.prod(), {"x": 1, "n": 1}),
        (lambda groups: groups.agg({"x": ["sum", "mean"], "n": "max"}), {("x", "sum"): 0}),
        (lambda groups: groups.agg("sum"), {"x": 0, "n": 0}),
        (lambda groups: groups.x.agg(["sum", "prod"]), {"sum": 0, "prod": 1}),
        (lambda groups: groups.agg({"x": "sum", "n": "min"}), {"x": 0}),
    ],
)
def test_the_sum_of_a_group_without_numbers_is_that_of_pandas(compute, values):
    data = FRAME[["k", "x"]].assign(n=FRAME.x)
    frame = dd.from_pandas(data, npartitions=3)
    filled = with_sums_of_nothing(compute(frame.groupby("k")).expr)
    assert filled.operand("values") == values
    expected = compute(data.groupby("k"))
    pd.testing.assert_frame_equal(
        pd.DataFrame(new_collection(filled).compute().sort_index()), pd.DataFrame(expected), check_dtype=False
    )


def test_sums_that_cudf_has_not_are_filled_in_and_other_columns_are_not():
    groups = pd.DataFrame({("x", "sum"): [None, 2.0], ("x", "mean"): [None, 2.0]})
    filled = FilledSums.operation(groups, {("x", "sum"): 0, ("y", "sum"): 0})
    assert filled.isna().to_numpy().tolist() == [[False, True], [False, False]]
    assert filled["x", "sum"].tolist() == [0, 2]
    assert groups.isna().sum().tolist() == [1, 1]
    assert FilledSums.operation(pd.Series([None, 3.0], name="x"), 1).tolist() == [1, 3]


@pytest.mark.parametrize("compute", [lambda groups: groups.x.mean(), lambda groups: groups.count()])
def test_other_results_of_groups_are_not_filled(compute):
    expression = compute(dd.from_pandas(FRAME, npartitions=3).groupby("k")[["k", "x"]]).expr
    assert with_sums_of_nothing(expression) is expression


def test_codes_of_missing_categories_are_negative():
    def codes(frame):
        return frame.name.astype(pd.CategoricalDtype(["a", "b", "cc"])).cat.codes

    expected, result = on_both(codes)
    assert result.tolist() == expected.tolist() == [1, -1, 0, 2, 1] * 2
    assert result.dtype == expected.dtype == "int8"


def test_categories_become_known_in_the_order_of_pandas(monkeypatch):
    frame = dd.from_pandas(FRAME, npartitions=3)
    unknown = frame.name.astype("category")
    on_gpu = frame.map_partitions(Frame, meta=Frame(frame._meta)).name.astype("category")
    assert place_of(on_gpu) == "gpu"
    assert not on_gpu.cat.known
    monkeypatch.setattr(methods, "to_host", lambda series: unknown if series is on_gpu else series)
    of_cudf = lambda accessor: accessor._series.cat.set_categories(["cc", "b", "a"])  # noqa: E731 - a hash table's
    with switched_to("numpy", "pandas", CellRecord(fallback="host")):
        known = methods.as_known(of_cudf, SimpleNamespace(_series=on_gpu))
    assert place_of(known) == "gpu"
    assert list(known.compute().dtype.categories) == list(unknown.cat.as_known().cat.categories) != ["cc", "b", "a"]


GROUPS = {
    "sum": lambda frame: frame.groupby("k").x.sum(),
    "mean of a column": lambda frame: frame.groupby("k").x.mean(),
    "several": lambda frame: frame.groupby("k").agg({"x": ["min", "max"]}),
    "variance": lambda frame: frame.groupby("k").x.var(),
    "count": lambda frame: frame.groupby("k").count(),
    "size": lambda frame: frame.groupby("name").size(),
    "two keys": lambda frame: frame.groupby(["name", "k"]).x.max(),
}


@pytest.mark.parametrize("compute", GROUPS.values(), ids=GROUPS)
def test_groups_are_in_the_order_of_pandas(compute):
    _, result = on_both(compute)
    assert result.index.tolist() == compute(FRAME).index.tolist()


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: np.isnan(frame.x),
        lambda frame: ~np.isfinite(frame.x),
        lambda frame: np.isnan(frame[["x", "k"]]),
        lambda frame: np.isfinite(frame[["x", "k"]]),
        lambda frame: np.not_equal(frame.x, 1),
        lambda frame: np.greater(frame.x, frame.k),
        lambda frame: frame[np.isnan(frame.x)].k,
    ],
)
def test_functions_of_numpy_compare_nan_as_in_pandas(compute):
    expected, result = on_both(compute)
    assert pd.DataFrame(result).to_numpy().tolist() == pd.DataFrame(expected).to_numpy().tolist()


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: np.sqrt(frame[["x", "k"]]),
        lambda frame: np.exp(frame[["k", "x"]]),
        lambda frame: np.maximum(frame[["x", "k"]], 2),
        lambda frame: np.arctan2(frame[["x", "k"]], frame[["x", "k"]] + 1),
        lambda frame: np.add(frame[["x", "k"]], 1),
        lambda frame: np.less(frame[["x", "k"]], 3),
    ],
)
def test_a_function_of_numpy_loses_no_value_of_a_column_because_another_one_is_missing(compute):
    expected, result = on_both(compute)
    result, expected = (pd.DataFrame(each).astype(float).to_numpy() for each in (result, expected))
    np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize(
    ("compute", "on_host"),
    [
        (lambda frame: frame.query("x != 1").k, ["query"]),
        (lambda frame: frame.query("x > 0 or k > 4").k, ["query"]),
        (lambda frame: frame.query("not x > 0").k, ["query"]),
        (lambda frame: frame.query("x > 0").k, []),
        (lambda frame: frame.eval("x > 0"), ["evaluate"]),
        (lambda frame: frame.eval("k > 0"), []),
        (lambda frame: frame.eval("k + x").fillna(0), []),
    ],
)
def test_texts_that_compare_missing_values_run_on_the_host(monkeypatch, compute, on_host):
    monkeypatch.setitem(sys.modules, "cudf", SimpleNamespace(from_pandas=as_stand_in))
    with switched_to("numpy", "pandas", CellRecord(fallback="host")):
        before = fallback_log.blocks.copy()
        frame = dd.from_pandas(FRAME, npartitions=1)
        result = compute(frame.map_partitions(Frame, meta=Frame(frame._meta))).compute()
    assert result.tolist() == compute(FRAME).tolist()
    assert [place.operation for place in fallback_log.blocks_since(before)] == on_host


def as_stand_in(data):
    return Frame(data) if data.ndim > 1 else Series(data)


def test_medians_of_groups_are_computed_though_dask_cannot_sort_them():
    for by in ("k", ["k", "name"]):
        expected, result = on_both(lambda frame, by=by: frame.groupby(by)[["x"]].agg("median"))
        pd.testing.assert_frame_equal(pd.DataFrame(result).sort_index(), expected.sort_index())


def test_groups_are_not_sorted_if_the_user_says_so_or_if_they_are_in_several_partitions():
    frame = dd.from_pandas(pd.concat([FRAME] * 8, ignore_index=True), npartitions=20)
    assert replaced(frame.groupby("k").x.sum().expr).operand("sort") is None
    assert replaced(frame.partitions[:5].groupby("k").x.sum().expr).operand("sort") is True
    assert replaced(frame.partitions[:5].groupby("k", sort=False).x.sum().expr).operand("sort") is False
    for several in (2, True):
        assert replaced(frame.partitions[:5].groupby("k").x.sum(split_out=several).expr).operand("sort") is None


class CudfGroupbyAgg(_groupby.GroupbyAggregation):
    """Stands for that of dask_cudf, which adds a column to its input."""

    @property
    def spec_info(self):
        return {"aggs": self.arg}

    def _lower(self):
        return Decomposed(*self.operands)


class Decomposed(_groupby.DecomposableGroupbyAggregation):
    @classmethod
    def chunk(cls, df, *by, **kwargs):
        df["squares"] = df.x**2
        return super().chunk(df, *by, **kwargs)


def test_an_aggregation_that_adds_columns_leaves_its_input_as_it_is():
    frame = dd.from_pandas(FRAME[["k", "x"]], npartitions=3).persist()
    arguments = [frame.expr, {"x": ["std"]}, *[None] * 6, None, "k"]
    result = replaced(CudfGroupbyAgg(*arguments))
    assert type(replaced(result)) is type(result)
    assert replaced(result)._name == result._name
    computed = new_collection(result).compute()
    pd.testing.assert_frame_equal(computed.sort_index(), FRAME[["k", "x"]].groupby("k").agg({"x": ["std"]}))
    assert list(frame.compute().columns) == ["k", "x"]


@pytest.mark.parametrize(
    "prepare",
    [
        lambda frame: frame.set_index("k").reset_index(),
        lambda frame: frame.sort_values("x"),
        lambda frame: frame.repartition(partition_size="1kB"),
    ],
)
def test_the_number_of_partitions_is_not_computed_for_the_order_of_groups(prepare):
    def fail(*_):
        raise AssertionError

    frame = prepare(dd.from_pandas(FRAME, npartitions=3))
    with dask.config.set(scheduler=fail):
        assert replaced(frame.groupby("k").x.sum().expr).operand("sort") is True


@pytest.mark.parametrize("compute", [lambda frame: frame.x != 1, lambda frame: frame.name.str.len()])
def test_an_expression_of_the_gpu_has_no_more_tasks(compute):
    frame = dd.from_pandas(FRAME, npartitions=3)
    on_host, on_gpu = (compute(frame.map_partitions(kind, meta=kind(frame._meta))) for kind in (pd.DataFrame, Frame))
    assert [len(each.optimize(fuse=False).dask) for each in (on_host, on_gpu)] == [12, 12]
    assert type(on_gpu.expr).__name__.endswith("AsPandas")


def test_an_expression_of_the_gpu_can_be_sent_to_a_worker():
    frame = dd.from_pandas(FRAME, npartitions=3)
    length, quarter = frame.name.str.len().expr, frame.when.dt.quarter.expr
    for expression in (
        replaced((frame.x != 1).expr),
        replaced(frame.x.between(0, 1).expr),
        FunctionMapAsPandas(*length.operands, "int64"),
        PropertyMapAsPandas(*quarter.operands, "int32"),
    ):
        sent = pickle.loads(pickle.dumps(expression))  # noqa: S301
        assert (sent._name, type(sent)) == (expression._name, type(expression))


def test_an_expression_of_the_cpu_is_as_ever():
    frame = dd.from_pandas(FRAME, npartitions=3)
    for collection in (frame.x != 1, frame.name.str.len(), frame.groupby("k").x.sum()):
        assert not type(collection.expr).__module__.startswith("jupyter_gpudask")
    assert frame.groupby("k").x.sum().expr.operand("sort") is None


def test_the_text_of_an_expression_with_metadata_of_the_gpu_can_be_shown():
    frame = dd.from_pandas(FRAME, npartitions=3)
    on_gpu = frame.map_partitions(Frame, meta=Frame(frame._meta))
    assert "Map" in repr(on_gpu.x.map({1.0: 2.0}, meta=Series(dtype=float)))
