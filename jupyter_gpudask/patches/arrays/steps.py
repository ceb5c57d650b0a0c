"""Slices with a step, without blocks of which they take nothing.

Of ``x[2:6:4]`` in blocks of 5, Dask takes the 2 of the first block, and nothing of the second one, where 5 lies before
the end. It keeps the empty block, for which ``argmax`` fails, and as it broadcasts blocks along axes of one element,
``x[2:6:4] + 1`` has two elements.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

from dask.array.core import Array

from ...inspection.placement import place_of


def getitem(original: Callable[..., Any], /, self: Array, index: Any) -> Any:
    """As `dask.array.Array.__getitem__`; slices of arrays on GPUs end at the last element that they take."""
    __tracebackhide__ = True
    parts = index if type(index) is tuple else (index,)
    if not any(map(_has_step, parts)) or place_of(self) != "gpu":
        return original(self, index)
    axes = list(map(_axes, parts))
    rest = self.ndim - sum(axes)
    tight, axis = [], 0
    for part, number in zip(parts, axes, strict=True):
        tight.append(_without_rest(part, self.shape[axis]) if _has_step(part) and axis < self.ndim else part)
        axis += rest if part is Ellipsis else number
    return original(self, tuple(tight))


def _has_step(part: Any) -> bool:
    if not isinstance(part, slice) or not isinstance(part.step, Integral) or not isinstance(part.stop, Integral):
        return False
    return int(part.step) > 1 and isinstance(part.start, Integral | None)


def _axes(part: Any) -> int:
    """How many axes of an array a part of an index is for."""
    if part is None or part is Ellipsis:
        return 0
    return getattr(part, "ndim", 1) if getattr(getattr(part, "dtype", None), "kind", "") == "b" else 1


def _without_rest(part: slice, length: float) -> slice:
    taken = range(*part.indices(int(length))) if isinstance(length, Integral) else ()
    return slice(taken[0], taken[-1] + 1, part.step) if taken else part
