"""Call a function of the user on a worker, with small blocks, to find out what it returns for data on a GPU."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.utils import funcname

from ..fallback.values import has_gpu_data, to_gpu
from ..inspection.results import in_containers, results_to_host
from .cuda_context import end_if_broken
from .imports import import_cudf

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from distributed import Worker


async def call_with_small_blocks(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    kinds: Collection[str],
    dask_worker: Worker | None = None,
) -> tuple[Any, bool]:
    """Call a function on the GPU of this worker, beside the tasks that run.

    - `args`, `kwargs`: its arguments on the host. Arrays without elements get one in each direction: CuPy writes beyond
      empty ones.
    - `kinds`: the GPU libraries of the blocks: ``"cupy"``, ``"cudf"``.
    - `dask_worker`: the worker, which Dask passes.

    Returns the result on the host, and whether it was on the GPU.
    """
    if dask_worker is not None:
        import_cudf(dask_worker)
    try:
        return await asyncio.to_thread(_call, function, args, kwargs, kinds)
    finally:
        if dask_worker is not None:
            await end_if_broken(dask_worker, funcname(function))


def _call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], kinds: Collection[str]
) -> tuple[Any, bool]:
    blocks = to_gpu(in_containers(_not_empty, args), kinds)
    options = to_gpu(in_containers(_not_empty, kwargs), kinds)
    result = function(*blocks, **options)
    return results_to_host(result), has_gpu_data(result)


def _not_empty(value: Any) -> Any:
    """An array with at least one element, of ones; anything else as it is."""
    if type(value) is not np.ndarray or value.size:
        return value
    return np.ones([max(1, length) for length in value.shape], value.dtype)
