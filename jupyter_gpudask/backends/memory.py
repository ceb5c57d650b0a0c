"""Device memory that this process holds without needing it, given back."""

from __future__ import annotations

import gc
import sys
from typing import Any


def release_memory(**_: Any) -> int:
    """Give cached blocks, plans and the free part of growing pools back to the device.

    What variables and results hold stays, and so does a pool of fixed size.

    Returns
    -------
    int
        Bytes that the device has more of free memory now; 0 in a process that does not use one.
    """
    gc.collect()
    if "cupy" not in sys.modules:
        return 0
    import cupy

    before, _total = cupy.cuda.runtime.memGetInfo()
    cupy.fft.config.get_plan_cache().clear()
    cupy.cuda.Device().synchronize()  # what is freed in the order of a stream is free when the stream is done
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
