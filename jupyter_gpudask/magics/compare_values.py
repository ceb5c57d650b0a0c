"""Compare a result of NumPy and pandas with one of CuPy and cuDF; both are on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    Values = np.ndarray[Any, Any]

FULL = ("float64", "complex128")
SINGLE = ("float32", "complex64")

_MAX_LENGTH = 1000
_MAX_DEPTH = 20
_MISSING = type(pd.NA) | type(pd.NaT)
_ARRAYS = np.ndarray | np.generic | Number | pd.Timestamp | pd.Timedelta | pd.Interval | pd.Period | _MISSING
_FRAMES = pd.DataFrame | pd.Series | pd.Index


@dataclass(frozen=True)
class Comparison:
    """The comparison of two results."""

    agrees: bool | None  # `None` if they were not compared
    text: str  # what differs and where, or why they were not compared


def agree(text: str) -> Comparison:
    """The results agree."""
    return Comparison(agrees=True, text=text)


def differ(text: str) -> Comparison:
    """The results differ."""
    return Comparison(agrees=False, text=text)


def give_up(text: str) -> Comparison:
    """The results were not compared."""
    return Comparison(agrees=None, text=text)


@dataclass(frozen=True)
class Rules:
    """What counts as a difference; a user reads the report, so dtypes and the order of rows are reported and agree."""

    # the relative tolerance of floating-point numbers, by dtype; the largest of the two dtypes counts
    relative: Mapping[str, float] = field(
        default_factory=lambda: {"float16": 1e-2} | dict.fromkeys(SINGLE, 1e-4) | dict.fromkeys(FULL, 1e-9)
    )
    # the absolute tolerance, by dtype; `None` for the relative one times the median of the array
    absolute: Mapping[str, float] | None = None
    has_open_order: bool = False  # whether elements and rows may be in any order, with any index that follows it

    def tolerance(self, cpu: Values, gpu: Values) -> tuple[float, float]:
        """The relative and the absolute tolerance for two arrays."""
        names = (cpu.dtype.name, gpu.dtype.name)
        relative = max(self.relative.get(name, 0.0) for name in names) or self.relative["float64"]
        if self.absolute is not None:
            return relative, max(self.absolute.get(name, 0.0) for name in names) or self.absolute["float64"]
        sizes = np.abs(cpu[np.isfinite(cpu)]).astype(float)
        # The median of an even number of sizes is computed from their sum, which may be infinite: then all would agree.
        return relative, relative * 2 * float(np.median(sizes / 2)) if sizes.size > 1 else 0.0

    def decide_on_arrays(self, cpu: Values, gpu: Values) -> Comparison | None:
        """What is known before elements are compared."""
        same = cpu.shape == gpu.shape
        return None if same else differ(f"of shape {cpu.shape} on the CPU, {gpu.shape} on the GPUs")

    def decide_on_frames(self, cpu: Any, gpu: Any) -> Comparison | None:  # noqa: ARG002 - for other rules
        """What is known before rows are compared, of frames with the same columns."""
        return None

    def are_equal(self, cpu: Any, gpu: Any) -> bool:
        """Whether texts and sets are equal."""
        return bool(cpu == gpu)

    def in_another_order(self, text: str) -> Comparison:
        """The comparison of frames that agree, except for the order of their rows."""
        return agree(f"{text}, in another order")


_RULES = Rules()


def compare(cpu: Any, gpu: Any, rules: Rules = _RULES, depth: int = 0) -> Comparison:
    """Compare two results that are on the host: arrays, dataframes, scalars, strings, or containers of these."""
    if isinstance(cpu, _FRAMES):
        return compare_frames(cpu, gpu, rules)
    if isinstance(cpu, _ARRAYS) and isinstance(gpu, _ARRAYS):
        return compare_arrays(np.asanyarray(cpu), np.asanyarray(gpu), rules)
    if isinstance(cpu, _ARRAYS) or isinstance(gpu, np.ndarray | _FRAMES):
        return differ(_types(cpu, gpu))
    if isinstance(cpu, dict | list | tuple):
        return _compare_containers(cpu, gpu, rules, depth) if depth < _MAX_DEPTH else give_up("nested too deep")
    if isinstance(cpu, str | bytes | set | frozenset | None):
        same = isinstance(gpu, type(cpu)) and rules.are_equal(cpu, gpu)
        return agree("equal") if same else differ(f"{cpu!r:.60} and {gpu!r:.60}")
    return give_up(f"of type {type(cpu).__name__}, which cannot be compared")


def _compare_containers(cpu: Any, gpu: Any, rules: Rules, depth: int) -> Comparison:
    if not isinstance(gpu, type(cpu)):
        return differ(_types(cpu, gpu))
    if len(cpu) != len(gpu):
        return differ(f"{len(cpu)} elements on the CPU, {len(gpu)} on the GPUs")
    if len(cpu) > _MAX_LENGTH:
        return give_up(f"{len(cpu)} elements are too many to compare one by one")
    if isinstance(cpu, dict) and cpu.keys() != gpu.keys():
        return differ("they have other keys")
    keys = list(cpu) if isinstance(cpu, dict) else range(len(cpu))
    unknown = None
    for key in keys:
        comparison = compare(cpu[key], gpu[key], rules, depth + 1)
        if comparison.agrees is False:
            return differ(f"at [{key!r}]: {comparison.text}")
        unknown = unknown or (comparison if comparison.agrees is None else None)
    return unknown or agree(f"all {len(cpu)} agree")


def _types(cpu: Any, gpu: Any) -> str:
    return f"a {type(cpu).__name__} on the CPU, {type(gpu).__name__} on the GPUs"


def compare_arrays(cpu: Values, gpu: Values, rules: Rules) -> Comparison:
    """Compare two arrays of NumPy; masked arrays, structured arrays and scalars included."""
    if (decided := rules.decide_on_arrays(cpu, gpu)) is not None:
        return decided
    has_fields = bool(cpu.dtype.names or gpu.dtype.names)
    comparison = (_compare_fields if has_fields else _compare_elements)(cpu, gpu, rules)
    if comparison.agrees or not rules.has_open_order or cpu.ndim != 1 or has_fields:
        return comparison
    ordered = _compare_elements(np.sort(cpu), np.sort(gpu), rules)
    return ordered if ordered.agrees else comparison


def _compare_fields(cpu: Values, gpu: Values, rules: Rules) -> Comparison:
    if cpu.dtype.names != gpu.dtype.names:
        return differ(f"of dtype {cpu.dtype} on the CPU, {gpu.dtype} on the GPUs")
    for name in cpu.dtype.names or ():
        comparison = compare_arrays(np.asanyarray(cpu[name]), np.asanyarray(gpu[name]), rules)
        if comparison.agrees is False:
            return differ(f"field {name}: {comparison.text}")
    return agree("all fields agree")


def _compare_elements(cpu: Values, gpu: Values, rules: Rules) -> Comparison:
    masks = np.ma.getmaskarray(cpu), np.ma.getmaskarray(gpu)
    if (masks[0] != masks[1]).any():
        return differ("other elements are masked")
    cpu, gpu = (np.atleast_1d(np.ma.getdata(array)[~masks[0]]) if masks[0].any() else array for array in (cpu, gpu))
    cpu, gpu = np.asarray(cpu), np.asarray(gpu)
    kinds = {cpu.dtype.kind, gpu.dtype.kind}
    if "O" in kinds:
        pairs = zip(cpu.ravel().tolist(), gpu.ravel().tolist(), strict=True)
        differs = np.array([not _is_same(a, b, rules) for a, b in pairs], dtype=bool).reshape(cpu.shape)
    elif kinds & set("fc") and kinds <= set("biufc"):
        return _compare_floats(cpu, gpu, rules)
    else:
        differs = np.asarray(cpu != gpu)
        if kinds <= set("mM"):
            differs &= ~(np.isnat(cpu) & np.isnat(gpu))
    return _describe(np.broadcast_to(differs, cpu.shape), cpu, gpu, "equal")


def _compare_floats(cpu: Values, gpu: Values, rules: Rules) -> Comparison:
    relative, absolute = rules.tolerance(cpu, gpu)
    close = np.isclose(cpu, gpu, rtol=relative, atol=absolute, equal_nan=True)
    comparison = _describe(~np.asarray(close), cpu, gpu, f"equal to {relative:g}")
    if comparison.agrees and cpu.dtype != gpu.dtype:
        return agree(f"{comparison.text}; {cpu.dtype} on the CPU, {gpu.dtype} on the GPUs")
    return comparison


def _is_same(cpu: Any, gpu: Any, rules: Rules) -> bool:
    """Whether two elements of object arrays are equal; missing values equal each other."""
    if _is_sequence(cpu) or _is_sequence(gpu):
        return _is_sequence(cpu) and _is_sequence(gpu) and _are_same(cpu, gpu, rules)
    try:
        if pd.isna(cpu) or pd.isna(gpu):
            return bool(pd.isna(cpu) and pd.isna(gpu))
        if isinstance(cpu, float) and isinstance(gpu, float):
            return bool(_compare_floats(np.asarray(cpu), np.asarray(gpu), rules).agrees)
        return bool(cpu == gpu)
    except Exception:  # noqa: BLE001 - of any class: objects of two libraries that cannot be compared are not equal
        return False


def _is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple | pd.api.extensions.ExtensionArray) or (
        isinstance(value, np.ndarray) and value.ndim > 0
    )


def _are_same(cpu: Any, gpu: Any, rules: Rules) -> bool:
    """Whether two sequences are nested alike and have the same elements; one may be a list, the other an array."""
    return len(cpu) == len(gpu) and all(
        _is_same(one, other, rules)
        if _is_sequence(one) or _is_sequence(other)
        else compare_arrays(np.asanyarray(one), np.asanyarray(other), rules).agrees
        for one, other in zip(cpu, gpu, strict=True)
    )


def _describe(differs: Values, cpu: Values, gpu: Values, equal: str) -> Comparison:
    count = int(differs.sum())
    if not count:
        return agree(equal)
    first = tuple(int(index) for index in np.argwhere(differs)[0])
    where = "" if cpu.ndim == 0 else f" at {list(first)}"
    values = [array[()] if array.ndim == 0 else array[first] for array in (cpu, gpu)]
    texts = [repr(value.item() if isinstance(value, np.number | np.bool_ | np.str_) else value) for value in values]
    many = "" if cpu.ndim == 0 else f"{count:,} of {cpu.size:,} elements differ, the first"
    return differ(f"{many}{where}: {texts[0]:.60} and {texts[1]:.60}".removeprefix(": "))


def compare_frames(cpu: Any, gpu: Any, rules: Rules) -> Comparison:
    """Compare two dataframes, series or indexes: names, lengths, dtypes by the rules, values, and the order of rows."""
    decided = _compare_structure(cpu, gpu) or rules.decide_on_frames(cpu, gpu)
    if decided is not None:
        return decided
    one, other = _with_index(cpu), _with_index(gpu)
    if len(one) != len(other):
        return differ(f"{len(one):,} rows on the CPU, {len(other):,} on the GPUs")
    tolerances = Rules(relative=rules.relative, absolute=rules.absolute)
    comparison = _compare_columns(one, other, tolerances)
    if comparison.agrees:
        return comparison
    levels = 0 if isinstance(cpu, pd.Index) else cpu.index.nlevels
    candidates = [(one, other)]
    if rules.has_open_order or _count_rows(cpu, gpu):
        candidates.append((one.iloc[:, levels:], other.iloc[:, levels:]))
    for left, right in candidates:
        for decimals in (None, 6):
            ordered = _compare_columns(_sort_rows(left, decimals), _sort_rows(right, decimals), tolerances)
            if ordered.agrees:
                return rules.in_another_order(ordered.text)
    return comparison


def _compare_structure(cpu: Any, gpu: Any) -> Comparison | None:
    kinds = pd.DataFrame, pd.Series, pd.Index
    if any(isinstance(cpu, kind) != isinstance(gpu, kind) for kind in kinds):
        return differ(_types(cpu, gpu))
    names = [[str(name) for name in _with_index(data).columns] for data in (cpu, gpu)]
    if names[0] != names[1]:
        return differ(f"columns {names[0]} on the CPU, {names[1]} on the GPUs")
    return None


def _with_index(data: Any) -> pd.DataFrame:
    frame: pd.DataFrame
    if isinstance(data, pd.Index):
        frame = data.to_frame(index=False)
        return frame
    frame = data if isinstance(data, pd.DataFrame) else data.to_frame(name="value" if data.name is None else data.name)
    index = frame.index.to_frame(index=False)
    index.columns = pd.Index(["index" if name is None else name for name in frame.index.names], dtype=object)
    whole: pd.DataFrame = pd.concat([index, frame.set_axis(pd.RangeIndex(len(frame)), axis=0)], axis=1)
    return whole


def _count_rows(*frames: Any) -> bool:
    """Whether the indexes of dataframes only count the rows, from 0 in each partition, without other information."""
    for frame in frames:
        if not isinstance(frame, pd.DataFrame):
            return False
        index = frame.index
        values = index.to_numpy()
        if index.name is not None or values.dtype.kind not in "iu" or not len(values) or values[0] != 0:
            return False
        if not ((np.diff(values) == 1) | (values[1:] == 0)).all():
            return False
    return True


def _sort_rows(frame: pd.DataFrame, decimals: int | None) -> pd.DataFrame:
    """The rows sorted by all columns, with numbers rounded to `decimals` for the sorting."""
    keys = frame.set_axis([str(number) for number in range(frame.shape[1])], axis=1).reset_index(drop=True)
    keys = keys.apply(lambda column: column if column.dtype.kind in "biufmM" else column.map(str))
    # pandas does not sort by Arrow's floats if these have 0 and -0.
    keys = keys.apply(lambda column: column.astype("float64") if column.dtype.kind == "f" else column)
    if decimals is not None:
        keys = keys.apply(lambda column: column.round(decimals) if column.dtype.kind == "f" else column)
    rows = keys.sort_values(list(keys.columns), kind="stable").index.to_numpy()
    ordered: pd.DataFrame = frame.iloc[rows]
    return ordered


def _compare_columns(cpu: pd.DataFrame, gpu: pd.DataFrame, rules: Rules) -> Comparison:
    text = "equal"
    for number, name in enumerate(cpu.columns):
        one, other = cpu.iloc[:, number].reset_index(drop=True), gpu.iloc[:, number].reset_index(drop=True)
        missing = one.isna() != other.isna()
        if missing.any():
            row = int(missing.to_numpy().argmax())
            return differ(f"column {name}, row {row}: {one.iloc[row]!r:.60} and {other.iloc[row]!r:.60}")
        present = ~one.isna()
        comparison = compare_arrays(np.asarray(one[present].to_numpy()), np.asarray(other[present].to_numpy()), rules)
        if not comparison.agrees:
            return differ(f"column {name}: {comparison.text}")
        text = comparison.text if comparison.text != "equal" else text
    return agree(text)
