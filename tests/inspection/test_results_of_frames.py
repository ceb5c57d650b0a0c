"""Results of cuDF get the dtypes, and the order of columns, of the metadata of pandas, as far as no value changes."""

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dask.dataframe.utils import UNKNOWN_CATEGORIES

from jupyter_gpudask.inspection.frames import _array, conform, meta_of_pandas, schema_of

TEXT = pd.StringDtype("pyarrow")
UNKNOWN = pd.CategoricalDtype([UNKNOWN_CATEGORIES])


def series(values, dtype=None):
    return pd.Series(values, dtype=dtype, name="x")


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (series([1, 2], "int32"), "int64"),
        (series([1.5, None]), "float32"),
        (series(["a", None], object), TEXT),
        (series([True, False], "boolean"), "bool"),
        (series(["2024-01-01"], "datetime64[s]"), "datetime64[ns]"),
        (series([], "float64"), "float64"),
        (series([1, 2], "Int64"), "int64"),
    ],
    ids=str,
)
def test_a_result_has_the_dtype_of_the_metadata(given, dtype):
    found = conform(given, schema_of(series([], dtype)))
    assert found.dtype == dtype
    assert found.isna().tolist() == given.isna().tolist()
    assert found.dropna().tolist() == given.dropna().tolist()
    assert found.name == "x"


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (series([True, None], "boolean"), "bool"),  # which pandas could make true
        (series([True, None], object), "bool"),
        (series([1.0, np.nan]), "int64"),  # what is missing is NaN
        (series([1, 2]), "float64"),  # as on the CPU, where only a partition with a missing number has others
        (series([1.0, 2.0]), "int64"),
        (series([0.5, 1.0]), "bool"),
        (series([2, 0]), "bool"),
        (series([300, 1]), "int8"),
        (series([2**63], "uint64"), "int64"),
        (series([-1]), "uint8"),
        (series([1, None], "Int64"), "int64"),
        (series(["a", "1"], object), "float64"),
        (series(["a"], object), "datetime64[ns]"),
        (series(["a", "c"], "category"), pd.CategoricalDtype(["a", "b"])),
        (series(["a", None], "category"), UNKNOWN),
        (series([], pd.CategoricalDtype(["a"])), UNKNOWN),
    ],
    ids=str,
)
def test_a_value_that_the_dtype_cannot_hold_keeps_the_result_as_it_is(given, dtype):
    assert conform(given, schema_of(series([], dtype))) is given


def test_texts_become_categories_without_a_lost_value():
    for dtype in (pd.CategoricalDtype(["a", "b"]), UNKNOWN):
        found = conform(series(["a", "c", None]), schema_of(series([], dtype)))
        assert list(found.dtype.categories) == ["a", "c"]
        assert found.isna().tolist() == [False, False, True]


def test_texts_have_all_categories_that_are_known_in_their_order():
    dtype = pd.CategoricalDtype(["c", "b", "a"], ordered=True)
    assert conform(series(["a", None, "c"]), schema_of(series([], dtype))).dtype == dtype
    assert list(conform(series([None], object), schema_of(series([], UNKNOWN))).dtype.categories) == []


def test_categories_of_an_index_of_several_levels_keep_their_order():
    dtype = pd.CategoricalDtype(["low", "high"], ordered=True)
    levels = [pd.Categorical(["high", "low", "high"], dtype=dtype), [2, 1, 3]]
    expected = pd.Series(range(3), pd.MultiIndex.from_arrays(levels, names=["c", "n"]))
    given = expected.set_axis(pd.MultiIndex.from_arrays([levels[0].as_unordered(), levels[1]], names=["c", "n"]))
    pd.testing.assert_series_equal(conform(given, schema_of(expected[:0])), expected)
    assert conform(expected, schema_of(expected[:0])) is expected
    of_other = schema_of(expected[:0].reset_index("n", drop=True))
    assert conform(given, of_other) is given
    assert list(conform(expected.reset_index(drop=True), schema_of(expected[:0])).index) == [0, 1, 2]


