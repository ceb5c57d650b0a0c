"""Results of cuDF have the dtypes and columns of pandas, without more tasks. Here cuDF is a subclass of pandas."""

import pickle
from functools import partial
from types import SimpleNamespace

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cudf_stand_in import FRAME, Series, gpu_cell, on_both
from dask._collections import new_collection
from dask.dataframe.dask_expr._accessor import FunctionMap
from dask.dataframe.dask_expr._groupby import groupby_slice_transform
from dask.dataframe.dask_expr._merge import Merge
from dask.dataframe.dispatch import to_pandas_dispatch

from jupyter_gpudask.errors import MixedBackendsError
from jupyter_gpudask.fallback.log import fallback_log
from jupyter_gpudask.inspection.frames import partition_to_host, schema_of, with_lists
from jupyter_gpudask.inspection.placement import place_of, to_gpu, to_host
from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.patches.frames import methods
from jupyter_gpudask.patches.frames.arithmetic import Converted, with_floats
from jupyter_gpudask.patches.frames.as_pandas import (
    FunctionMapAsPandas,
    FunctionMapIndexAsPandas,
    PropertyMapAsPandas,
    replaced,
)
from jupyter_gpudask.patches.frames.differences import reason_for_host
from jupyter_gpudask.patches.frames.groupby import of_no_number, transformed
from jupyter_gpudask.switch.context import switched_to

pytestmark = pytest.mark.usefixtures("cudf_stand_in")


def test_several_dataframes_are_joined_two_at_a_time():
    first, second, third = (
        to_gpu(dd.from_pandas(pd.DataFrame({name: range(4)}, index=[4, 3, 2, 1]), npartitions=2)) for name in "abc"
    )
    for how in ("outer", "left"):
        joined = first.join([second, third], how=how)
        assert len(list(joined.expr.find_operations(Merge))) == 2
        assert place_of(joined) == "gpu"
        assert joined.compute().sort_index().to_numpy().tolist() == [[number] * 3 for number in (3, 2, 1, 0)]
    with pytest.raises(ValueError, match="overlap"):
        first.join([second, first.rename(columns={"a": "b"})])
    with pytest.raises(MixedBackendsError):
        first.join([second, dd.from_pandas(pd.DataFrame({"c": [1]}), npartitions=1)])


@pytest.mark.parametrize("how", ["inner", "outer"])
def test_frames_of_other_divisions_are_joined_on_the_host(how):
    """Dask aligns them by an expression that is a kind of repartition, and has no number of partitions."""
    frame, other = pd.DataFrame({"a": range(10)}, index=range(10)), pd.DataFrame({"b": [5, 6]}, index=[3, 20])
    left, right = (to_host(to_gpu(dd.from_pandas(each, npartitions=2))) for each in (frame, other))
    pd.testing.assert_frame_equal(left.join(right, how=how).compute(), frame.join(other, how=how), check_dtype=False)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("how", ["left", "right"])
def test_a_merge_has_its_columns_in_the_order_of_pandas(how, partitions):
    """Also where Dask renames them by position; the stand-in has another order for the right side."""

    def compute(frame, other):
        merged = frame.merge(other, on="k", how=how)
        assert list(merged.columns) == ["x", "k", "y"]
        merged.columns = ["of the left", "key", "of the right"]
        return merged[merged.key > 1][["of the left", "of the right"]]

    other = FRAME[["k"]].drop_duplicates().assign(y=range(7))
    pairs = [dd.from_pandas(data, npartitions=partitions) for data in (FRAME[["x", "k"]], other)]
    on_gpu = compute(*map(to_gpu, pairs))
    assert place_of(on_gpu) == "gpu"
    by = ["of the right", "of the left"]
    result, expected = (pd.DataFrame(each.compute()).sort_values(by) for each in (on_gpu, compute(*pairs)))
    pd.testing.assert_frame_equal(result.reset_index(drop=True), expected.reset_index(drop=True))
    of_one = on_gpu["of the right"].compute()
    assert sorted(of_one.tolist()) == sorted(expected["of the right"].tolist())


@pytest.mark.parametrize(
    "columns", [slice(None), slice("x", "name"), lambda frame: frame.columns.str.startswith("n"), ["x"], "x"]
)
def test_columns_are_selected_by_labels(columns):
    for rows in (slice(None), lambda frame: frame.k > 2):
        expected, result = on_both(lambda frame, rows=rows: frame.loc[rows(frame) if callable(rows) else rows, columns])
        assert result.to_pandas().equals(expected)


