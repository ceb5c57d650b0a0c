"""Copies of arrays in page-locked memory: to and from there the device copies several times as fast, without the host.

While a worker runs parts of several tasks on the host, the copies to and from the device are what it does for one task
at a time.
"""

from __future__ import annotations

import math
import os
from importlib import import_module
from typing import Any

import numpy as np
from dask.utils import typename

from ..inspection.results import in_containers

_LEAST = 2**20
_MOST = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 512
"""Bytes of an array; the memory of a part for each core, of its block and its result, is a small part of the host's."""

_MOST_UNUSED = _MOST * 32
"""Bytes of unused memory that the workers of a cluster keep, if all pieces are as large as the next one. To lock pages
takes longer than to copy them."""


def from_device(value: Any) -> Any:
    """`value` with its arrays of CuPy in page-locked memory, as far as they are suited; in containers too."""
    return in_containers(_from_device, value)


def _from_device(value: Any) -> Any:
    if typename(type(value)) != "cupy.ndarray" or not value.flags.c_contiguous:
        return value
    copy = empty(value.shape, value.dtype)
    return value if copy is None else value.get(out=copy)


def lock_pages(value: Any) -> Any:
    """`value` with page-locked copies of its arrays, as far as they are suited; in containers too."""
    return in_containers(_lock_pages, value)


def _lock_pages(value: Any) -> Any:
    if type(value) is not np.ndarray or value.dtype.kind not in "biufc" or not value.flags.c_contiguous:
        return value
    copy = None if is_locked(value) else empty(value.shape, value.dtype)
    if copy is None:
        return value
    np.copyto(copy, value)
    return copy


def is_locked(array: Any) -> bool:
    """Whether an array is in page-locked memory, without gaps."""
    base = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return bool(array.flags.c_contiguous) and typename(type(base)).endswith(".PinnedMemoryPointer")


def to_device(array: Any) -> Any:
    """A page-locked array as one of CuPy."""
    import cupy

    made = cupy.empty(array.shape, array.dtype)
    made.set(array)
    cupy.cuda.get_current_stream().synchronize()  # the memory may be used again from now on
    return made


def release_unused() -> None:
    """Return the unused page-locked memory of CuPy to the host."""
    import cupy

    cupy.get_default_pinned_memory_pool().free_all_blocks()


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array in page-locked memory; `None` if there is none, or it is not worth it.

    `None` also for numbers in the order of bytes of other machines, which CuPy takes for those of this one.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if not dtype.isnative or not _LEAST <= nbytes <= _MOST:
        return None
    try:
        import cupy

        allocate: Any = import_module("cupyx").empty_pinned
    except ImportError:
        return None
    pool = cupy.get_default_pinned_memory_pool()
    workers = os.environ.get("CUDA_VISIBLE_DEVICES", "").count(",") + 1
    if pool.n_free_blocks() * nbytes > _MOST_UNUSED / workers:
        pool.free_all_blocks()
    try:
        return allocate(shape, dtype)
    except (MemoryError, cupy.cuda.runtime.CUDARuntimeError):
        return None


def scratch(shape: tuple[int, ...], dtype: Any) -> Any:
    """Memory of earlier tasks, where there is some: to get it anew takes as long as to decode a chunk."""
    memory = empty(shape, dtype)
    return np.empty(shape, dtype) if memory is None else memory
