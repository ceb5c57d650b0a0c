"""Histograms of arrays on GPUs, with the counts and the weights of NumPy.

CuPy 14.2 rounds the edges of bins otherwise than NumPy: 0.0 is below the middle edge of 10 bins from -2 to 2. It counts
integers up to one beyond the last edge, but no value on an edge so large that one more is the same number, compares
integers beyond 2**53 as floats, and adds the weights of NaN to the first bin. Its `histogramdd` refuses edges on the
host, and Dask takes a tuple of its blocks for an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from dask.array.core import Array
from dask.array.routines import _block_hist, _block_histogramdd_multiarg, _block_histogramdd_rect
from dask.base import is_dask_collection

from ...inspection.arguments import bind
from ...inspection.placement import is_type_of_gpu, place_of
from ...inspection.results import results_to_host
from .block_meta import mark_on_gpu
from .operand_placement import on_numpy
from .quantiles import replace_function


def histogram(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.histogram`; on GPUs, bins that are computed from a range such as ``[x.min(), x.max()]`` are there.

    Dask divides by their widths for the density.
    """
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    if place_of(call.arguments["a"]) == "host" and is_dask_collection(call.arguments["a"]):
        with on_numpy():
            return original(*args, **kwargs)
    if place_of(call.arguments["a"]) != "gpu":
        return original(*args, **kwargs)
    density, limits = call.arguments.get("density"), call.arguments.get("range")
    is_computed = any(map(is_dask_collection, limits if isinstance(limits, list | tuple) else [limits]))
    if is_computed:
        call.arguments["density"] = None
    numbers, bins = original(*call.args, **call.kwargs)
    replace_function(numbers, _block_hist, counts_of_block)
    if not is_computed:
        return numbers, bins
    if isinstance(bins, Array) and place_of(bins) == "host" and not hasattr(call.arguments["bins"], "dtype"):
        mark_on_gpu(bins)
    if density:
        numbers = numbers / np.diff(bins) / numbers.sum()
    return numbers, bins


def histogramdd(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.histogramdd`, which `dask.array.histogram2d` calls."""
    __tracebackhide__ = True
    numbers, edges = original(*args, **kwargs)
    sample = bind(original, args, kwargs).arguments["sample"]
    if place_of(sample[0] if isinstance(sample, list | tuple) else sample) == "gpu":
        replace_function(numbers, _block_histogramdd_rect, counts_of_rows)
        replace_function(numbers, _block_histogramdd_multiarg, counts_of_columns)
    return numbers, edges


def counts_of_block(block: Any, bins_range: Any, weights: Any = None) -> Any:
    """As Dask's function of one block: a row of the counts of each bin, or of the sums of weights."""
    if not is_type_of_gpu(type(block)):
        return _block_hist(block, bins_range, weights)
    block = block.astype("uint8") if block.dtype == bool else block
    if block.dtype.kind == "i":  # negative ones of 8 bits are not counted
        block = block.astype("int64", copy=False)
    edges = np.histogram_bin_edges(np.empty(0, block.dtype), *results_to_host(bins_range))
    if edges.dtype.kind == "f":  # in which NumPy compares, too
        block = block.astype(np.result_type(edges, block.dtype), copy=False)
    outer = np.abs(edges[[0, -1]]).astype(block.dtype if block.dtype.kind == "f" else float)
    if weights is None and not np.all(np.spacing(outer) <= 1):
        weights = np.ones_like(block, dtype=int)  # for another kernel of CuPy, which compares the values as they are
    if weights is None:
        return np.histogram(block, edges)[0][np.newaxis]
    dtype = weights.dtype
    weights = np.where(np.isnan(block), 0, weights) if block.dtype.kind == "f" else weights
    return np.histogram(block, edges, weights=weights)[0][np.newaxis].astype(dtype, copy=False)


def counts_of_rows(sample: Any, bins: Any, limits: Any, weights: Any) -> Any:
    """As Dask's function of one block whose columns are the coordinates."""
    return np.histogramdd(sample, _edges(sample, bins, limits), weights=weights)[0][np.newaxis]


def counts_of_columns(*args: Any) -> Any:
    """As Dask's function of one block for each coordinate, with bins, range and weights."""
    *samples, bins, limits, weights = args
    return np.histogramdd(samples, _edges(samples[0], bins, limits), weights=weights)[0][np.newaxis]


def _edges(block: Any, bins: Any, limits: Any) -> list[Any]:
    """The edges of each axis, where the block is."""
    ranges = [None] * len(bins) if limits is None else limits
    edges = (np.histogram_bin_edges(np.empty(0), *pair) for pair in zip(bins, ranges, strict=True))
    return [np.asarray(each, like=block) for each in edges]
