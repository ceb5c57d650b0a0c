"""Release the unused device memory of the GPU libraries in a process."""

from __future__ import annotations

import gc
import sys
from typing import Any


def release_memory(**_: Any) -> int:
    """Release cached blocks, FFT plans, the free part of growing pools, and shared memory that waits to be used again.

    The memory of variables and results stays allocated, and so does a pool of fixed size.

    Returns
    -------
    int
        Increase of free device memory, in bytes; 0 in a process that does not use a GPU.
    """
    gc.collect()
    if "cupy" not in sys.modules:
        return 0
    import cupy

    from ..comm import device_memory

    device_memory.release_unused()
    before, _total = cupy.cuda.runtime.memGetInfo()
    cupy.fft.config.get_plan_cache().clear()
    cupy.cuda.Device().synchronize()  # stream-ordered frees take effect when the stream is done
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.get_default_pinned_memory_pool().free_all_blocks()
    pool = _growing_pool()
    if pool is not None:
        cupy.cuda.runtime.memPoolTrimTo(pool, 0)
    after, _total = cupy.cuda.runtime.memGetInfo()
    return max(0, int(after) - int(before))


def _growing_pool() -> int | None:
    """The handle of CUDA's own pool, if RMM allocates from it."""
    if "rmm" not in sys.modules:
        return None
    import rmm

    resource = rmm.mr.get_current_device_resource()
    while hasattr(resource, "upstream_mr") and not hasattr(resource, "pool_handle"):
        resource = resource.upstream_mr
    return int(resource.pool_handle()) if hasattr(resource, "pool_handle") else None
