"""Whether two results agree: one of NumPy and pandas, one of CuPy and cuDF."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence

TOLERANCES = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-9, "complex64": 1e-4, "complex128": 1e-9}
"""By which part of the largest value of an array two of its elements may differ, by dtype; integers may not."""

_LONGEST = 1000


@dataclass(frozen=True)
class Agreement:
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


def _agrees(text: str) -> Agreement:
    return Agreement(agrees=True, text=text)


def _differs(text: str) -> Agreement:
    return Agreement(agrees=False, text=text)


def _unknown(text: str) -> Agreement:
    return Agreement(agrees=None, text=text)


def compare(one: Any, other: Any) -> Agreement:
    """Compare two results that are on the host.

    Parameters
    ----------
    one
        Of the CPU.
    other
        Of the GPUs; arrays of NumPy and frames of pandas.
    """
    if isinstance(one, pd.DataFrame | pd.Series | pd.Index):
        return _compare_frames(one, other)
    if isinstance(one, np.ndarray | np.generic | Number) and isinstance(other, np.ndarray | np.generic | Number):
        return _compare_arrays(np.asarray(one), np.asarray(other))
    if isinstance(one, dict | list | tuple):
        return _compare_containers(one, other)
    if isinstance(one, str | bytes | bool | set | frozenset | None):
        return _agrees("equal") if one == other else _differs(f"{one!r:.60} and {other!r:.60}")
    return _unknown(f"of type {type(one).__name__}, which cannot be compared")


def _compare_containers(one: Any, other: Any) -> Agreement:
    if not isinstance(other, type(one)):
        return _differs(f"a {type(one).__name__} on the CPU, {type(other).__name__} on the GPUs")
    if len(one) != len(other):
        return _differs(f"{len(one)} elements on the CPU, {len(other)} on the GPUs")
    if not isinstance(one, dict):
        return _compare_all(one, other, [f"[{number}]" for number in range(len(one))])
    if one.keys() != other.keys():
        return _differs("they have other keys")
    return _compare_all(list(one.values()), [other[key] for key in one], [f"[{key!r}]" for key in one])


def _compare_all(ones: Sequence[Any], others: Sequence[Any], places: Sequence[str]) -> Agreement:
    if len(ones) > _LONGEST:
        return _unknown(f"{len(ones)} elements are too many to compare one by one")
    found = [compare(one, other) for one, other in zip(ones, others, strict=True)]
    for place, agreement in zip(places, found, strict=True):
        if agreement.agrees is False:
            return _differs(f"at {place}: {agreement.text}")
    if any(agreement.agrees is None for agreement in found):
        return next(agreement for agreement in found if agreement.agrees is None)
    return _agrees(f"all {len(ones)} agree")


def _compare_arrays(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> Agreement:
    if one.shape != other.shape:
        return _differs(f"of shape {one.shape} on the CPU, {other.shape} on the GPUs")
    if one.dtype.kind not in "fc" and other.dtype.kind not in "fc":
        differs = np.atleast_1d(one != other)
        return _describe(differs, one, other, "equal")
    tolerance = max(TOLERANCES.get(array.dtype.name, 0.0) for array in (one, other)) or TOLERANCES["float64"]
    finite = np.abs(one[np.isfinite(one)]) if one.dtype.kind in "fc" else np.abs(one)
    largest = float(finite.max()) if finite.size else 0.0
    close = np.isclose(one, other, rtol=0, atol=tolerance * largest, equal_nan=True)
    return _describe(np.atleast_1d(~close), one, other, f"equal to {tolerance:g} of the largest value")


def _describe(
    differs: np.ndarray[Any, Any], one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], equal: str
) -> Agreement:
    count = int(differs.sum())
    if not count:
        return _agrees(equal)
    first = tuple(int(index) for index in np.argwhere(differs)[0])
    where = "" if one.ndim == 0 else f" at {list(first)}"
    values = (array.item() if array.ndim == 0 else array[first].item() for array in (one, other))
    many = "" if one.ndim == 0 else f"{count:,} of {one.size:,} elements differ, the first"
    return _differs(f"{many}{where}: {next(values)!r} and {next(values)!r}".strip(": ").strip())


def _compare_frames(one: Any, other: Any) -> Agreement:
    if not isinstance(other, pd.DataFrame | pd.Series | pd.Index):
        return _differs(f"a {type(one).__name__} on the CPU, {type(other).__name__} on the GPUs")
    ones, others = _as_frame(one), _as_frame(other)
    if list(ones.columns) != list(others.columns):
        return _differs(f"columns {list(ones.columns)} on the CPU, {list(others.columns)} on the GPUs")
    if len(ones) != len(others):
        return _differs(f"{len(ones):,} rows on the CPU, {len(others):,} on the GPUs")
    agreement = _compare_columns(ones, others)
    if agreement.agrees:
        return agreement
    ordered = _compare_columns(_in_order(ones), _in_order(others))
    return _agrees(f"{ordered.text}, in another order") if ordered.agrees else agreement


def _as_frame(data: Any) -> pd.DataFrame:
    """The data with its index as columns, all under names that are strings."""
    frame = data.reset_index() if isinstance(data, pd.DataFrame) else data.to_frame(name="value").reset_index()
    return frame.set_axis([str(name) for name in frame.columns], axis=1)


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows in an order of their own, whatever order they came in; the numbers of the rows do not count."""
    frame = frame.drop(columns=[name for name in ("index",) if name in frame.columns and len(frame.columns) > 1])
    return frame.sort_values(list(frame.columns), kind="stable", ignore_index=True)


def _compare_columns(one: pd.DataFrame, other: pd.DataFrame) -> Agreement:
    text = "equal"
    for name in one.columns:
        a, b = one[name], other[name]
        missing = a.isna() | b.isna()
        if not (a.isna() == b.isna()).all():
            row = int((a.isna() != b.isna()).to_numpy().argmax())
            return _differs(f"column {name}, row {row}: {a.iloc[row]!r} and {b.iloc[row]!r}")
        values = [np.asarray(column[~missing].to_numpy()) for column in (a, b)]
        agreement = _compare_arrays(*values)
        if not agreement.agrees:
            return _differs(f"column {name}: {agreement.text}")
        text = agreement.text if "largest" in agreement.text else text
    return _agrees(text)
