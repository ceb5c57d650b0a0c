"""The device memory of a worker: RMM, shared by CuPy and cuDF; its unused memory; its peak and the energy of a cell."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple, cast

from distributed import Worker, WorkerPlugin

from ..comm import device_memory
from ..errors import GpuUnavailableError
from ..machine.nvml import read_energy

_log = logging.getLogger(__name__)


class AllocatorStatistics:
    """RMM's statistics of this process: allocated bytes and their peak.

    RMM has a stack of counters: `push_counters` starts a new one, which gives the peak since then. The innermost
    counter is the one of this class.

    - `adaptor`: the allocator that counts.
    """

    def __init__(self) -> None:
        import rmm.statistics

        _use_growing_pool()
        self._rmm = rmm
        self.adaptor: Any = None
        self._used_at_push = 0
        self._push()

    def used(self) -> int:
        """Bytes allocated now."""
        return int(self._used_at_push + self._counts().current_bytes)

    def take_peak(self) -> int:
        """The largest number of bytes that were allocated since the last call."""
        recent = int(self._used_at_push + self._counts().peak_bytes)
        self.adaptor.pop_counters()
        self._push()
        return recent

    def _push(self) -> None:
        self._used_at_push = self._counts().current_bytes
        self.adaptor.push_counters()

    def _counts(self) -> Any:
        current = self._rmm.mr.get_current_device_resource()
        # While a query of Polars runs, its allocator is the current one; it allocates from this one.
        if current is not self.adaptor and (self.adaptor is None or not _is_of_polars(current)):
            self._rmm.statistics.enable_statistics()
            is_first, self.adaptor = self.adaptor is None, self._rmm.mr.get_current_device_resource()
            if not is_first:  # a task has set another allocator
                self._used_at_push = 0
                self.adaptor.push_counters()
        return self.adaptor.allocation_counts


def _is_of_polars(resource: Any) -> bool:
    return type(resource).__module__.startswith("rapidsmpf.")


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


def pool_metrics() -> tuple[int | None, int | None]:
    """Bytes that RMM has allocated, and without a pool of fixed size those of transfers; the size of the pool."""
    if "rmm" not in sys.modules:  # only workers of the cuda engine import it
        return None, None
    statistics = _statistics_of_process()
    used, resource = statistics.used(), statistics.adaptor
    while hasattr(resource, "upstream_mr") and not hasattr(resource, "pool_size"):
        resource = resource.upstream_mr
    # CUDA's default pool does not report its size.
    size = resource.pool_size() if hasattr(resource, "pool_size") else None
    return used + (0 if size else device_memory.device_bytes()), size


def has_room(nbytes: int = 0) -> bool:
    """Whether with `nbytes` more half of the device memory of this process is not allocated; also without RMM."""
    used, size = pool_metrics()
    return used is None or (used + nbytes) * 2 <= (size or _device_memory())


@cache
def _device_memory() -> int:
    """The size of the memory of this process's device; 0 if it is not known."""
    from ..machine.gpus import visible_gpus  # imports the models of the protocol, which takes a quarter of a second

    try:
        return next((gpu.memory_total or 0 for gpu in visible_gpus()), 0)
    except GpuUnavailableError:
        return 0


def reset_worker() -> None:
    """Delete what nothing refers to any more, and return its device memory."""
    gc.collect()
    release_unused()
    device_memory.release_unused()
    if "cupy" in sys.modules:
        from ..fallback.page_locked import release_unused as release_page_locked  # imports much that no scheduler needs

        release_page_locked()


BEGIN_CELL = "gpudask-begin-cell"
"""The message from a kernel to the scheduler, and from there to the workers, that a cell begins.

It is sent before the first graph of the cell, in the same streams, so that it arrives before the tasks.
"""

_LATE = 0.1
_SHORTEST = 1.0
"""Seconds below which the energy of a cell is not read: a reading can take ten milliseconds, for which the cell would
wait at its end, and the counter moves only several times a second."""


class CellMetricsPlugin(WorkerPlugin):
    """Starts the counters of a cell when the message `BEGIN_CELL` arrives.

    - `workers`: the number of workers to which the message was sent.
    """

    name = "gpudask-cell-metrics"
    workers = 0
    _began = 0.0
    _energy_before: asyncio.Future[float | None] | None = None

    def setup(self, worker: Worker) -> None:
        """Register the handler; called by Dask before the worker receives messages."""
        worker.stream_handlers[BEGIN_CELL] = partial(self._begin, str(worker.name))

    def _begin(self, name: str, *, sent: float, workers: int) -> None:
        take_peak()
        self.workers, self._began = workers, time.monotonic()
        loop = asyncio.get_running_loop()
        self._energy_before = loop.run_in_executor(None, _read_in_time, name, sent + _LATE)

    async def energy(self, name: str) -> float | None:
        """The energy that the GPU has used since the cell began, in joules.

        `None` without a counter, for a short cell, and if the counter was read later than a tenth of a second after the
        message was sent: the energy would be that of a part of the cell.
        """
        reading = self._energy_before
        if reading is None or time.monotonic() - self._began < _SHORTEST:
            return None
        before = await reading
        return None if before is None else energy_between(before, await asyncio.to_thread(read_energy, name))


def _read_in_time(name: str, end: float) -> float | None:
    energy = None if time.time() > end else read_energy(name)
    return None if time.time() > end else energy


class WorkerCellMetrics(NamedTuple):
    """The metrics of one worker during a cell.

    - `peak`: the peak of allocated device memory, in bytes.
    - `energy`: the energy that its GPU has used, in joules.
    - `workers`: the number of workers when the cell began.
    """

    name: str
    peak: int | None
    energy: float | None
    workers: int


async def take_cell_metrics(dask_worker: Worker) -> WorkerCellMetrics:
    """The metrics of the cell that began last; called by `distributed.Client.run`."""
    name, plugin = str(dask_worker.name), cast("CellMetricsPlugin", dask_worker.plugins[CellMetricsPlugin.name])
    return WorkerCellMetrics(name, take_peak(), await plugin.energy(name), plugin.workers)


def total_energy(metrics: Sequence[WorkerCellMetrics]) -> float | None:
    """The energy of all GPUs in joules; `None` if that of one is not known, or if a worker was lost or did not answer.

    `metrics`: of the workers that have answered.
    """
    energies = [each.energy for each in metrics if each.energy is not None and each.workers == len(metrics)]
    return sum(energies) if energies and len(energies) == len(metrics) else None


def energy_between(before: float | None, after: float | None) -> float | None:
    """The difference of two readings of a counter; `None` if one is missing, or the counter was reset."""
    return None if before is None or after is None or after < before else after - before
