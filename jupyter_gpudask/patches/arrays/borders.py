"""Borders of blocks, as `dask.array.map_overlap` needs them, along axes that have one block."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np
from dask.array.core import Array
from dask.array.overlap import coerce_boundary, coerce_depth

from ...inspection.arguments import bind
from ...inspection.placement import place_of

_MODES = {"reflect": "symmetric", "periodic": "wrap", "nearest": "edge"}
"""Those of `numpy.pad`, by Dask's names of boundaries."""


def overlap(original: Callable[..., Array], /, *args: Any, **kwargs: Any) -> Array:
    """As `dask.array.overlap.overlap`; along an axis with one block that is on a GPU, each block is padded by one task.

    Dask slices and joins its border: for images of one block each, a graph of 80 tasks for each image.
    """
    __tracebackhide__ = True
    given = bind(original, args, kwargs).arguments
    return _overlap(original, **given) if place_of(given["x"]) == "gpu" else original(*args, **kwargs)


def _overlap(
    original: Callable[..., Array], x: Array, depth: Any, boundary: Any, *, allow_rechunk: bool = True
) -> Array:
    __tracebackhide__ = True
    depths, boundaries = coerce_depth(x.ndim, depth), coerce_boundary(x.ndim, boundary)
    alone = [axis for axis in range(x.ndim) if _is_alone(x, axis, depths[axis], boundaries[axis])]
    # In a corner, the number of the last axis counts.
    numbers = {boundary for boundary in boundaries.values() if isinstance(boundary, Number)}
    if not alone or len(numbers) > 1:
        return original(x, depths, boundaries, allow_rechunk=allow_rechunk)
    widths: dict[Any, list[int]] = {}
    for axis in alone:
        width, boundary = depths.pop(axis), boundaries.pop(axis)
        if boundary != "none":
            widths.setdefault(boundary, [0] * x.ndim)[axis] = width
    if widths:
        map_blocks: Any = x.map_blocks
        added = map(sum, zip(*widths.values(), strict=True))
        chunks = [tuple(n + 2 * width for n in of_axis) for of_axis, width in zip(x.chunks, added, strict=True)]
        x = map_blocks(_pad, widths, dtype=x.dtype, chunks=chunks, meta=x._meta)  # noqa: SLF001
    return original(x, depths, boundaries, allow_rechunk=allow_rechunk) if any(map(np.any, depths.values())) else x


def _is_alone(x: Array, axis: int, depth: Any, boundary: Any) -> bool:
    """Whether it has one block, which is large enough for its border."""
    is_known = boundary in (*_MODES, "none") or isinstance(boundary, Number)
    return x.numblocks[axis] == 1 and is_known and bool(0 < np.max(depth) <= x.shape[axis])


def _pad(block: Any, widths: dict[Any, list[int]]) -> Any:
    for boundary, of_axes in widths.items():
        mode: Any = _MODES.get(boundary, "constant")
        values: Any = {"constant_values": boundary} if mode == "constant" else {}
        block = np.pad(block, [(width, width) for width in of_axes], mode, **values)
    return block
