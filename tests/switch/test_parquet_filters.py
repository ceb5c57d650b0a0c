"""Filters of Parquet files, which cuDF ignores for an index, for a column of directories, and with the operator `=`."""

import pandas as pd
import pytest

from jupyter_gpudask.patches.frames.files.parquet import columns_of_filters, filtered

DATA = pd.DataFrame(
    {
        "x": pd.array([1.0, None, 3.0, 4.0], dtype="Float64"),
        "name": ["a", "b", "a", None],
        "part": pd.Categorical([1, 1, 2, 2]),
        "when": pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-01", "2024-04-01"]),
    }
)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([("name", "=", "a")], [0, 2]),
        ([("name", "==", "a"), ("x", ">", 1)], [2]),
        ([("x", "!=", 3)], [0, 3]),
        ([("x", ">=", 3)], [2, 3]),
        ([("x", "<", 3)], [0]),
        ([("x", "<=", 3)], [0, 2]),
        ([[("x", "<", 2)], [("name", "==", "b")]], [0, 1]),
        ([("name", "in", {"b", "c"})], [1]),
        ([("name", "not in", ["a"])], [1, 3]),
        ([("x", "is", None)], [1]),
        ([("x", "is not", None)], [0, 2, 3]),
        ([("part", ">", 1)], [2, 3]),
        ([("part", "==", 1), ("x", "==", 1)], [0]),
        ([("when", ">", pd.Timestamp("2024-02-15"))], [2, 3]),
    ],
)
def test_rows_are_those_for_which_the_filters_hold(filters, expected):
    rows = filtered(DATA, filters)
    pd.testing.assert_frame_equal(rows, DATA.iloc[expected].reset_index(drop=True))


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
