"""Compare arrays of NumPy, element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .rules import Comparison, Rules, agree, differ

if TYPE_CHECKING:
    Values = np.ndarray[Any, Any]


def compare_arrays(cpu: Values, gpu: Values, rules: Rules) -> Comparison:
    """Compare two arrays of NumPy; masked arrays, structured arrays and scalars included."""
    if cpu.ndim != gpu.ndim or (rules.compare_shapes and cpu.shape != gpu.shape):
        return differ(f"of shape {cpu.shape} on the CPU, {gpu.shape} on the GPUs")
    if rules.dtypes and cpu.dtype != gpu.dtype and not (cpu.ndim == 0 and cpu.dtype.kind == gpu.dtype.kind):
        return differ(f"of dtype {cpu.dtype} on the CPU, {gpu.dtype} on the GPUs")
    if not rules.compare_values:
        return agree("of the same dtype and number of dimensions")
    if cpu.shape != gpu.shape:
        return differ(f"of shape {cpu.shape} on the CPU, {gpu.shape} on the GPUs")
    has_fields = bool(cpu.dtype.names or gpu.dtype.names)
    comparison = (_compare_fields if has_fields else _compare_elements)(cpu, gpu, rules)
    if comparison.agrees or rules.row_order != "open" or cpu.ndim != 1 or has_fields:
        return comparison
    ordered = _compare_elements(np.sort(cpu), np.sort(gpu), rules)
    return ordered if ordered.agrees else comparison


def _compare_fields(cpu: Values, gpu: Values, rules: Rules) -> Comparison:
    """Compare structured arrays of equal shape, field by field."""
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
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)


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