class Column(pd.Series):
    """Stands for a column of cuDF, which is no pandas and gives its values to Arrow."""

    def to_arrow(self):
        return pa.array(self, from_pandas=True)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("Int64", [2**62 + 1, None]),
        ("UInt8", [1, None]),
        ("boolean", [True, None]),
        ("Float32", [1.5, None]),
        ("int32[pyarrow]", [1, None]),
        (TEXT, ["a", None]),
    ],
)
def test_nullable_columns_come_to_the_host_without_a_rounded_value(dtype, values):
    column = Column(pd.array(values, dtype="Int64" if type(values[0]) is int else dtype))
    pd.testing.assert_extension_array_equal(_array(column, pd.Series(dtype=dtype).dtype), pd.array(values, dtype=dtype))


def test_missing_texts_among_objects_are_nan_as_in_a_concatenation_of_pandas():
    assert _array(Column([None, None], dtype=object), np.dtype(object)).tolist() == pytest.approx(
        [np.nan] * 2, nan_ok=True
    )
    assert _array(Column(["a", None], dtype=object), np.dtype(object)) is None


def test_an_integer_that_a_dtype_cannot_hold_and_columns_of_plain_dtypes_are_left():
    assert _array(Column([300, 1]), pd.UInt8Dtype()) is None
    assert _array(Column([1.5, 2]), pd.Int64Dtype()) is None
    assert _array(Column([1, 2]), np.dtype("int32")) is None


def test_columns_are_in_the_order_of_the_metadata():
    meta = pd.DataFrame({"b": pd.Series(dtype="int32"), "a": pd.Series(dtype=TEXT)})
    given = pd.DataFrame({"a": pd.Series(["x", None], dtype=object), "b": [1, 2]})
    found = conform(given, schema_of(meta))
    assert list(found.columns) == ["b", "a"]
    assert list(found.dtypes) == list(meta.dtypes)
    assert found.b.tolist() == [1, 2]
    assert list(given.columns) == ["a", "b"], "the partition itself stays, for other tasks may have it"
    assert given.b.dtype == "int64"


@pytest.mark.parametrize("columns", [["c", "a"], ["a"], ["b", "a", "c"], ["a", "a"]])
def test_a_dataframe_with_other_columns_keeps_them(columns):
    given = pd.DataFrame([range(len(columns))], columns=columns)
    assert conform(given, schema_of(pd.DataFrame({"a": [1], "b": [1]}))).equals(given)
    if columns != ["a", "a"]:
        assert conform(given, schema_of(pd.DataFrame({"a": [1], "b": [1]}, dtype="int32"))).a.dtype == "int32"


def test_columns_of_several_levels_have_the_dtypes_of_the_metadata():
    columns = pd.MultiIndex.from_product([["z"], pd.CategoricalIndex(["b", "a"], name="kind")])
    given = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("z", "b"), ("z", "a")]))
    for found in (given, given.set_axis(pd.Index(list(columns), tupleize_cols=False), axis=1)):
        made = conform(found, schema_of(pd.DataFrame(columns=columns, dtype="int64")))
        pd.testing.assert_index_equal(made.columns, columns)


@pytest.mark.parametrize(
    "columns",
    [
        pd.Index(["a", "b"], dtype=object),
        pd.CategoricalIndex(["a", "b"], categories=["b", "a"], name="kind"),
        pd.Index([1.0, 2.0]),
        pd.Index([], dtype=object),
    ],
)
def test_columns_are_an_index_of_the_dtype_of_the_metadata(columns):
    meta = pd.DataFrame(columns=columns, dtype="float64")
    given = pd.DataFrame([range(len(columns))], columns=columns.astype("int64" if columns.dtype == float else "str"))
    pd.testing.assert_index_equal(conform(given, schema_of(meta)).columns, columns)
    assert given.columns.dtype != columns.dtype
    pd.testing.assert_index_equal(conform(given.iloc[:, 1:], schema_of(meta)).columns, columns[1:])


def test_columns_of_one_name_are_converted_each():
    meta = pd.DataFrame([[1, "x"]], columns=["a", "a"]).astype("str")
    meta.isetitem(0, pd.Series([1], dtype="int32"))
    found = conform(pd.DataFrame([[1, "x"]], columns=["a", "a"]), schema_of(meta))
    assert list(found.dtypes) == list(meta.dtypes)


