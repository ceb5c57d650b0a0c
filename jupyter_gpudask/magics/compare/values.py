"""Whether two results agree: one of NumPy and pandas, one of CuPy and cuDF."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence

    Values = np.ndarray[Any, Any]

TOLERANCES = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-9, "complex64": 1e-4, "complex128": 1e-9}
"""By which part of itself a number may differ, by dtype; near 0, by that part of the median of its array."""

_LONGEST = 1000
_DEEPEST = 20


@dataclass(frozen=True)
class Comparison:
    """How two results compare.

    Attributes
    ----------
    agrees
        `None` if they were not compared.
    text
        What differs, and where; or why they were not compared.
    """

    agrees: bool | None
    text: str


def _agrees(text: str) -> Comparison:
    return Comparison(agrees=True, text=text)


def _differs(text: str) -> Comparison:
    return Comparison(agrees=False, text=text)


def _unknown(text: str) -> Comparison:
    return Comparison(agrees=None, text=text)


def compare(one: Any, other: Any, depth: int = 0) -> Comparison:
    """Compare two results that are on the host.

    Parameters
    ----------
    one
        Of the CPU.
    other
        Of the GPUs; arrays of NumPy and frames of pandas.
    depth
        In how many containers they lie.
    """
    if isinstance(one, pd.DataFrame | pd.Series | pd.Index):
        return _compare_frames(one, other)
    if isinstance(one, np.ndarray | np.generic | Number) and isinstance(other, np.ndarray | np.generic | Number):
        return _compare_arrays(np.asanyarray(one), np.asanyarray(other))
    if isinstance(one, dict | list | tuple):
        return _compare_containers(one, other, depth) if depth < _DEEPEST else _unknown("nested too deep")
    if isinstance(one, str | bytes | bool | set | frozenset | None):
        return _agrees("equal") if one == other else _differs(f"{one!r:.60} and {other!r:.60}")
    return _unknown(f"of type {type(one).__name__}, which cannot be compared")


def _compare_containers(one: Any, other: Any, depth: int) -> Comparison:
    if not isinstance(other, type(one)):
        return _differs(f"a {type(one).__name__} on the CPU, {type(other).__name__} on the GPUs")
    if len(one) != len(other):
        return _differs(f"{len(one)} elements on the CPU, {len(other)} on the GPUs")
    if len(one) > _LONGEST:
        return _unknown(f"{len(one)} elements are too many to compare one by one")
    if isinstance(one, dict) and one.keys() != other.keys():
        return _differs("they have other keys")
    places = list(one) if isinstance(one, dict) else range(len(one))
    unknown = None
    for place in places:
        agreement = compare(one[place], other[place], depth + 1)
        if agreement.agrees is False:
            return _differs(f"at [{place!r}]: {agreement.text}")
        unknown = unknown or (agreement if agreement.agrees is None else None)
    return unknown or _agrees(f"all {len(one)} agree")


def _compare_arrays(one: Values, other: Values) -> Comparison:
    if one.shape != other.shape:
        return _differs(f"of shape {one.shape} on the CPU, {other.shape} on the GPUs")
    masks = np.ma.getmaskarray(one), np.ma.getmaskarray(other)
    if (masks[0] != masks[1]).any():
        return _differs("other elements are masked")
    one, other = (np.atleast_1d(np.ma.getdata(array)[~masks[0]]) if masks[0].any() else array for array in (one, other))
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype.kind in "fc" or other.dtype.kind in "fc":
        return _compare_floats(one, other)
    if one.dtype.kind == "O" or other.dtype.kind == "O":
        pairs = zip(one.ravel().tolist(), other.ravel().tolist(), strict=True)
        differs = np.array([not _is_same(a, b) for a, b in pairs], dtype=bool).reshape(one.shape)
    else:
        differs = np.asarray(one != other)
        if one.dtype.kind in "mM" and other.dtype.kind in "mM":
            differs &= ~(np.isnat(one) & np.isnat(other))
    return _describe(differs, one, other, "equal")


def _compare_floats(one: Values, other: Values) -> Comparison:
    tolerance = max(TOLERANCES.get(array.dtype.name, 0.0) for array in (one, other)) or TOLERANCES["float64"]
    sizes = np.abs(one[np.isfinite(one)])
    near_zero = tolerance * float(np.median(sizes)) if sizes.size > 1 else 0.0
    close = np.isclose(one, other, rtol=tolerance, atol=near_zero, equal_nan=True)
    agreement = _describe(~np.asarray(close), one, other, f"equal to {tolerance:g}")
    if agreement.agrees and one.dtype != other.dtype:
        return _agrees(f"{agreement.text}; {one.dtype} on the CPU, {other.dtype} on the GPUs")
    return agreement


def _is_same(one: Any, other: Any) -> bool:
    """Whether two elements of object arrays are the same thing, nothing and nothing included."""
    if isinstance(one, list | tuple | np.ndarray) or isinstance(other, list | tuple | np.ndarray):
        return bool(compare(list(np.ravel(one)), list(np.ravel(other))).agrees)
    if pd.isna(one) or pd.isna(other):
        return bool(pd.isna(one) and pd.isna(other))
    return bool(one == other)


def _describe(differs: Values, one: Values, other: Values, equal: str) -> Comparison:
    count = int(differs.sum())
    if not count:
        return _agrees(equal)
    first = tuple(int(index) for index in np.argwhere(differs)[0])
    where = "" if one.ndim == 0 else f" at {list(first)}"
    values = [array[()] if array.ndim == 0 else array[first] for array in (one, other)]
    texts = [repr(value.item() if isinstance(value, np.number | np.bool_ | np.str_) else value) for value in values]
    many = "" if one.ndim == 0 else f"{count:,} of {one.size:,} elements differ, the first"
    return _differs(f"{many}{where}: {texts[0]:.60} and {texts[1]:.60}".removeprefix(": "))


def _compare_frames(one: Any, other: Any) -> Comparison:
    if not isinstance(other, pd.DataFrame | pd.Series | pd.Index):
        return _differs(f"a {type(one).__name__} on the CPU, {type(other).__name__} on the GPUs")
    ones, others = _with_index(one), _with_index(other)
    names = [str(name) for name in ones.columns], [str(name) for name in others.columns]
    if names[0] != names[1]:
        return _differs(f"columns {names[0]} on the CPU, {names[1]} on the GPUs")
    if len(ones) != len(others):
        return _differs(f"{len(ones):,} rows on the CPU, {len(others):,} on the GPUs")
    agreement = _compare_columns(ones, others, names[0])
    if agreement.agrees:
        return agreement
    if isinstance(one, pd.DataFrame) and isinstance(other, pd.DataFrame) and _counts_rows(one, other):
        ones, others, names = ones.iloc[:, 1:], others.iloc[:, 1:], (names[0][1:], names[1][1:])
    ordered = _compare_columns(_in_order(ones), _in_order(others), names[0])
    return _agrees(f"{ordered.text}, in another order") if ordered.agrees else agreement


def _with_index(data: Any) -> pd.DataFrame:
    """The data with its index as the first columns."""
    frame: pd.DataFrame
    if isinstance(data, pd.Index):
        frame = data.to_frame(index=False)
        return frame
    frame = data if isinstance(data, pd.DataFrame) else data.to_frame(name="value" if data.name is None else data.name)
    index = frame.index.to_frame(index=False)
    index.columns = pd.Index(["index" if name is None else name for name in frame.index.names], dtype=object)
    whole: pd.DataFrame = pd.concat([index, frame.set_axis(pd.RangeIndex(len(frame)), axis=0)], axis=1)
    return whole


def _counts_rows(*frames: pd.DataFrame) -> bool:
    """Whether the indices only count the rows, from 0 in each partition, so that they tell their order and no more."""
    for frame in frames:
        index = frame.index
        values = index.to_numpy()
        if index.name is not None or values.dtype.kind not in "iu" or not len(values) or values[0] != 0:
            return False
        if not ((np.diff(values) == 1) | (values[1:] == 0)).all():
            return False
    return True


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows in an order of their own, whatever order they came in."""
    keys = frame.set_axis([str(number) for number in range(frame.shape[1])], axis=1).reset_index(drop=True)
    keys = keys.apply(lambda column: column.map(str) if column.dtype == object else column)
    rows = keys.sort_values(list(keys.columns), kind="stable").index.to_numpy()
    ordered: pd.DataFrame = frame.iloc[rows]
    return ordered


def _compare_columns(one: pd.DataFrame, other: pd.DataFrame, names: Sequence[str]) -> Comparison:
    text = "equal"
    for number, name in enumerate(names):
        a, b = one.iloc[:, number].reset_index(drop=True), other.iloc[:, number].reset_index(drop=True)
        differ = a.isna() != b.isna()
        if differ.any():
            row = int(differ.to_numpy().argmax())
            return _differs(f"column {name}, row {row}: {a.iloc[row]!r:.60} and {b.iloc[row]!r:.60}")
        there = ~a.isna()
        agreement = _compare_arrays(np.asarray(a[there].to_numpy()), np.asarray(b[there].to_numpy()))
        if not agreement.agrees:
            return _differs(f"column {name}: {agreement.text}")
        text = agreement.text if agreement.text != "equal" else text
    return _agrees(text)