@pytest.mark.parametrize("name", ["std", "var", "sem"])
@pytest.mark.parametrize(("args", "options"), [((), {}), ((), {"axis": 1}), (("index", True, 0), {})])
def test_the_spread_of_columns_and_rows_is_that_of_pandas(name, args, options):
    def compute(frame):
        return getattr(frame[["k", "x"]].assign(p=frame.k > 2), name)(*args, **options)

    expected, result = on_both(compute)
    pd.testing.assert_series_equal(pd.Series(result), expected, check_dtype=False)
    if not options:
        assert on_both(lambda frame: compute(frame)["x"])[1] == pytest.approx(expected["x"])


def test_categories_become_known_in_the_order_of_pandas(monkeypatch):
    letters = FRAME.name.astype("category")
    unknown = to_gpu(dd.from_pandas(FRAME, npartitions=3)).name.astype("category")
    assert place_of(unknown) == "gpu"
    assert not unknown.cat.known
    with switched_to("numpy", "pandas", CellRecord(fallback="host")):
        before = fallback_log.blocks.copy()
        known = unknown.cat.as_known()
        used = known.cat.set_categories(["b", "?", "a", "cc"]).cat.remove_unused_categories()
        operations = [place.operation for place in (fallback_log.blocks - before)]
    assert {"as_known", "remove_unused_categories"} <= set(operations)
    for series, expected in ((known, list(letters.cat.categories)), (used, ["b", "a", "cc"])):
        assert place_of(series) == "gpu"
        assert list(series.cat.categories) == list(series.compute().dtype.categories) == expected
    monkeypatch.setattr(methods, "note_on_host", None)
    assert known.cat.as_known() is known, "with nothing to compute, also without a cell"


@pytest.mark.parametrize("ordered", [True, False])
def test_unknown_categories_keep_their_order(ordered):
    data = pd.DataFrame({"grade": pd.Categorical(["low", "high"], ["low", "high"], ordered=ordered)})
    unknown = to_gpu(dd.from_pandas(data, npartitions=2)).grade.cat.as_unknown()
    assert unknown.dtype.ordered == ordered
    assert not unknown.cat.known
    assert unknown.compute().dtype.ordered == ordered


@pytest.mark.parametrize("compute", [lambda frame: frame.x != 1, lambda frame: frame.name.str.len()])
def test_an_expression_of_the_gpu_has_no_more_tasks(compute):
    frame = dd.from_pandas(FRAME, npartitions=3)
    on_host, on_gpu = compute(frame), compute(to_gpu(frame))
    assert len(on_host.optimize(fuse=False).dask) == len(on_gpu.optimize(fuse=False).dask)
    assert type(on_gpu.expr).__name__.endswith("AsPandas")


def test_numbers_of_the_accessor_of_an_index_have_the_dtype_of_pandas():
    index = dd.from_pandas(FRAME.dropna().set_index("name"), npartitions=1).index
    expression = index.str.len().expr
    length = new_collection(FunctionMapIndexAsPandas(*expression.operands, "Int8"))
    assert length.compute().dtype == "Int8"
    assert length.divisions == (None, None)


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


def test_elements_of_lists_of_a_partition_without_rows_are_texts():
    class Lists(Series):
        """As cuDF's Series of no lists, which has no accessor of texts."""

        @property
        def str(self):
            raise AttributeError("Can only use .str accessor with string values")

    frame = dd.from_pandas(FRAME, npartitions=1)
    expression = replaced(frame.name.str[0].expr)
    nothing = Lists([], index=pd.Index([], dtype=int), name="name", dtype=object)
    with pytest.raises(KeyError):
        FunctionMap.operation(nothing, "str", "__getitem__", (0,), {})
    result = type(expression).operation(nothing, "str", "__getitem__", (0,), {})
    assert (len(result), result.name, result.dtype) == (0, "name", "str")


class ListDtype:
    """As that of cuDF."""

    name = "list"

    def __repr__(self):
        return "ListDtype(str)"

    def __str__(self):
        return self.name


LISTS = pytest.mark.parametrize("dtype", [ListDtype(), pd.ArrowDtype(pa.list_(pa.string()))], ids=["cuDF", "Arrow"])