def test_an_index_has_the_dtype_of_the_metadata():
    meta = pd.Series([1.5], index=pd.Index(["x"], dtype=TEXT, name="key"))
    given = pd.Series([1.5, 2.5], index=pd.Index(["a", "b"], dtype=object, name="key"))
    found = conform(given, schema_of(meta))
    assert (found.index.dtype, found.index.name) == (TEXT, "key")
    assert given.index.dtype == object
    assert conform(given.index, schema_of(meta.index)).dtype == TEXT
    pairs = pd.MultiIndex.from_tuples([(1, "a")])
    assert conform(pairs, schema_of(pd.DataFrame({"x": [1]}))) is pairs
    levels = pd.DataFrame({"x": [1]}, index=pd.MultiIndex.from_tuples([(1, "a")]))
    assert conform(levels, schema_of(levels)) is levels


def test_categories_have_the_order_of_the_metadata():
    wanted = pd.CategoricalDtype(["b", "a"], ordered=True)
    meta = pd.DataFrame({"c": pd.Series(dtype=wanted)}, index=pd.CategoricalIndex([], dtype=wanted))
    given = pd.DataFrame({"c": pd.Categorical(["a"], ["b", "a"])}, index=pd.CategoricalIndex(["a"], ["b", "a"]))
    found = conform(given, schema_of(meta))
    assert found.c.dtype == found.index.dtype == wanted
    assert not given.c.cat.ordered
    assert not conform(found, schema_of(given)).index.ordered


def test_times_have_the_zone_and_the_frequency_of_the_metadata():
    plan = pd.date_range("2024", periods=3, freq="h", tz=dt.UTC)
    given = pd.DataFrame({"t": plan}, index=plan).tz_convert("UTC").assign(t=plan.tz_convert(ZoneInfo("UTC")))
    given.index = pd.DatetimeIndex(given.index.tz_convert(ZoneInfo("UTC")), freq=None)
    found = conform(given, schema_of(pd.DataFrame({"t": plan}, index=plan)))
    assert found.t.dt.tz is found.index.tz is dt.UTC
    assert found.index.freq == plan.freq
    assert conform(given[::2], schema_of(found)).index.freq is None


class OfCudf:
    """Stands for metadata of cuDF."""

    def __init__(self, data):
        self._data = data

    @property
    def dtypes(self):
        return self._data.dtypes

    @property
    def dtype(self):
        return self._data.dtype

    def to_pandas(self):
        return self._data


def test_metadata_of_cudf_becomes_that_of_pandas():
    meta = pd.DataFrame({"x": [1.5], "name": pd.Series(["a"], dtype=object)})
    found = meta_of_pandas(OfCudf(meta))
    assert [found.dtypes["x"], found.dtypes["name"]] == [np.dtype(float), TEXT]
    assert meta_of_pandas(OfCudf(meta.name)).dtype == TEXT
    assert meta_of_pandas(OfCudf(meta.x)).dtype == float
    assert meta_of_pandas(meta) is meta
    assert meta_of_pandas(1.5) == 1.5


def test_an_index_of_numbers_stays_one_where_the_metadata_has_objects():
    index = pd.Index([3, 1])
    schema = schema_of(pd.DataFrame({"x": []}, index=pd.Index([], dtype=object)))
    assert conform(pd.DataFrame({"x": [1.0, 2.0]}, index=index), schema).index.dtype == "int64"
    assert conform(index, schema_of(pd.Index([], dtype=object))).dtype == "int64"


@pytest.mark.parametrize("categories", [["b", "a"], [UNKNOWN_CATEGORIES]], ids=str)
def test_categories_are_ordered_as_the_metadata(categories):
    dtype = pd.CategoricalDtype(categories, ordered=True)
    given = series(["a", None, "b"], pd.CategoricalDtype(["b", "a"]))
    frame = given.to_frame().set_index(pd.CategoricalIndex(["b", "b", "a"], ["b", "a"], name="i"))
    schema = schema_of(pd.DataFrame({"x": series([], dtype)}, pd.CategoricalIndex([], dtype=dtype, name="i")))
    found = conform(frame, schema)
    ordered = pd.CategoricalDtype(["b", "a"], ordered=True)
    assert (found.x.dtype, found.index.dtype) == (ordered, ordered)
    assert found.x.tolist()[::2] == ["a", "b"]
    assert found.index.tolist() == ["b", "b", "a"]


def test_categories_other_than_those_of_the_metadata_keep_their_order():
    given = series(["a"], pd.CategoricalDtype(["a"]))
    assert conform(given, schema_of(series([], pd.CategoricalDtype(["b", "a"], ordered=True)))) is given
