"""Groups have the order and the sums of pandas. Here cuDF is a subclass of pandas."""

from types import SimpleNamespace

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from cudf_stand_in import FRAME, Frame, as_stand_in, assert_equal, cases, on_both, to_gpu_as
from dask._collections import new_collection
from dask.dataframe.dask_expr._expr import Filter
from pandas.core.groupby import DataFrameGroupBy

from jupyter_gpudask.inspection.placement import to_gpu, to_host
from jupyter_gpudask.patches.frames.as_pandas import replaced
from jupyter_gpudask.patches.frames.groupby import (
    FilledSums,
    FilterAsPandas,
    GroupbyAggregationAsPandas,
    with_keys,
    with_sums_of_nothing,
)

pytestmark = pytest.mark.usefixtures("cudf_stand_in")


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
        (lambda groups: groups.agg({"x": np.sum, "n": [np.prod]}), {("x", "sum"): 0, ("n", "prod"): 1}),
        (lambda groups: groups.x.agg(np.prod), 1),
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


def test_numbers_of_bins_are_integers_although_some_have_no_rows():
    days = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-09", "2024-01-10"])
    data = pd.DataFrame({"n": [1, 2, 3, 4], "x": [0.5, 1.5, 2.5, None]}, index=days)
    frame = to_gpu(dd.from_pandas(data, npartitions=2))
    for compute in (
        lambda rows: rows.resample("2D").agg(["sum", "count", "nunique"]),
        lambda rows: rows.n.resample("2D").agg(["prod", "size"]),
        lambda rows: rows.n.resample("2D").count(),
    ):
        expected, result = compute(data), compute(frame).compute()
        result = pd.DataFrame(result) if result.ndim > 1 else pd.Series(result)
        same = pd.testing.assert_frame_equal if expected.ndim > 1 else pd.testing.assert_series_equal
        same(result, expected, check_freq=False)


def test_sums_that_are_no_integers_remain_as_they_are():
    assert FilledSums.operation(pd.Series([None, 2.5]), np.int64(0)).tolist() == [0, 2.5]


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "UInt16"])
def test_sums_of_unsigned_integers_are_unsigned(dtype):
    data = pd.DataFrame({"k": [1, 1, 2], "u": pd.array([200, 100, 3], dtype), "n": [1, 2, 3]})
    for compute in (
        lambda groups: groups.sum(),
        lambda groups: groups.agg({"u": "sum", "n": "sum"}),
        lambda groups: groups.u.prod(),
    ):
        filled = with_sums_of_nothing(compute(dd.from_pandas(data, npartitions=1).groupby("k")).expr)
        expected = compute(data.groupby("k"))
        kind = "int64" if dtype.islower() else "Int64"  # as in cuDF
        signed = expected.astype(kind if expected.ndim == 1 else {"u": kind})
        result = FilledSums.operation(signed, filled.operand("values"))
        given, found = (each if each.ndim == 1 else each.u for each in (expected, result))
        assert (found.dtype, found.tolist()) == ("uint64" if dtype.islower() else "UInt64", given.tolist())
        assert result.ndim == 1 or result.n.dtype == "int64"
    wrapped = FilledSums.operation(pd.Series([-1, 2**62]), np.uint64(0))
    assert wrapped.tolist() == [2**64 - 1, 2**62]


@pytest.mark.parametrize("compute", [lambda rows: rows.sum(), lambda rows: rows.agg("sum"), lambda rows: rows.prod()])
def test_sums_of_floats_that_are_integers_in_the_metadata_are_floats(compute):
    data = pd.DataFrame({"k": [1, 1, 2], "n": [1, 5, 6], "u": np.array([1, 5, 6], "uint64")})
    frame = dd.from_pandas(data, npartitions=1)
    found = compute(to_gpu(frame.assign(n=frame.n.where(frame.n > 1), u=frame.u.where(frame.u > 1))).groupby("k"))
    assert found._meta.n.dtype == "int64"
    expected = compute(data.assign(n=data.n.where(data.n > 1), u=data.u.where(data.u > 1)).groupby("k"))
    pd.testing.assert_frame_equal(pd.DataFrame(found.compute()), expected)


