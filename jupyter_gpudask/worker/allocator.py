"""The allocator of a worker, which CuPy and cuDF share: RMM's, and what it says of itself."""

from __future__ import annotations

import logging
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Worker

_log = logging.getLogger(__name__)


class Pool:
    """What RMM's statistics say of this process, which has one allocator.

    RMM counts in a stack: what was handed out since the last `push_statistics` is counted for itself, so that a peak
    can be had for a time of its own. The innermost count belongs to us.
    """

    def __init__(self) -> None:
        import rmm.statistics

        _grow_as_needed()
        self._statistics = rmm.statistics
        rmm.statistics.enable_statistics()
        self._used_at_push, self._peak = 0, 0
        self._push()

    def used(self) -> int:
        """Bytes that are handed out now."""
        return int(self._used_at_push + self._counts().current_bytes)

    def peak(self) -> int:
        """The most bytes that were ever handed out."""
        return int(max(self._peak, self._used_at_push + self._counts().peak_bytes))

    def take_peak(self) -> int:
        """The most bytes that were handed out since this was called last."""
        recent = int(self._used_at_push + self._counts().peak_bytes)
        self._peak = max(self._peak, recent)
        self._statistics.pop_statistics()
        self._push()
        return recent

    def _push(self) -> None:
        self._used_at_push = self._counts().current_bytes
        self._statistics.push_statistics()

    def _counts(self) -> Any:
        if self._statistics.get_statistics() is None:  # a task has put another allocator in place
            self._statistics.enable_statistics()
            self._used_at_push = 0
            self._statistics.push_statistics()
        return self._statistics.get_statistics()


@cache
def _own_pool() -> Pool:
    return Pool()  # at the first heartbeat, when dask-cuda has set up the allocator


def _grow_as_needed() -> None:
    """Where no pool was asked for, allocate from CUDA's own, which grows as needed, and keeps what is freed.

    dask-cuda's ``rmm_async`` makes such a pool too, but one whose handle RMM tells nobody: it could not be trimmed.
    """
    import rmm

    if type(rmm.mr.get_current_device_resource()) is not rmm.mr.CudaMemoryResource:
        return
    from cuda.bindings import driver

    _, device = driver.cuCtxGetDevice()
    error, pool = driver.cuDeviceGetDefaultMemPool(device)
    if error:
        _log.warning("The driver has no pool of memory (%s); each allocation asks it for itself.", error.name)
        return
    threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    driver.cuMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(2**64 - 1))
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncViewMemoryResource(pool))


def give_back() -> None:
    """Give what CUDA's own pool holds without need back to the device; a pool of fixed size stays as it is."""
    if "rmm" not in sys.modules:
        return
    import rmm

    resource = rmm.mr.get_current_device_resource()
    while hasattr(resource, "upstream_mr") and not hasattr(resource, "pool_handle"):
        resource = resource.upstream_mr
    if not hasattr(resource, "pool_handle"):
        return
    from cuda.bindings import driver

    driver.cuCtxSynchronize()  # what is freed in the order of a stream is free when the stream is done
    driver.cuMemPoolTrimTo(int(resource.pool_handle()), 0)


def take_peak(dask_worker: Worker) -> tuple[str, int | None]:
    """The most bytes of device memory that RMM had handed out since this was called last, after the worker's name.

    Parameters
    ----------
    dask_worker
        Filled in by `distributed.Client.run`.
    """
    return str(dask_worker.name), _own_pool().take_peak() if "rmm" in sys.modules else None


def pool_metrics() -> tuple[int | None, int | None, int | None]:
    """Bytes that RMM has handed out, that its pool holds, and the most it ever handed out."""
    if "rmm" not in sys.modules:  # only the cuda engine brings it
        return None, None, None
    import rmm

    pool = _own_pool()
    resource = rmm.mr.get_current_device_resource()
    while hasattr(resource, "upstream_mr") and not hasattr(resource, "pool_size"):
        resource = resource.upstream_mr
    # CUDA's own pool, which grows as needed, does not tell its size.
    size = resource.pool_size() if hasattr(resource, "pool_size") else None
    return pool.used(), size, pool.peak()
