"""Whether two results are said to agree, by the rules of `--compare` and by strict ones."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from strict_rules import STRICT_RULES

from jupyter_gpudask.magics.compare_values import compare

FRAME = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, np.nan, 2.5], "c": ["x", "y", None]})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1),
        (1.0, np.float64(1.0 + 1e-12)),
        (np.float32(3), np.float32(3.00001)),
        (np.arange(5), np.arange(5)),
        (np.array([1.0, np.nan, np.inf]), np.array([1.0, np.nan, np.inf])),
        (np.array([5.0, 4.0, 1e-20]), np.array([5.0, 4.0, -1e-20])),
        (np.array([None, 1.5, np.nan], dtype=object), np.array([None, 1.5, np.nan], dtype=object)),
        (np.array(["NaT", "2020-01-01"], dtype="M8[D]"), np.array(["NaT", "2020-01-01"], dtype="M8[D]")),
        (pd.Series([[1, 2], [3]]), pd.Series([[1, 2], [3]])),
        (pd.NA, pd.NA),
        (pd.NaT, pd.NaT),
        (float("nan"), pd.NA),
        (pd.Series([np.array(5), [np.array(3)]]), pd.Series([np.array(5), (3,)])),
        (pd.Series([[1, [2, 3]], (4.0,)]), pd.Series([(1, np.array([2, 3])), [4.0 + 1e-13]])),
        (pd.Series([pd.array(["a", None]), [1]]), pd.Series([np.array(["a", None], dtype=object), pd.array([1])])),
        (FRAME.set_axis([1, "1", "1"], axis=1), FRAME.set_axis([1, "1", "1"], axis=1)),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 9], mask=[0, 1])),
        (np.zeros((0, 3)), np.zeros((0, 3))),
        ("a", "a"),
        (None, None),
        ([1, {"x": np.ones(3)}], [1, {"x": np.ones(3)}]),
        (FRAME, FRAME.copy()),
        (FRAME, FRAME.iloc[::-1]),
        (FRAME.set_index("a"), FRAME.set_index("a").iloc[[2, 0, 1]]),
        (FRAME["b"], FRAME["b"] + 1e-13),
        (FRAME.groupby("a").b.sum(), FRAME.groupby("a").b.sum().iloc[::-1]),
        (FRAME.index, FRAME.index),
        (np.array(["a", "b"]), np.array(["a", "b"])),
        (np.array([1 + 2j]), np.array([1 + 2j])),
        (pd.Series([1, None], dtype=object), pd.Series([1.0, None])),
        (pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01")),
        (np.arange(3), np.arange(3.0)),
        (FRAME, FRAME.assign(a=FRAME["a"].astype("int32"))),
        (np.zeros(2, dtype=[("a", int), ("b", float)]), np.zeros(2, dtype=[("a", int), ("b", float)])),
        (np.ma.array([(1, 2)], mask=[(0, 1)], dtype="i8,i8"), np.ma.array([(1, 9)], mask=[(0, 1)], dtype="i8,i8")),
    ],
)
def test_they_agree(one, other):
    agreement = compare(one, other)
    assert agreement.agrees is True, agreement.text


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        (1, 2, "1 and 2"),
        (np.arange(5), np.array([0, 1, 7, 3, 4]), "1 of 5 elements differ, the first at [2]: 2 and 7"),
        (np.ones((2, 2)), np.ones(2), "of shape (2, 2) on the CPU, (2,) on the GPUs"),
        (np.array([1.0, 2.0]), np.array([1.0, 2.001]), "at [1]: 2.0 and 2.001"),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]), "at [1]: nan and 2.0"),
        (np.array([np.inf]), np.array([1.0]), "at [0]: inf and 1.0"),
        ("a", "b", "'a' and 'b'"),
        ([1, [2, 3]], [1, [2, 4]], "at [1]: at [1]: 3 and 4"),
        ({"a": 1}, {"b": 1}, "other keys"),
        ([1], [1, 2], "1 elements on the CPU, 2 on the GPUs"),
        ([1], (1,), "a list on the CPU, tuple on the GPUs"),
        (pd.Series([pd.array(["a"])]), pd.Series([pd.array(["b"])]), "column value: 1 of 1 elements differ"),
        (FRAME, FRAME.assign(b=[0.5, 1.0, 2.5]), "column b, row 1"),
        (FRAME, FRAME.assign(a=[1, 2, 4]), "column a: 1 of 3 elements differ, the first at [2]: 3 and 4"),
        (FRAME, FRAME.rename(columns={"a": "z"}), "columns ['index', 'a', 'b', 'c'] on the CPU"),
        (FRAME, FRAME.iloc[:2], "3 rows on the CPU, 2 on the GPUs"),
        (FRAME, 1, "a DataFrame on the CPU, int on the GPUs"),
        (pd.DataFrame({"index": [1, 2]}), pd.DataFrame({"index": [1, 99]}), "column index: 1 of 2 elements differ"),
        (pd.Series([1, 2, 3]), pd.Series([1, 2, 3], index=[7, 8, 9]), "column index: 3 of 3 elements differ"),
        (pd.Series([1, 2, 3]), pd.Series([1, 2, 3], index=[2, 1, 0]), "column index: 2 of 3 elements differ"),
        (pd.Series(["a", "b"]), pd.Series(["a", "c"]), "the first at [1]: 'b' and 'c'"),
        (np.array([1e12, 1, 2, 3]), np.array([1e12, 9, -2, 300]), "3 of 4 elements differ, the first at [1]: 1.0 and"),
        (np.array([1e308, 1.5e308]), np.array([1.0, 2.0]), "2 of 2 elements differ"),
        (np.array([3e38, 3.2e38], "f4"), np.array([1, 2], "f4"), "2 of 2 elements differ"),
        (pd.Series([[[1, 2]], [3]]), pd.Series([[1, 2], [3]]), "the first at [0]: [[1, 2]] and [1, 2]"),
        (pd.Series([[1, "2"], [3]]), pd.Series([["1", "2"], [3]]), "the first at [0]: [1, '2'] and ['1', '2']"),
        (pd.Series([[1], None]), pd.Series([1, None]), "the first at [0]: [1] and 1"),
        (pd.Series([FRAME]), pd.Series([1], dtype=object), "column value: 1 of 1 elements differ"),
        (np.ones(2), np.zeros(2, dtype=[("a", int)]), "of dtype float64 on the CPU, [('a', '<i8')] on the GPUs"),
        (FRAME["a"], FRAME[["a"]], "a Series on the CPU, DataFrame on the GPUs"),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 1]), "other elements are masked"),
        ("a", pd.NA, "'a' and <NA>"),
        (pd.NA, "a", "a NAType on the CPU, str on the GPUs"),
        (pd.NaT, pd.Timestamp("2020"), "NaT and Timestamp('2020"),
        (pd.Series([np.array(5)]), pd.Series([np.array([5])]), "the first at [0]: array(5) and array([5])"),
        (np.ones(2), FRAME, "a ndarray on the CPU, DataFrame on the GPUs"),
        ("a", np.ones(2), "a str on the CPU, ndarray on the GPUs"),
        (pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02"), "2020-01-01"),
        (pd.Series([1, 2, 3]), pd.Series([3, 1, 2]), "column value: 3 of 3 elements differ"),
        (
            np.ma.array([(1, 2)], mask=[(0, 1)], dtype="i8,i8"),
            np.ma.array([(1, 2)], mask=[(1, 1)], dtype="i8,i8"),
            "field f0: other elements are masked",
        ),
    ],
)
def test_they_differ_and_the_text_says_where(one, other, text):
    agreement = compare(one, other)
    assert agreement.agrees is False
    assert text in agreement.text


class Incomparable:
    def __eq__(self, other):
        raise TypeError("no")

    __hash__ = None


def test_objects_that_refuse_to_be_compared_differ():
    one, other = (np.array([Incomparable()], dtype=object) for _ in range(2))
    assert compare(one, other).agrees is False


def test_what_cannot_be_compared_is_reported():
    agreement = compare(object(), object())
    assert (agreement.agrees, agreement.text) == (None, "of type object, which cannot be compared")


def test_a_loss_of_precision_is_reported():
    text = compare(np.array([1.0, 2.0]), np.array([1.0, 2.0], dtype="float32")).text
    assert text == "equal to 0.0001; float64 on the CPU, float32 on the GPUs"


def test_a_list_that_contains_itself_is_not_followed_forever():
    one, other = [], []
    one.append(one)
    other.append(other)
    assert compare(one, other).agrees is None


OPEN = replace(STRICT_RULES, has_open_order=True)
TIMES = pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2021-01-01", None])})


@pytest.mark.parametrize(
    ("one", "other", "rules"),
    [
        (np.array([1.0]), np.array([1.0 + 1e-7]), STRICT_RULES),
        (np.float64(1), 1.0, STRICT_RULES),
        (FRAME, FRAME.assign(c=FRAME["c"].astype(object)), STRICT_RULES),
        (TIMES, TIMES.astype("datetime64[ms]"), STRICT_RULES),
        (pd.Index([0, 1]), pd.RangeIndex(2), STRICT_RULES),
        (np.array([2, 1]), np.array([1, 2]), OPEN),
        (FRAME, FRAME.set_axis([7, 8, 9]).iloc[::-1], OPEN),
        (FRAME.set_index(["a", "b"]).index, FRAME.set_index(["a", "b"]).index, STRICT_RULES),
        (np.zeros(3), np.ones(3), STRICT_RULES.without_values()),
        (np.zeros(3), np.zeros(2), STRICT_RULES.without_values()),
        (FRAME, FRAME.iloc[:0], STRICT_RULES.without_values()),
    ],
)
def test_they_agree_by_strict_rules(one, other, rules):
    comparison = compare(one, other, rules)
    assert comparison.agrees is True, comparison.text


@pytest.mark.parametrize(
    ("one", "other", "rules", "text"),
    [
        (np.array([1.0]), np.array([1.0 + 1e-5]), STRICT_RULES, "1 of 1 elements differ"),
        (np.arange(3), np.arange(3.0), STRICT_RULES, "of dtype int64 on the CPU, float64 on the GPUs"),
        (FRAME, FRAME.assign(a=FRAME["a"].astype("int32")), STRICT_RULES, "column a: of dtype int64 on the CPU, int32"),
        (pd.DataFrame({1: [1]}), pd.DataFrame({"1": [1]}), STRICT_RULES, "labels [1, None] on the CPU, ['1', None]"),
        (FRAME["a"], FRAME["a"].rename("z"), STRICT_RULES, "on the GPUs"),
        (FRAME, FRAME.rename_axis("i"), STRICT_RULES, "on the GPUs"),
        (FRAME["a"], FRAME[["a"]], STRICT_RULES, "a Series on the CPU, DataFrame on the GPUs"),
        (FRAME, FRAME.iloc[::-1], STRICT_RULES, "rows in another order"),
        (np.array([2, 1]), np.array([1, 3]), OPEN, "2 of 2 elements differ"),
        (np.zeros(3), np.zeros(3, "f4"), STRICT_RULES.without_values(), "of dtype float64 on the CPU"),
        (np.zeros(3), np.zeros((3, 1)), STRICT_RULES.without_values(), "of shape"),
    ],
)
def test_they_differ_by_strict_rules(one, other, rules, text):
    comparison = compare(one, other, rules)
    assert comparison.agrees is False
    assert text in comparison.text


def test_rows_in_another_order_are_found_beside_times_without_a_warning():
    frame = pd.DataFrame({"x": [0.5, 1.5], "time": pd.to_datetime(["2024-01-02", "2024-01-01"])})
    other = frame[::-1].assign(x=[1.5 + 1e-12, 0.5 - 1e-12])  # sorted by x rounded, since it is no longer equal
    assert compare(frame, other, OPEN).agrees
    assert compare(frame, other.assign(time=frame.time[0]), OPEN).agrees is False


def test_rows_in_another_order_are_found_by_floats_of_arrow_with_both_zeros():
    frame = pd.DataFrame({"a": [2, 1, 1], "x": pd.Series([1.0, 0.0, -0.0], dtype="double[pyarrow]")})
    assert compare(frame, frame[::-1], OPEN).agrees
