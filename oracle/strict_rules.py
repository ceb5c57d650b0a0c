"""The rules by which the oracle compares results: dtypes and the order of rows are a part of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jupyter_gpudask.magics.compare_values import FULL, SINGLE, Comparison, Rules, agree, differ

if TYPE_CHECKING:
    from jupyter_gpudask.magics.compare_values import Values

AS_HOST = "as NumPy and pandas, unlike Dask"
"""Of a result under the switch: NumPy and pandas decide where it differs from that of Dask on the CPU."""


@dataclass(frozen=True)
class StrictRules(Rules):
    compare_values: bool = True  # whether values are compared, or dtypes and numbers of dimensions only
    compare_shapes: bool = True  # whether the shapes of arrays are compared

    def without_values(self) -> StrictRules:
        """The same rules, which compare dtypes and numbers of dimensions only."""
        return replace(self, compare_values=False, compare_shapes=False)

    def decide_on_arrays(self, cpu: Values, gpu: Values) -> Comparison | None:
        shapes = super().decide_on_arrays(cpu, gpu)
        if shapes is not None and (self.compare_shapes or cpu.ndim != gpu.ndim):
            return shapes
        if cpu.dtype != gpu.dtype and not (cpu.ndim == 0 and cpu.dtype.kind == gpu.dtype.kind):
            return differ(f"of dtype {cpu.dtype} on the CPU, {gpu.dtype} on the GPUs")
        return shapes if self.compare_values else agree("of the same dtype and number of dimensions")

    def decide_on_frames(self, cpu: Any, gpu: Any) -> Comparison | None:
        if _labels(cpu) != _labels(gpu):
            return differ(f"labels {_labels(cpu)} on the CPU, {_labels(gpu)} on the GPUs")
        kinds = _compare_kinds(cpu, gpu)
        return kinds if kinds is not None or self.compare_values else agree("of the same columns and dtypes")

    def are_equal(self, cpu: Any, gpu: Any) -> bool:
        return not self.compare_values or super().are_equal(cpu, gpu)

    def in_another_order(self, text: str) -> Comparison:
        return super().in_another_order(text) if self.has_open_order else differ("rows in another order")


STRICT_RULES = StrictRules(
    relative=dict.fromkeys(("float16", *SINGLE), 1e-3) | dict.fromkeys(FULL, 1e-6),
    absolute=dict.fromkeys(("float16", *SINGLE), 1e-5) | dict.fromkeys(FULL, 1e-9),
)
"""Numbers may differ by accumulated rounding."""


def _labels(data: Any) -> list[Any]:
    """The names of columns and index levels as they are, and not as text."""
    names = list(data.columns) if isinstance(data, pd.DataFrame) else [data.name]
    return [*names, *([] if isinstance(data, pd.Index) else data.index.names)]


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