SMALL = ("int8", "uint8", "int16", "Int8", "UInt8", "Int16", "int8[pyarrow]", "uint8[pyarrow]")


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("method", ["sum", "prod", "cumsum", "cumprod", "min", "max"])
def test_results_of_small_integers_of_groups_do_not_overflow(method, dtype):
    data = pd.DataFrame({"k": [0, 1] * 6, "n": pd.Series([9, 9, 4, 2, 5, 9, 7, 5, 3, 99, 95, 93], dtype=dtype)})
    groups = to_gpu(dd.from_pandas(data, npartitions=3)).groupby("k").n
    expected = getattr(data.groupby("k").n, method)()
    for found in (getattr(groups, method)(), np.abs(getattr(groups, method)()), getattr(groups, method)().round()):
        assert found.compute().sort_index().to_list() == expected.to_list()


@pytest.mark.parametrize("compute", [lambda groups: groups.x.mean(), lambda groups: groups.count()])
def test_other_results_of_groups_are_not_filled(compute):
    expression = compute(dd.from_pandas(FRAME, npartitions=3).groupby("k")[["k", "x"]]).expr
    assert with_sums_of_nothing(expression) is expression


FUNCTIONS = {"x": ["sum", "max"], "k2": ["min"]}


def aggregated(frame):
    return frame.assign(k2=frame.k).groupby("k").agg(FUNCTIONS)


def grouped(frame):
    return frame.assign(n=frame.k).groupby("k")


def counts(frame):
    return frame.groupby(["k", "name"])[["x", "k"]].count()


