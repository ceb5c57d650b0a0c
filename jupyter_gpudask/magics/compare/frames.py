"""Compare dataframes, series and indexes of pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .arrays import compare_arrays
from .rules import Comparison, Rules, agree, differ


def compare_frames(cpu: Any, gpu: Any, rules: Rules) -> Comparison:
    """Compare two dataframes, series or indexes: names, lengths, dtypes by the rules, values, and the order of rows."""
    difference = _compare_structure(cpu, gpu, rules)
    if difference is not None:
        return difference
    if not rules.compare_values:
        return agree("of the same columns and dtypes")
    one, other = _with_index(cpu), _with_index(gpu)
    if len(one) != len(other):
        return differ(f"{len(one):,} rows on the CPU, {len(other):,} on the GPUs")
    tolerances = Rules(relative=rules.relative, absolute=rules.absolute)
    comparison = _compare_columns(one, other, tolerances)
    if comparison.agrees:
        return comparison
    levels = 0 if isinstance(cpu, pd.Index) else cpu.index.nlevels
    candidates = [(one, other)]
    if rules.row_order == "open" or _count_rows(cpu, gpu):
        candidates.append((one.iloc[:, levels:], other.iloc[:, levels:]))
    for left, right in candidates:
        for decimals in (None, 6):
            ordered = _compare_columns(_sorted(left, decimals), _sorted(right, decimals), tolerances)
            if ordered.agrees:
                return _in_another_order(ordered, rules)
    return comparison


def _in_another_order(comparison: Comparison, rules: Rules) -> Comparison:
    if rules.row_order == "fixed":
        return differ("rows in another order")
    return agree(f"{comparison.text}, in another order")


def _compare_structure(cpu: Any, gpu: Any, rules: Rules) -> Comparison | None:
    """The first difference in types, labels or dtypes."""
    kinds = pd.DataFrame, pd.Series, pd.Index
    if any(isinstance(cpu, kind) != isinstance(gpu, kind) for kind in kinds):
        return differ(f"a {type(cpu).__name__} on the CPU, {type(gpu).__name__} on the GPUs")
    names = [[str(name) for name in _with_index(data).columns] for data in (cpu, gpu)]
    if names[0] != names[1]:
        return differ(f"columns {names[0]} on the CPU, {names[1]} on the GPUs")
    if rules.dtypes and _labels(cpu) != _labels(gpu):
        return differ(f"labels {_labels(cpu)} on the CPU, {_labels(gpu)} on the GPUs")
    return _compare_kinds(cpu, gpu) if rules.dtypes else None


def _labels(data: Any) -> list[Any]:
    """The names of columns and index levels as they are, and not as text."""
    names = list(data.columns) if isinstance(data, pd.DataFrame) else [data.name]
    return [*names, *([] if isinstance(data, pd.Index) else data.index.names)]


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


def _compare_kinds(cpu: Any, gpu: Any) -> Comparison | None:
    """The first column with another kind of dtype; strings are one kind, and times of all units are."""
    columns = [_columns_of(data) for data in (cpu, gpu)]
    for place, name in enumerate(columns[0].columns):
        one, other = (frame.iloc[:, place] for frame in columns)
        kinds = _kind(one), _kind(other)
        # A column with missing values may be one of floats or objects.
        if kinds[0] != kinds[1] and not (one.isna().any() and {kinds[0][0], kinds[1][0]} <= set("iufbo")):
            return differ(f"column {name}: of dtype {kinds[0]} on the CPU, {kinds[1]} on the GPUs")
    return None


def _columns_of(data: Any) -> pd.DataFrame:
    frame: pd.DataFrame
    if isinstance(data, pd.MultiIndex):
        frame = data.to_frame(index=False)
    else:
        frame = data if isinstance(data, pd.DataFrame) else data.to_frame(name="value")
    return frame


def _kind(column: Any) -> str:
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return f"category of {_kind(dtype.categories)}"
    if pd.api.types.is_datetime64_any_dtype(dtype) or pd.api.types.is_timedelta64_dtype(dtype):
        return "time"
    if pd.api.types.is_numeric_dtype(dtype):  # bool is one, too
        return str(np.dtype(getattr(dtype, "numpy_dtype", dtype)))
    return "string" if pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty") else "object"


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


def _sorted(frame: pd.DataFrame, decimals: int | None) -> pd.DataFrame:
    """The rows sorted by all columns, with numbers rounded to `decimals` for the sorting."""
    keys = frame.set_axis([str(number) for number in range(frame.shape[1])], axis=1).reset_index(drop=True)
    keys = keys.apply(lambda column: column if column.dtype.kind in "biufmM" else column.map(str))
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