@LISTS
def test_elements_of_lists_are_taken_by_the_accessor_of_lists(dtype):
    class Lists(Series):
        """As cuDF's Series of lists."""

        @property
        def dtype(self):
            return dtype

        @property
        def str(self):
            raise AttributeError("Can only use .str accessor with string values, not object")

        @property
        def list(self):
            return SimpleNamespace(get=lambda position: pd.Series([one[position] for one in self.to_numpy()]))

    frame = dd.from_pandas(FRAME, npartitions=1)
    kind = type(replaced(frame.name.str[0].expr))
    lists = Lists([["a", "b"], ["c", "d"]], dtype=object)
    assert list(kind.operation(lists, "str", "__getitem__", (0,), {})) == ["a", "c"]
    assert list(kind.operation(lists, "str", "get", (), {"i": -1})) == ["b", "d"]
    with pytest.raises(AttributeError, match="accessor"):  # and no row of the Series
        kind.operation(lists, "str", "__getitem__", (slice(1),), {})


DIGITS, TIMES = "cuDF writes nine digits of a number", "cuDF writes times in another format"
BY_ZERO = "cuDF makes floats of nullable integers that are divided by 0"
OBJECTS, SEVERAL = "cuDF makes texts of what is converted to objects", "cuDF has no column of several kinds of values"
FILLED = "cuDF makes floats of integers that are divided by 0 with a fill_value"
DUMMIES = "cuDF has another column for missing values, or none"
LABELS = "cuDF writes numbers and times of an index in another format"


def by_index(left, right, how):
    made = left.merge(right, left_index=True, right_index=True, how=how, suffixes=("", "_r"))
    return SimpleNamespace(expr=next(iter(made.expr.find_operations(Merge))))  # which Dask renames the index of


NULLABLE = "cuDF makes floats of nullable integers"
KINDS = "cuDF has no index of several kinds of labels"
NAMES = "cuDF's outer merge of indexes with different names loses labels"
OF_ROWS = "cuDF has variances of rows with fewer values than ddof"
THRESH = "cuDF's dropna ignores a thresh of more values than there are columns"


