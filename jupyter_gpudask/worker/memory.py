"""The device memory of a worker: RMM, shared by CuPy and cuDF; its statistics and unused memory."""

from __future__ import annotations

import gc
import logging
import sys
from functools import cache
from typing import Any

from ..comm import device_memory

_log = logging.getLogger(__name__)


class AllocatorStatistics:
    """RMM's statistics of this process: allocated bytes and their peak.

    RMM has a stack of counters: `push_statistics` starts a new one, which gives the peak since then. The innermost
    counter is the one of this class.
    """

    def __init__(self) -> None:
        import rmm.statistics

        _use_growing_pool()
        self._statistics = rmm.statistics
        rmm.statistics.enable_statistics()
        self._used_at_push, self._peak = 0, 0
        self._push()

    def used(self) -> int:
        """Bytes allocated now."""
        return int(self._used_at_push + self._counts().current_bytes)

    def peak(self) -> int:
        """The largest number of bytes that were allocated so far."""
        return int(max(self._peak, self._used_at_push + self._counts().peak_bytes))

    def take_peak(self) -> int:
        """The largest number of bytes that were allocated since the last call."""
        recent = int(self._used_at_push + self._counts().peak_bytes)
        self._peak = max(self._peak, recent)
        self._statistics.pop_statistics()
        self._push()
        return recent

    def _push(self) -> None:
        self._used_at_push = self._counts().current_bytes
        self._statistics.push_statistics()

    def _counts(self) -> Any:
        if self._statistics.get_statistics() is None:  # a task has set another allocator
            self._statistics.enable_statistics()
            self._used_at_push = 0
            self._statistics.push_statistics()
        return self._statistics.get_statistics()


@cache
def _statistics_of_process() -> AllocatorStatistics:
    return AllocatorStatistics()  # at the first heartbeat, after dask-cuda has set up the allocator


def _use_growing_pool() -> None:
    """If no pool was requested, allocate from CUDA's default pool, which grows as needed and keeps freed memory.

    With dask-cuda's ``rmm_async`` the pool could not be trimmed, because RMM does not expose its handle.
    """
    import rmm

    if type(rmm.mr.get_current_device_resource()) is not rmm.mr.CudaMemoryResource:
        return
    from cuda.bindings import driver

    _, device = driver.cuCtxGetDevice()
    error, pool = driver.cuDeviceGetDefaultMemPool(device)
    if error:
        _log.warning("The driver has no memory pool (%s); every allocation is made by the driver.", error.name)
        return
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    driver.cuMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(2**64 - 1))
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncViewMemoryResource(pool))


def release_unused() -> None:
    """Return the unused memory of CUDA's pool to the device; a pool of fixed size is not changed."""
    if "rmm" not in sys.modules:
        return
    import rmm

    resource = rmm.mr.get_current_device_resource()
    while hasattr(resource, "upstream_mr") and not hasattr(resource, "pool_handle"):
        resource = resource.upstream_mr
    if not hasattr(resource, "pool_handle"):
        return
    from cuda.bindings import driver

    driver.cuCtxSynchronize()  # memory freed on a stream is free when the stream has finished
    driver.cuMemPoolTrimTo(int(resource.pool_handle()), 0)


def take_peak() -> int | None:
    """The peak of allocated device memory in bytes since the last call; `None` without RMM."""
    return _statistics_of_process().take_peak() if "rmm" in sys.modules else None


def pool_metrics() -> tuple[int | None, int | None, int | None]:
    """Bytes that RMM has allocated, the size of its pool, and the peak of allocated bytes."""
    if "rmm" not in sys.modules:  # only workers of the cuda engine import it
        return None, None, None
    import rmm

    statistics = _statistics_of_process()
    resource = rmm.mr.get_current_device_resource()
    while hasattr(resource, "upstream_mr") and not hasattr(resource, "pool_size"):
        resource = resource.upstream_mr
    # CUDA's default pool does not report its size.
    size = resource.pool_size() if hasattr(resource, "pool_size") else None
    return statistics.used(), size, statistics.peak()


def reset_worker() -> None:
    """Delete what nothing refers to any more, and return its device memory."""
    gc.collect()
    release_unused()
    device_memory.release_unused()
