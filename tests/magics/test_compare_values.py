"""Whether two results are said to agree."""

import numpy as np
import pandas as pd
import pytest

from jupyter_gpudask.magics.compare.values import compare

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
        (FRAME, FRAME.assign(b=[0.5, 1.0, 2.5]), "column b, row 1"),
        (FRAME, FRAME.assign(a=[1, 2, 4]), "column a: 1 of 3 elements differ, the first at [2]: 3 and 4"),
        (FRAME, FRAME.rename(columns={"a": "z"}), "columns ['index', 'a', 'b', 'c'] on the CPU"),
        (FRAME, FRAME.iloc[:2], "3 rows on the CPU, 2 on the GPUs"),
        (FRAME, 1, "a DataFrame on the CPU, int on the GPUs"),
        (pd.DataFrame({"index": [1, 2]}), pd.DataFrame({"index": [1, 99]}), "column index: 1 of 2 elements differ"),
        (pd.Series([1, 2, 3]), pd.Series([1, 2, 3], index=[7, 8, 9]), "column index: 3 of 3 elements differ"),
        (pd.Series([1, 2, 3]), pd.Series([1, 2, 3], index=[2, 1, 0]), "column index: 2 of 3 elements differ"),
        (pd.Series(["a", "b"]), pd.Series(["a", "c"]), "the first at [1]: 'b' and 'c'"),
        (
            np.array([1e12, 1, 2, 3]),
            np.array([1e12, 9, -2, 300]),
            "3 of 4 elements differ, the first at [1]: 1.0 and",
        ),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 1]), "other elements are masked"),
    ],
)
def test_they_differ_and_it_is_said_where(one, other, text):
    agreement = compare(one, other)
    assert agreement.agrees is False
    assert text in agreement.text


def test_what_cannot_be_compared_is_said():
    agreement = compare(object(), object())
    assert (agreement.agrees, agreement.text) == (None, "of type object, which cannot be compared")


def test_a_loss_of_precision_is_told():
    text = compare(np.array([1.0, 2.0]), np.array([1.0, 2.0], dtype="float32")).text
    assert text == "equal to 0.0001; float64 on the CPU, float32 on the GPUs"


def test_what_contains_itself_is_not_followed_for_ever():
    one, other = [], []
    one.append(one)
    other.append(other)
    assert compare(one, other).agrees is None