@pytest.mark.parametrize(
    ("convert", "reason"),
    [
        (lambda f: f.x.astype(str), DIGITS),
        (lambda f: f.astype({"x": "str"}), DIGITS),
        (lambda f: f[["x", "k"]].astype("string"), DIGITS),
        (lambda f: f.x.astype(pd.ArrowDtype(pa.string())), DIGITS),
        (lambda f: f.k.astype(str), ""),
        (lambda f: f.x.astype("int64"), ""),
        (lambda f: f.astype({"k": "str", "x": "float32"}), ""),
        (lambda f: f.k.astype("datetime64[ns]").astype(str), TIMES),
        (lambda f: f.k.astype("timedelta64[s]").astype(str), TIMES),
        (lambda f: f.k.astype(object), OBJECTS),
        (lambda f: f.astype({"when": "object", "k": "float32"}), OBJECTS),
        (lambda f: f.name.astype("category").astype("O"), OBJECTS),
        (lambda f: f.name.astype(object), ""),
        (lambda f: dd.concat([f.k.astype("UInt8"), f.k.astype("int64[pyarrow]")]), SEVERAL),
        (lambda f: dd.concat([f[["k"]] > 3, f[["k"]].astype("Int64")]), SEVERAL),
        (lambda f: dd.concat([f[["k"]].assign(b=f.k > 3), f[["k"]].astype("int32")]), ""),
        (lambda f: f.dropna(thresh=4), ""),
        (lambda f: f.dropna(thresh=5), THRESH),
        (lambda f: f.dropna(thresh=2, subset=["x"]), THRESH),
        (lambda f: f.dropna(subset=["x"]), ""),
        (lambda f: f.k.astype("Int64") // f.k, BY_ZERO),
        (lambda f: 7 % f[["k"]].astype("Int64"), BY_ZERO),
        (lambda f: f[["k", "x"]].astype("Int64") // np.array([1, 2]), BY_ZERO),
        (lambda f: f.k.astype("Int64") % pd.NA, BY_ZERO),
        (lambda f: f.k.astype("Int64").floordiv(f.k), BY_ZERO),
        (lambda f: f.k.astype("Int64").mod(0), BY_ZERO),
        (lambda f: f.k.astype("Int64").rmod(7), BY_ZERO),
        (lambda f: f.k.astype("Int64").mod(f.k.partitions[[0]], fill_value=1), BY_ZERO),
        (lambda f: f.k.astype("Int64") % f.k.repartition(npartitions=2), BY_ZERO),
        (lambda f: f.k.astype("Int64").rmod(f.k), BY_ZERO),
        (lambda f: np.floor_divide(f.k.astype("Int64"), f.k), BY_ZERO),
        (lambda f: np.mod(f[["k"]].astype("Int64"), 0), BY_ZERO),
        (lambda f: np.remainder(f.k.astype("Int64"), 3), ""),
        (lambda f: f.k.astype("Int64").floordiv(2), ""),
        (lambda f: f.k.astype("Int64") % 2, ""),
        (lambda f: f[["k"]] // np.array([0]), ""),
        (lambda f: f.k.mod(f.k), ""),
        (lambda f: f.k ** f.k.repartition(npartitions=2), ""),
        (lambda f: f[["k"]].mod(f[["k"]] + 1, fill_value=1), FILLED),
        (lambda f: f[["k"]].rfloordiv(f[["k"]].repartition(npartitions=2), fill_value=1), FILLED),
        (lambda f: f[["x"]].mod(f[["x"]], fill_value=1), ""),
        (lambda f: f[["k"]].mod(0, fill_value=1), ""),
        (lambda f: f[["k", "x"]].std(axis=1, ddof=2), OF_ROWS),
        (lambda f: f[["k", "x"]].std(axis=1), ""),
        (lambda f: f.map_partitions(len), ""),
        (lambda f: dd.get_dummies(f.k.astype("category").cat.as_known(), dummy_na=True), DUMMIES),
        (lambda f: dd.get_dummies(f.k.astype("category").cat.as_known()), ""),
        (lambda f: f.set_index("x").k.add_prefix("a"), LABELS),
        (lambda f: f.set_index("when").k.add_suffix("a"), LABELS),
        (lambda f: f.k.add_suffix("a"), ""),
        (lambda f: by_index(f.set_index("name"), f[["k"]], "outer"), KINDS),
        (lambda f: by_index(f, f.set_index("when")[["k"]], "outer"), KINDS),
        (lambda f: by_index(f.set_index("name"), f[["k"]], "left"), ""),
        (lambda f: by_index(f.set_index("k"), f[["k"]], "outer"), NAMES),
        (lambda f: by_index(f, f[["k"]], "outer"), ""),
        (lambda f: f.k.astype("int64[pyarrow]").replace(5, 2.5), NULLABLE),
        (lambda f: f[["k"]].astype("Int64").replace({5: 2.5}), NULLABLE),
        (lambda f: f.k.astype("int64[pyarrow]").replace([5, 3], 2), ""),
        (lambda f: f.k.replace(5, 2.5), ""),
        (lambda f: f[["k", "when"]].replace(0, np.nan), "cuDF finds numbers among times"),
        (lambda f: f.when.replace(pd.Timestamp("2024-05-01"), pd.Timestamp("2024-05-02")), ""),
        (lambda f: f.combine_first(f.rename(columns={"name": "x", "x": "name"})), SEVERAL),
        (lambda f: f.combine_first(f[["x"]].astype("float32")), ""),
        (lambda f: f.groupby("k").name.value_counts(), "cuDF has no value_counts of groups"),
        (lambda f: f.groupby("k").name.count(), ""),
    ],
)
def test_conversions_and_rows_that_cudf_has_otherwise_are_for_the_host(convert, reason):
    assert reason_for_host(convert(dd.from_pandas(FRAME, npartitions=1)).expr) == reason


@pytest.mark.parametrize("columns", [["k", "name"], ["when", "x"]])
def test_rows_of_several_kinds_stay_on_the_host(columns):
    def compute():
        frame = dd.from_pandas(FRAME, npartitions=2)
        return dd.concat([frame[name] for name in columns])

    expected = compute()
    with gpu_cell(fallback="host"):
        result = compute()
    assert place_of(result) == place_of(result.dropna()) == "host"
    pd.testing.assert_series_equal(result.compute(), expected.compute())


def test_labels_of_several_kinds_stay_on_the_host():
    texts = pd.DataFrame({"a": range(6)}, index=list("ppqpqr"))

    def compute():
        others = pd.DataFrame({"b": [1]})
        left, right = (dd.from_pandas(each, npartitions=5, sort=False) for each in (texts, others))
        return left.join(right, how="outer")

    expected, before = compute(), fallback_log.blocks.copy()
    with gpu_cell(fallback="host"):
        result = compute()
    assert place_of(result) == place_of(result.dropna()) == "host"
    assert {place.operation for place in fallback_log.blocks - before} == {"Merge"}
    pd.testing.assert_frame_equal(result.compute(), expected.compute())


@LISTS
def test_lists_come_to_the_host_as_lists(dtype):
    class Lists(Series):
        """As cuDF's Series of lists, of which its `to_pandas` makes arrays."""

        @property
        def dtype(self):
            return dtype

        def to_arrow(self):
            return pa.array(list(self.to_numpy()))

        def to_pandas(self):
            return pd.Series([None if one is None else np.array(one) for one in self.to_numpy()], name=self.name)

    given = Lists([["a", "b"], None, ["c"]], dtype=object, name="t")
    found = with_lists(given.to_pandas(), given)
    assert list(found) == [["a", "b"], None, ["c"]]
    assert list(found.str.len().dropna()) == [2, 1]
    assert (found.name, list(found.index)) == ("t", [0, 1, 2])

    class Rows:
        """As a dataframe of cuDF."""

        dtypes = pd.Series({"t": dtype, "k": np.dtype("int64")}, dtype=object)

        def __getitem__(self, name):
            return given

    frame = with_lists(pd.DataFrame({"t": given.to_pandas(), "k": [1, 2, 3]}), Rows())
    assert list(frame.t) == [["a", "b"], None, ["c"]]
    assert list(frame.k) == [1, 2, 3]


@pytest.mark.filterwarnings("ignore:isinstance:Warning")  # of pandas 3.1, in Dask
def test_an_index_of_times_is_shifted_by_its_frequency(monkeypatch):
    frame = dd.from_pandas(pd.DataFrame({"x": range(6)}, pd.date_range("2024", periods=6, freq="2h")), npartitions=2)
    expected = frame.index.shift(2)
    found = to_gpu(frame).index.shift(2)
    assert found.divisions == expected.divisions
    result = expected.compute()
    assert found.expr.freq == result.freq

    def without_frequency(index, *args, **options):  # as cuDF's index, which is moved to the host
        return index._with_freq(None).shift(*args, **options)

    monkeypatch.setattr(type(found.expr), "operation", staticmethod(without_frequency))
    assert to_host(found).compute().equals(result)


@pytest.mark.filterwarnings("ignore:isinstance:Warning")  # of pandas 3.1, in Dask
def test_an_index_of_periods_is_shifted_as_in_dask():
    frame = dd.from_pandas(pd.DataFrame({"x": range(6)}, pd.period_range("2024", periods=6)), npartitions=2)
    assert to_gpu(frame).index.shift(2).compute().equals(frame.index.shift(2).compute())


def test_a_merge_by_the_nearest_index_is_planned_as_in_dask():
    left, right = (dd.from_pandas(pd.DataFrame({name: [1.5, 2, 3]}, [1, 5, 9]), npartitions=2) for name in "ab")
    merge = partial(dd.merge_asof, left_index=True, right_index=True)
    found = merge(to_gpu(left), to_gpu(right))
    assert place_of(found) == place_of(found.optimize(fuse=False)) == "gpu"
    assert found.divisions == merge(left, right).divisions


def test_numbers_are_not_converted_in_columns_that_are_not_selected():
    frame = to_gpu(dd.from_pandas(FRAME[["k", "x"]].assign(n=1), npartitions=2))
    assert frame.diff()[["k"]].simplify()._name == frame[["k"]].diff().simplify()._name
    assert frame.diff()[["x"]].simplify()._name == frame[["x"]].diff().simplify()._name


@pytest.mark.parametrize(
    "call", [lambda frame: frame.shift(1), lambda frame: frame.diff(), lambda frame: frame.k.shift(-1)]
)
def test_shifted_integers_are_floats(call):
    frame = to_gpu(dd.from_pandas(pd.DataFrame({"k": [3, 1, 2], "x": [1.5, 2, 3]}), npartitions=1))
    found = call(frame).expr
    assert type(found) is Converted
    rows = pd.DataFrame({"k": pd.array([None, 1, 2], "Int64"), "x": [1.5, 2, 3]})  # as cuDF has them
    result = found.operation(*((rows if found.ndim > 1 else rows.k), *found.operands[1:]))
    dtypes = [result.dtype] if result.ndim == 1 else list(result.dtypes)
    assert {str(dtype).lower() for dtype in dtypes} == {"float64"}
    assert list(found.operation(rows[["x"]], {"k": "float64"}).columns) == ["x"]  # Dask selects columns below it
    floats = frame[["x"]].shift(1).expr
    assert with_floats(floats) is floats


@pytest.mark.parametrize("func", ["sum", "prod"])
def test_the_sum_of_its_group_for_each_row_is_0_where_all_are_missing(func):
    data = pd.DataFrame({"k": [1, 1, 2, np.nan], "x": [np.nan, np.nan, 3, 4]})
    expected = data.groupby("k").x.transform(func)

    class Groups:
        """As those of cuDF, whose sum of no number is missing."""

        def __init__(self, groups):
            self.groups = groups

        def __getitem__(self, name):
            return Groups(self.groups[name])

        def transform(self, name):
            result = self.groups.transform(name)
            return result if name == "count" else result.mask(self.groups.transform("count") == 0)

    class Grouped(pd.DataFrame):
        def groupby(self, *args, **options):
            return Groups(pd.DataFrame(self).groupby(*args, **options))

    rows = Grouped(data)
    assert groupby_slice_transform(rows, ["k"], "x", func, ()).isna().sum() == 3
    pd.testing.assert_series_equal(transformed(rows, ["k"], "x", (), func=func), expected)

    frame = dd.from_pandas(data, npartitions=1)
    found = of_no_number(frame.groupby("k").x.transform(func, meta=pd.Series(dtype=float, name="x")).expr)
    assert type(found).__name__ == "TransformAsPandas"
    pd.testing.assert_series_equal(new_collection(found).compute(), expected)
    others = frame.groupby("k").x.transform("max", meta=pd.Series(dtype=float, name="x")).expr
    assert of_no_number(others) is others


def test_a_text_that_names_a_day_is_its_slice_where_divisions_are_unknown():
    times = pd.date_range("2024-01-01", periods=48, freq="h")
    frame = to_gpu(dd.from_pandas(pd.DataFrame({"x": range(48)}, index=times), npartitions=2)).clear_divisions()
    rows = frame.loc["2024-01-02"].expr.operand("iindexer")
    assert (rows.start, rows.stop) == (times[24], pd.Timestamp("2024-01-02 23:59:59.999999"))
    assert len(frame.loc["2024-01-02"].compute()) == 24


@pytest.mark.parametrize(
    "compute",
    [
        lambda frame: frame.groupby("k").get_group(5),
        lambda frame: frame.groupby("k").x.get_group(3),
        lambda frame: frame.groupby(["k", "name"]).get_group((5, "b")),
        lambda frame: frame.groupby("k").get_group(77) if hasattr(frame, "dask") else frame.iloc[:0],
    ],
)
def test_a_group_is_found(compute):
    expected, found = on_both(compute)
    pd.testing.assert_frame_equal(pd.DataFrame(found), pd.DataFrame(expected))
    pd.testing.assert_frame_equal(pd.DataFrame(found), pd.DataFrame(compute(FRAME)), check_dtype=False)


def test_categories_are_found_on_the_host():
    with switched_to("numpy", "pandas", CellRecord(fallback="host", results="host")):
        frame = to_gpu(dd.from_pandas(FRAME, npartitions=3))
        assert list(frame.categorize(columns=["name"]).name.cat.categories) == ["a", "b", "cc"]


class Levels:
    """As an index of several levels of cuDF, which has two dimensions, and no columns."""

    ndim = 2

    def to_pandas(self):
        return pd.MultiIndex.from_tuples([(1, "a"), (2, "b")])


def test_an_index_of_several_levels_is_moved_to_the_host():
    to_pandas_dispatch.register(Levels, Levels.to_pandas)
    expected = Levels().to_pandas()
    assert partition_to_host(Levels(), schema_of(expected)).equals(expected)
