"""Compare a result of NumPy and pandas with a result of CuPy and cuDF; both are on the host."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
import pandas as pd

from .arrays import compare_arrays
from .frames import compare_frames
from .rules import COMPARE_RULES, Comparison, Rules, agree, differ, not_compared

_MAX_LENGTH = 1000
_MAX_DEPTH = 20
_MISSING = type(pd.NA) | type(pd.NaT)
_ARRAYS = np.ndarray | np.generic | Number | pd.Timestamp | pd.Timedelta | pd.Interval | pd.Period | _MISSING
_FRAMES = pd.DataFrame | pd.Series | pd.Index


def compare(cpu: Any, gpu: Any, rules: Rules = COMPARE_RULES, depth: int = 0) -> Comparison:
    """Compare two results that are on the host.

    Parameters
    ----------
    cpu, gpu
        The results: arrays of NumPy, dataframes of pandas, scalars, strings, or containers of these.
    rules
        What counts as a difference.
    depth
        How many containers the results are nested in.
    """
    if isinstance(cpu, _FRAMES):
        return compare_frames(cpu, gpu, rules)
    if isinstance(cpu, _ARRAYS) and isinstance(gpu, _ARRAYS):
        return compare_arrays(np.asanyarray(cpu), np.asanyarray(gpu), rules)
    if isinstance(cpu, _ARRAYS) or isinstance(gpu, np.ndarray | _FRAMES):
        return differ(_types(cpu, gpu))
    if isinstance(cpu, dict | list | tuple):
        return _compare_containers(cpu, gpu, rules, depth) if depth < _MAX_DEPTH else not_compared("nested too deep")
    if isinstance(cpu, str | bytes | set | frozenset | None):
        same = isinstance(gpu, type(cpu)) and (cpu == gpu or not rules.compare_values)
        return agree("equal") if same else differ(f"{cpu!r:.60} and {gpu!r:.60}")
    return not_compared(f"of type {type(cpu).__name__}, which cannot be compared")


def _compare_containers(cpu: Any, gpu: Any, rules: Rules, depth: int) -> Comparison:
    if not isinstance(gpu, type(cpu)):
        return differ(_types(cpu, gpu))
    if len(cpu) != len(gpu):
        return differ(f"{len(cpu)} elements on the CPU, {len(gpu)} on the GPUs")
    if len(cpu) > _MAX_LENGTH:
        return not_compared(f"{len(cpu)} elements are too many to compare one by one")
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
