"""Filters of Parquet files, which cuDF ignores for an index, for a column of directories, and with the operator `=`."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jupyter_gpudask.patches.frames.files.parquet import columns_of_filters, filtered

DATA = pd.DataFrame(
    {
        "x": pd.array([1.0, None, 3.0, 4.0], dtype="Float64"),
        "name": ["a", "b", "a", None],
        "part": pd.Categorical([1, 1, 2, 2]),
        "when": pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-01", "2024-04-01"]),
        "at": pd.date_range("2024-01-01", periods=4, tz="UTC"),
    }
)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([("name", "=", "a")], [0, 2]),
        ([("name", "==", "a"), ("x", ">", 1)], [2]),
        ([("x", "!=", 3)], [0, 1, 3]),
        ([("x", ">=", 3)], [2, 3]),
        ([("x", "<", 3)], [0]),
        ([("x", "<=", 3)], [0, 2]),
        ([[("x", "<", 2)], [("name", "==", "b")]], [0, 1]),
        ([("name", "in", {"b", "c"})], [1]),
        ([("name", "not in", ["a"])], [1, 3]),
        ([("name", "!=", "a")], [1, 3]),
        ([("name", "in", ["a", None])], [0, 2, 3]),
        ([("x", "is", None)], [1]),
        ([("x", "is not", None)], [0, 2, 3]),
        ([("part", ">", 1)], [2, 3]),
        ([("part", "==", 1), ("x", "==", 1)], [0]),
        ([("when", ">", pd.Timestamp("2024-02-15"))], [2, 3]),
        ([("at", "<=", pd.Timestamp("2024-01-02 01:00+02:00"))], [0]),
        ([("at", "in", [pd.Timestamp("2024-01-02 02:00+02:00")])], [1]),
    ],
)
def test_rows_are_those_for_which_the_filters_hold(filters, expected):
    rows = filtered(DATA, filters)
    pd.testing.assert_frame_equal(rows, DATA.iloc[expected].reset_index(drop=True))


def as_read_by_cudf(table):
    """Columns of nullable dtypes: null and NaN are two values, as in cuDF."""
    columns = {name: table[name].to_pandas(types_mapper=NULLABLE.get) for name in table.column_names}
    numbers = table["g"].to_pandas().to_numpy()
    columns["g"] = pd.Series(pd.arrays.FloatingArray(numbers, table["g"].is_null().to_numpy()))
    return pd.DataFrame(columns)


NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype(), pa.string(): pd.StringDtype()}
NAN = float("nan")
TABLE = pa.table(
    {
        "i": range(6),
        "g": [1.0, 2.0, None, NAN, 3.0, 1.0],
        "s": ["a", "b", None, "c", "a", ""],
        "n": [1, 2, None, 3, 1, 2],
        "b": [True, False, None, True, False, None],
    }
)
VALUES = {"g": 1.0, "s": "a", "n": 1, "b": True}


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize(
    "filters",
    [
        *([(name, sign, VALUES[name])] for name in VALUES for sign in ("=", "==", "!=", "<", "<=", ">", ">=")),
        *([(name, sign, [VALUES[name]])] for name in VALUES for sign in ("in", "not in")),
        *([(name, sign, [VALUES[name], None])] for name in VALUES for sign in ("in", "not in")),
        *([(name, sign, value)] for name in VALUES for sign in ("is", "is not") for value in (None, np.nan)),
        *([("g", sign, NAN)] for sign in ("==", "!=", "<", ">=")),
        *([(name, sign, [1, NAN])] for name in ("g", "n") for sign in ("in", "not in")),
        [("g", "!=", 1.0), ("s", "!=", "a")],
        [[("g", "!=", 1.0), ("s", "!=", "a")], [("s", "==", "a")]],
        [[("g", "not in", [1.0]), ("b", "!=", True)], [("n", "is", None)]],
    ],
    ids=str,
)
def test_missing_values_are_compared_as_on_the_cpu(tmp_path, filters):
    pq.write_table(TABLE, tmp_path / "data.parquet")
    expected = dd.read_parquet(tmp_path / "data.parquet", filters=filters).i.compute(scheduler="sync")
    assert filtered(as_read_by_cudf(TABLE), filters).i.tolist() == expected.tolist()


def test_an_index_is_compared_and_stays_the_index():
    frame = DATA.set_index("when")
    rows = filtered(frame, [("when", ">", pd.Timestamp("2024-02-15")), ("x", "<", 4)])
    pd.testing.assert_frame_equal(rows, frame.iloc[[2]])


def test_an_index_of_numbers_stays_as_it_is():
    frame = DATA.set_axis([4, 5, 6, 7])
    assert filtered(frame, [("x", "==", 3)]).index.tolist() == [6]


def test_what_cannot_be_compared_is_an_error():
    with pytest.raises(KeyError, match="y"):
        filtered(DATA, [("y", "==", 3)])
    with pytest.raises(TypeError):
        filtered(DATA, [("when", ">", 3)])


def test_the_names_of_columns_are_found_in_both_forms():
    assert columns_of_filters([("b", "==", 1), ("a", "==", 1)]) == ["a", "b"]
    assert columns_of_filters([[("b", "==", 1)], [("a", "==", 1), ("b", ">", 1)]]) == ["a", "b"]
