"""The state of one worker, from the scheduler's data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..protocol import GpuState, WorkerState
from ..worker.preload import DEVICE_METRIC, METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_worker(
    worker: Any, gpu: GpuState | None, pid: int | None = None, out_of_memory: int = 0, *, held: int = 0
) -> WorkerState:
    """The state of a worker, from its last heartbeat; the worker is not asked.

    Parameters
    ----------
    worker
        A `distributed.scheduler.WorkerState`.
    gpu
        Its GPU with the current metrics; `None` on the CPU.
    pid
        The process id of the worker.
    out_of_memory
        The number of its tasks that ran out of device memory.
    held
        Bytes of the results on it that clients hold.
    """
    heartbeat = worker.metrics or {}
    metrics = heartbeat.get(METRICS) or {}
    # `executing` is as old as the last heartbeat; tasks cancelled since then no longer run.
    executing = min(len(worker.executing), len(worker.processing))
    return WorkerState(
        name=str(worker.name),
        pid=pid,
        gpu_index=None if gpu is None else gpu.index,
        gpu_uuid=None if gpu is None else gpu.uuid,
        utilization=None if gpu is None else gpu.utilization,
        device_memory_used=None if gpu is None else gpu.memory_used,
        device_memory_total=None if gpu is None else gpu.memory_total,
        pool_used=metrics.get("pool_used"),
        pool_size=metrics.get("pool_size"),
        spilled_to_host=metrics.get("spilled_to_host"),
        spilled_to_disk=metrics.get("spilled_to_disk"),
        memory=heartbeat.get("memory"),
        cpu=heartbeat.get("cpu"),
        threads=worker.nthreads,
        executing=executing,
        waiting=len(worker.processing) - executing,
        executed=metrics.get("executed"),
        held=held,
        out_of_memory=out_of_memory,
        status=worker.status.name,
        host=worker.host,
    )


def reported_gpu(worker: Any) -> GpuState | None:
    """The GPU that a worker reports in its heartbeats; `None` if it does not."""
    metrics = (worker.metrics or {}).get(METRICS) or {}
    return gpu_of_heartbeat(worker, metrics.get(DEVICE_METRIC))


def gpu_of_heartbeat(worker: Any, device: Mapping[str, Any] | None) -> GpuState | None:
    """The GPU of a worker with the metrics that Dask's ``distributed.diagnostics.nvml`` adds to heartbeats.

    Parameters
    ----------
    worker
        A `distributed.scheduler.WorkerState`.
    device
        Index, UUID and product name; `None` without a GPU.
    """
    if device is None:
        return None
    metrics = worker.metrics or {}
    return GpuState(
        **device,
        memory_total=metrics.get("gpu-memory-total"),
        memory_used=metrics.get("gpu_memory_used"),
        utilization=metrics.get("gpu_utilization"),
    )
