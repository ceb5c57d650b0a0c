"""Quantiles, medians and percentiles of arrays on GPUs, for inputs where CuPy's results are wrong.

CuPy 14.2 reads past the end of an empty block, or of a block with one row if several quantiles are requested: it
returns arbitrary data or crashes the process. It sorts NaN after all numbers, where NumPy returns NaN, and for the last
value of a row it reads the first one of the next row: if that is infinite, the result is NaN. Its median refuses empty
blocks, and its nanmedian takes NaN for a number that is less than infinity. And dask_cudf 26.10 registers itself in
`percentile_lookup` for CuPy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import Task
from dask.array.core import Array
from dask.array.dispatch import percentile_lookup
from dask.array.percentile import _percentile as percentile_of_block
from dask.array.percentile import merge_percentiles
from dask.array.routines import where

from ...fallback.values import has_gpu_data, to_gpu
from ...inspection.arguments import bind, first_argument
from ...inspection.placement import place_of
from ...inspection.results import results_to_host

_UNUSUAL = ("out", "weights", "interpolation")
_INTERPOLATED = ("linear", "midpoint")
"""Methods for which CuPy reads the value after the one at the position of the quantile."""


def quantile(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.quantile`; on GPUs each block is computed by `quantile_of_block`."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs).arguments
    a, q, axis, keepdims = call["a"], call["q"], call.get("axis"), call.get("keepdims", False)
    unusual = call.get("overwrite_input") or any(call.get(name) is not None for name in _UNUSUAL)
    unusual = unusual or (axis is None and math.prod(getattr(a, "numblocks", ())) > 1)
    if unusual or place_of(a) != "gpu" or place_of(q) == "gpu":
        return original(*args, **kwargs)
    a, reduced = _with_whole_axes(a, range(a.ndim) if axis is None else axis)
    q = np.asarray(q)
    kept = _along_result(a.chunks, reduced, keepdims=keepdims)
    method = call.get("method", "linear")
    dtype = _dtype_of_quantiles(a.dtype, q.dtype, method)
    return a.map_blocks(
        quantile_of_block,
        q,
        axis=tuple(reduced),
        method=method,
        keepdims=keepdims,
        drop_axis=None if keepdims else reduced,
        new_axis=list(range(q.ndim)) or None,
        chunks=[*q.shape, *kept],
        meta=np.zeros_like(a._meta, shape=(0,) * (q.ndim + len(kept)), dtype=dtype),  # noqa: SLF001
    )


def median(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.median` and `dask.array.nanmedian`; on GPUs each block is computed by `median_of_block`."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs).arguments
    a, axis, keepdims = call["a"], call.get("axis"), call.get("keepdims", False)
    if axis is None or call.get("out") is not None or place_of(a) != "gpu":
        return original(*args, **kwargs)
    a, reduced = _with_whole_axes(a, axis)
    dtype = np.median(np.zeros(1, a.dtype)).dtype
    kept = _along_result(a.chunks, reduced, keepdims=keepdims)
    return a.map_blocks(
        median_of_block,
        axis=tuple(reduced),
        keepdims=keepdims,
        skip_nan=original.__name__ == "nanmedian",
        drop_axis=None if keepdims else reduced,
        chunks=kept,
        meta=np.zeros_like(a._meta, shape=(0,) * len(kept), dtype=dtype),  # noqa: SLF001
    )


def percentile(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.percentile`; on GPUs, NaN in the input results in NaN."""
    __tracebackhide__ = True
    result = original(*args, **kwargs)
    a = first_argument(original, args, kwargs)
    if not isinstance(a, Array) or place_of(a) != "gpu" or a.ndim > 1:  # of several axes, it is `da.quantile`
        return result
    # If dask_cudf was imported late, the tasks would find its function, which returns pandas Series.
    replace_function(result, percentile_lookup, percentile_of_block)
    replace_function(result, merge_percentiles, merged_percentiles)
    if a.dtype.kind not in "fc":
        return result
    return where(da.isnan(a).any(), np.nan, result)


def quantile_of_block(block: Any, q: Any, **options: Any) -> Any:
    """`numpy.quantile` of one block; of several quantiles, the first axes of the result are those of `q`."""
    if not block.size:
        host = np.quantile(np.empty(block.shape, block.dtype), q, **options)
        return np.full_like(block, np.nan, shape=host.shape, dtype=host.dtype)
    method, shape = options["method"], _along_result(block.shape, options["axis"], keepdims=options["keepdims"])
    dtype = _dtype_of_quantiles(block.dtype, q.dtype, method)
    if block.dtype.kind == "f":  # NumPy interpolates in the dtype of the result
        block = block.astype(dtype, copy=False)
    if method in _INTERPOLATED and block.dtype.kind in "iuf":
        rows = _sorted_rows(block, options["axis"])
        if q.ndim == 0 and method == "linear" and q in (0, 1):  # as NumPy, without infinity minus infinity
            quantiles = rows[..., -int(q)].reshape((1, *shape))
        else:
            quantiles = np.stack([_interpolate(rows, float(one), method).reshape(shape) for one in q.ravel()])
    else:
        quantiles = np.stack([np.quantile(block, float(one), **options) for one in q.ravel()])
    if block.dtype.kind == "f":
        unknown = np.isnan(block).any(axis=options["axis"], keepdims=options["keepdims"])
        quantiles = np.where(unknown, np.nan, quantiles)
    return quantiles.reshape(q.shape + quantiles.shape[1:]).astype(dtype, copy=False)