COMPUTATIONS = {
    "results": [
        lambda f: f.groupby("k").x.sum(),
        lambda f: f.groupby("k").x.mean(),
        lambda f: f.groupby("k").agg({"x": ["min", "max"]}),
        lambda f: f.groupby("k").x.var(),
        lambda f: f.groupby("k").count(),
        lambda f: f.groupby("name").size(),
        lambda f: f.groupby(["name", "k"]).x.max(),
    ],
    "selected by the column of which they were computed": [
        lambda f: aggregated(f)["x"],
        lambda f: aggregated(f)["x"]["max"],
        lambda f: aggregated(f)[["x"]],
        lambda f: aggregated(f).x["sum"] - aggregated(f)["k2"]["min"],
        lambda f: aggregated(f)["x", "sum"],
    ],
    "with names that are given": [
        lambda f: grouped(f).agg(total=("x", "sum"), low=pd.NamedAgg("n", "min")),
        lambda f: grouped(f).agg(a=("n", "max"), b=("x", "mean")),
        lambda f: grouped(f).x.agg(total="sum", count="count"),
        lambda f: grouped(f).x.agg(["sum", "max"]),
    ],
    "by what is computed of columns": [
        lambda f: f.groupby(f.k > 2).x.mean(),
        lambda f: f.groupby(f.k // 2).x.sum(),
        lambda f: f.groupby(["name", f.k > 2]).x.count(),
        lambda f: f.groupby(f.k == 1).agg({"x": ["mean", "max"]}),
    ],
    "of several keys, filtered by conditions": [
        lambda f: counts(f).x[counts(f).x > 1],
        lambda f: counts(f).loc[counts(f).x > 1],
        lambda f: counts(f).loc[counts(f).x > 1, ["x"]],
        lambda f: counts(f).loc[counts(f).x > 1, "x"],
        lambda f: counts(f).loc[:, ["x"]],
        lambda f: counts(f).x.loc[counts(f).x > 1],
    ],
}


@pytest.mark.parametrize("compute", cases(COMPUTATIONS))
def test_groups_are_those_of_pandas_in_the_same_order(compute):
    _, result = on_both(compute)
    assert_equal(result, compute(FRAME), check_exact=False, check_index_type=False)


TIMES = FRAME.set_axis(pd.date_range("2024-01-01", periods=10, freq="37min"))


@pytest.mark.parametrize(
    "compute",
    [
        lambda f: f.x.resample("15min").sum(),
        lambda f: f.k.resample("15min").prod(),
        lambda f: f.x.resample("15min").count(),
        lambda f: f.name.resample("15min").nunique(),
        lambda f: f.x.resample("15min").mean(),
        lambda f: f[["x", "k"]].resample("15min").sum(),
        lambda f: f[["x", "k"]].resample("15min").agg(["sum", "mean"]),
        lambda f: f[["x", "k"]].resample("D", closed="right").size(),
        lambda f: f[["x", "k"]].resample("15min").agg({"x": "count", "k": "max"}),
    ],
)
def test_bins_of_times_without_rows_have_the_values_of_pandas(compute):
    on_gpu = to_gpu_as(as_stand_in, dd.from_pandas(TIMES, npartitions=3))
    assert_equal(compute(on_gpu).compute(), compute(TIMES), check_freq=False)


@pytest.mark.parametrize("method", ["ffill", "bfill"])
@pytest.mark.parametrize(
    "select",
    [
        lambda groups: groups.x,
        lambda groups: groups[["x", "name"]],
        lambda groups: groups,
    ],
)
@pytest.mark.parametrize("keys", [[None] * 10, [None, "a", "b", None, "a"] * 2], ids=["no key", "some keys"])
def test_rows_without_a_key_are_kept_where_groups_are_filled(keys, select, method):
    """Also in a partition in which no row has a key, which Dask loses on the CPU."""
    rows = FRAME.assign(key=pd.array(keys, "str"))
    on_gpu = to_gpu_as(as_stand_in, dd.from_pandas(rows, npartitions=3))
    for options in ({}, {"limit": 1}):
        result, expected = (getattr(select(frame.groupby("key")), method)(**options) for frame in (on_gpu, rows))
        assert_equal(result.compute().sort_index(), expected)


@pytest.mark.parametrize("method", ["first", "sum", "count"])
@pytest.mark.parametrize("by", ["k", ["k", "name"], lambda f: f.k % 2], ids=["column", "columns", "computed"])
def test_groups_without_a_column_have_rows(by, method):
    """Dask on the CPU has an error, or in `concat` no rows."""

    def compute(frame, concat):
        groups = getattr(frame.groupby(by(frame) if callable(by) else by)[["x"]], method)()
        dropped, selected = (each.reset_index(drop=True) for each in (groups.drop(columns=["x"]), groups[[]]))
        return concat([dropped, selected, frame])[["x"]]

    on_gpu = to_gpu_as(as_stand_in, dd.from_pandas(FRAME, npartitions=2))
    assert_equal(compute(on_gpu, dd.concat).compute(), compute(FRAME, pd.concat))


class NewRowsOfNaN(Frame):
    """As a dataframe of cuDF, in which NaN that new rows are filled with is a number, also in a nullable dtype."""

    __module__ = Frame.__module__

    @property
    def _constructor(self):
        return NewRowsOfNaN

    def resample(self, rule, **options):
        bins = pd.DataFrame(self).resample(rule, **options)
        return SimpleNamespace(mean=lambda: NewRowsOfNaN(bins.mean()))

    def reindex(self, index, fill_value=None):
        made = pd.DataFrame(self).reindex(index)
        return NewRowsOfNaN({name: made[name].mask(~made.index.isin(self.index), 99.0) for name in made})

    def nans_to_nulls(self):
        return NewRowsOfNaN(pd.DataFrame(self).mask(self == 99))


@pytest.mark.parametrize("select", [lambda bins: bins, lambda bins: bins[["k"]]])
def test_bins_outside_of_the_rows_of_a_partition_are_missing_in_a_nullable_dtype(select):
    rows = dd.from_pandas(TIMES[["k"]].astype("int64[pyarrow]").assign(x=TIMES.k.astype("Int8")), npartitions=3)
    result, expected = (
        select(each.resample("15min").mean()).compute() for each in (to_gpu_as(NewRowsOfNaN, rows), rows)
    )
    assert expected.k.isna().any()
    pd.testing.assert_frame_equal(pd.DataFrame(result), expected)


def test_a_filter_of_rows_with_several_levels_stays_where_cudf_can_do_it():
    frame = to_gpu(dd.from_pandas(FRAME, npartitions=2))
    filtered = counts(frame)[(counts(frame).x > 0) & (counts(frame).x < 2)]
    for result in (filtered.index, to_host(filtered.index), filtered.index.to_series(), filtered.x, filtered):
        made = list(result.optimize(fuse=False).expr.walk())
        assert any(type(each) is FilterAsPandas for each in made)
        assert not any(type(each) is Filter for each in made)


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


@pytest.mark.parametrize("split_out", [1, 2])
@pytest.mark.parametrize("choose", [lambda groups: groups, lambda groups: groups.x])
def test_sizes_of_groups_have_a_name_while_they_are_shuffled(choose, split_out):
    expected, result = on_both(lambda frame: choose(frame.groupby("k")).size(split_out=split_out))
    assert result.name == expected.name
    assert result.to_dict() == expected.to_dict()
    frame = dd.from_pandas(FRAME, npartitions=3)
    expression = replaced(frame.groupby("k").size(split_out=split_out).expr)
    chunks = [part for part in expression.lower_completely().walk() if part._name.startswith("chunk")]
    assert {part._meta.name for part in chunks} == {"__size__"}


def test_an_index_of_several_levels_is_selected_by_a_condition():
    groups = dd.from_pandas(FRAME, npartitions=2).groupby(["k", "name"])[["x"]].count()
    assert type(replaced(groups.index.expr[(groups.x > 0).expr])) is FilterAsPandas
    condition = FRAME.set_index(["k", "name"]).x > 0
    assert FilterAsPandas.operation(SimpleNamespace(ndim=1), condition).equals(condition.index[condition])


@pytest.mark.parametrize("dtype", ["float64", "Int64", "uint8"])
def test_several_functions_of_groups_are_computed_at_once_and_are_those_of_dask(monkeypatch, dtype):
    data = pd.DataFrame({"k": [2, 1, 2, 3], "x": pd.array([1, 2, 3, 4], dtype), "t": ["b", "a", "c", "a"]})
    functions = {"x": ["mean", "sum", "std", "max"], "t": ["min", "count", "first"], "k": "count"}
    stock = dd.from_pandas(data, npartitions=2).groupby("k").agg(functions)
    expected, calls, original = stock.compute(), [], DataFrameGroupBy.agg
    monkeypatch.setattr(DataFrameGroupBy, "__module__", "cudf")
    monkeypatch.setattr(
        DataFrameGroupBy, "agg", lambda groups, functions: calls.append(functions) or original(groups, functions)
    )
    ours = new_collection(GroupbyAggregationAsPandas(*stock.expr.operands))
    with dask.config.set(scheduler="sync"):
        pd.testing.assert_frame_equal(ours.compute(), expected)
    of_partitions = {"x": ["count", "max", "sum"]}
    assert calls.count(of_partitions) >= 2  # the key, texts and other functions are computed one by one
    assert any(len(each) == 6 for each in calls)  # the sums of partitions, without the minimum of texts


def test_the_result_of_a_function_of_the_user_without_groups_has_the_index_of_the_keys():
    class Groups:
        """As those of cuDF, of which none has a key."""

        __module__ = "cudf.core.groupby"
        obj = pd.DataFrame({"k": [None], "x": ["a"]}, index=pd.Index([7], name="rows"))
        grouping = SimpleNamespace(keys=pd.Index([pd.NA], dtype="Int64", name="k"), names=["k"])

        def __getitem__(self, name):
            return self.obj[name]

    def of_user(column):
        return column.head(0)

    for function in (of_user, lambda column: (of_user(column), of_user(column))):
        result = with_keys(Groups(), column="x", func=function)
        for each in result if isinstance(result, tuple) else [result]:
            assert (len(each), each.index.name, each.index.dtype) == (0, "k", "Int64")
    counts = pd.Series([], pd.MultiIndex.from_arrays([[], []], names=["k", "x"]), dtype="int64")
    assert with_keys(Groups(), column="x", func=lambda _: counts).index.names == ["k", "x"]
    of_pandas = Groups.obj.groupby("k")
    assert with_keys(of_pandas, column="x", func=lambda column: column.apply(len)).index.name == "k"
    aggregation = dd.Aggregation("of user", lambda groups: groups.apply(len), lambda groups: groups.sum())
    groups = dd.from_pandas(FRAME, npartitions=2).groupby("k").agg({"x": aggregation, "name": "count"})
    chunks = GroupbyAggregationAsPandas(*groups.expr.operands)._lower().agg_args["chunk_funcs"]
    assert [function is with_keys for _, function, _ in chunks] == [False, True]


def test_metadata_of_groups_is_computed_once_for_a_schema(monkeypatch):
    computed = []
    original = GroupbyAggregationAsPandas._lower
    monkeypatch.setattr(GroupbyAggregationAsPandas, "_lower", lambda self: computed.append(self) or original(self))
    frame = dd.from_pandas(pd.DataFrame({"key": [1, 2], "value": [1.0, 2.0], "other": [1, 2]}), npartitions=1)
    metas = []
    for functions in (
        {"value": ["sum", "mean"]},
        {"value": ["sum", "mean"]},
        {"value": ["sum", "max"]},
        {"value": sum},
    ):
        expression = frame[frame.value > len(metas)].groupby("key").agg(functions).expr
        metas.append(GroupbyAggregationAsPandas(*expression.operands)._meta)
        pd.testing.assert_frame_equal(metas[-1], expression._meta)
    assert len(computed) == 3
    metas[0].columns = ["a", "b"]
    assert list(metas[1].columns) == [("value", "sum"), ("value", "mean")]


@pytest.mark.parametrize("partitions", [1, 3, 7])
@pytest.mark.parametrize("method", ["idxmin", "idxmax"])
@pytest.mark.parametrize(
    "group",
    [
        lambda frame: frame.groupby("k").x,
        lambda frame: frame.groupby(["k", "flag"])[["x"]],
        lambda frame: frame.groupby(frame.k % 2)[["x"]],
        lambda frame: frame.x.groupby(frame.k),
        lambda frame: frame.rename(columns={"k": 0}).groupby(0).x,
    ],
)
def test_labels_of_extremes_of_groups_are_those_of_all_partitions(group, method, partitions):
    """Dask takes those of the first partition that has rows of the group, on the CPU too."""
    rows = np.arange(30)
    data = pd.DataFrame({"k": rows % 4, "x": (rows * 7 % 11).astype(float), "flag": rows % 3 == 0}, index=rows + 100)
    data.loc[[100, 104, 129], "x"] = np.nan
    frame = to_gpu_as(Frame, dd.from_pandas(data, npartitions=partitions))
    expected = getattr(group(data), method)()
    assert_equal(getattr(group(frame), method)().compute().sort_index(), expected)


@pytest.mark.parametrize("method", ["cumsum", "cumprod"])
@pytest.mark.parametrize("select", [lambda groups: groups.x, lambda groups: groups[["x", "n"]]])
def test_numbers_of_groups_so_far_go_on_after_a_partition_without_any(select, method):
    data = pd.DataFrame({"k": [1, 1, 2, 1, 1, 2, 1, 2], "x": [None, None, 3, None, 1, 2, 4, 5], "n": range(8)})
    frame = to_gpu_as(Frame, dd.from_pandas(data, npartitions=4))
    result = getattr(select(frame.groupby("k")), method)()
    assert_equal(result.compute(), getattr(select(data.groupby("k")), method)())


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("method", ["cov", "corr"])
@pytest.mark.parametrize(
    "group",
    [
        lambda frame: frame.groupby("k")[["x", "y"]],
        lambda frame: frame.groupby(["k", "flag"])[["y", "x"]],
        lambda frame: frame[["x", "y"]].groupby(frame.k % 2),
    ],
)
def test_covariances_of_groups_leave_out_missing_values_as_in_pandas(group, method, partitions):
    """Dask fails for a single partition, and has other numbers beside missing ones, on the CPU too."""
    rows = np.arange(24)
    data = pd.DataFrame({"k": rows % 3, "x": rows * 7.0 % 11, "y": rows**1.5, "flag": (rows % 2).astype("int8")})
    data.loc[[1, 5, 20], "x"] = np.nan
    frame = to_gpu_as(Frame, dd.from_pandas(data, npartitions=partitions))
    result = pd.DataFrame(getattr(group(frame), method)().compute())
    pd.testing.assert_frame_equal(result, getattr(group(data), method)(), check_dtype=False)


@pytest.mark.parametrize("keys", [["c"], ["c", "k"]])
def test_groups_of_all_categories_are_there_once(keys):
    """Dask divides the groups of many partitions into several partitions, each of which has all categories."""
    categories = pd.Categorical(["a", "b"] * 20, categories=["a", "b", "z"])
    data = pd.DataFrame({"c": categories, "k": [0, 1, 2, 2] * 10, "x": 1})
    result = to_gpu_as(Frame, dd.from_pandas(data, npartitions=40)).groupby(keys, observed=False).x.sum()
    assert_equal(result.compute().sort_index(), data.groupby(keys, observed=False).x.sum())