def median_of_block(block: Any, *, axis: tuple[int, ...], keepdims: bool, skip_nan: bool) -> Any:
    """`numpy.median` of one block, or `numpy.nanmedian`."""
    dtype, shape = np.median(np.zeros(1, block.dtype)).dtype, _along_result(block.shape, axis, keepdims=keepdims)
    if not block.size:
        return np.full_like(block, np.nan, shape=shape, dtype=dtype)
    rows = _sorted_rows(block, axis)
    length = rows.shape[-1]
    if skip_nan and block.dtype.kind in "fc":
        numbers = length - np.isnan(rows).sum(axis=-1, keepdims=True)
        positions = (np.maximum(numbers - 1, 0) // 2, np.minimum(numbers // 2, length - 1))
        middle = np.concatenate([np.take_along_axis(rows, position, axis=-1) for position in positions], axis=-1)
        medians = middle.mean(axis=-1)  # of NaN alone, if there is no number
    else:
        medians = rows[..., (length - 1) // 2 : length // 2 + 1].mean(axis=-1)
        if block.dtype.kind in "fc":
            medians = np.where(np.isnan(rows[..., -1]), np.nan, medians)  # NaN is sorted after all numbers
    return medians.reshape(shape).astype(dtype, copy=False)


def _with_whole_axes(array: Any, axis: Any) -> tuple[Any, list[int]]:
    """The array with one block along the axes that are reduced, and these axes."""
    axes = axis if isinstance(axis, Iterable) else [axis]
    reduced = [each % array.ndim for each in axes]
    if any(array.numblocks[each] > 1 for each in reduced):
        # As Dask: blocks that were as long as an axis, and as wide as they are now, may not fit in memory.
        array = array.rechunk({each: -1 if each in reduced else "auto" for each in range(array.ndim)})
    return array, reduced


def _along_result(sizes: Iterable[Any], axis: Sequence[int], *, keepdims: bool) -> tuple[Any, ...]:
    """The sizes, or the chunks, of the axes of the result, by the array's."""
    return tuple(1 if each in axis else size for each, size in enumerate(sizes) if keepdims or each not in axis)


def _sorted_rows(block: Any, axis: tuple[int, ...]) -> Any:
    """The values along these axes, sorted, as the last axis; the axes that are kept come before it, in their order."""
    kept = [each for each in range(block.ndim) if each not in axis]
    rows = block.transpose([*kept, *axis])
    return np.sort(rows.reshape([*rows.shape[: len(kept)], -1]), axis=-1)


def _interpolate(rows: Any, q: float, method: str) -> Any:
    """The quantile of each row, by the formula of NumPy."""
    last = rows.shape[-1] - 1
    position = q * last
    if method == "midpoint":
        position = 0.5 * (np.floor(position) + np.ceil(position))
    below = int(position)
    weight = position - below
    low, high = rows[..., below], rows[..., min(below + 1, last)]
    with np.errstate(invalid="ignore"):  # of infinities, it is NaN
        return low + (high - low) * weight if weight < 0.5 else high - (high - low) * (1 - weight)


def _dtype_of_quantiles(numbers: np.dtype[Any], quantiles: np.dtype[Any], method: Any) -> np.dtype[Any]:
    """The dtype of the result of `numpy.quantile` for these dtypes; a method that selects values keeps theirs."""
    q = np.asarray(0.5, quantiles if quantiles.kind == "f" else float)
    dtype: np.dtype[Any] = np.quantile(np.zeros(1, numbers), q, method=method).dtype
    return dtype


def merged_percentiles(*args: Any) -> Any:
    """As Dask's function of the percentiles of all blocks, which are few, on the host.

    NumPy sorts equal values in another order than CuPy, on which the result depends.
    """
    return to_gpu(merge_percentiles(*results_to_host(args)), {"cupy"} if has_gpu_data(args) else ())


def replace_function(array: Array, old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """Make the tasks of an array that Dask has just created call another function."""
    for layer in array.dask.layers.values():
        mapping = getattr(layer, "mapping", {})
        for key, task in mapping.items():
            if isinstance(task, tuple) and task and task[0] is old:
                mapping[key] = (new, *task[1:])
            elif isinstance(task, Task) and task.func is old:
                mapping[key] = Task(key, new, *task.args, **task.kwargs)
