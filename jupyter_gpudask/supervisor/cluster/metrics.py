"""The metrics of a running cluster, from the heartbeats of its workers and from NVML."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Literal

from ...errors import GpuUnavailableError
from ...machine import gpus
from ...protocol import ClusterState, GpuState
from ...scheduler.cells import cell_tasks_of, count_unfinished_in
from ...scheduler.results import bytes_by_worker, held_results, total_bytes
from ...scheduler.workers import read_worker, reported_gpu

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...machine.plan import Plan
    from ...scheduler.workers import WorkerFailuresPlugin

Status = Literal["starting", "ready", "closing", "closed"]


async def read_state(
    cluster: Any,
    plan: Plan,
    status: Status,
    failures: WorkerFailuresPlugin,
    *,
    start_timeout: float,
    gpu_metrics: bool = True,
) -> ClusterState:
    """The state of a cluster; no worker is asked, and no CUDA context is created.

    Parameters
    ----------
    cluster
        The Dask cluster; its scheduler runs in this process.
    plan
        The plan of the cluster.
    status
        The status that the supervisor reports.
    failures
        The failures of its workers so far.
    start_timeout
        Seconds after which a state says that the cluster has no worker.
    gpu_metrics
        Whether to read the metrics of its GPUs from NVML.
    """
    devices = _devices_without_metrics(plan)
    if plan.engine == "cuda" and gpu_metrics:
        # In a thread: NVML can take tens of milliseconds for a GPU, and this is also the scheduler's event loop.
        devices = await asyncio.to_thread(_read_devices, plan)
    scheduler = cluster.scheduler
    order = {gpu.uuid: number for number, gpu in enumerate(plan.gpus)}
    pids = {str(name): getattr(worker, "pid", None) for name, worker in cluster.workers.items()}
    held = held_results(scheduler.clients.values())
    sizes = bytes_by_worker(held)
    workers = [
        read_worker(
            worker,
            devices.get(name) or (reported_gpu(worker) if plan.engine == "cuda" else None),
            pids.get(name),
            failures.out_of_memory[name],
            held=sizes[worker.address],
        )
        for name, worker in ((str(worker.name), worker) for worker in scheduler.workers.values())
    ]
    workers.sort(key=lambda worker: (order.get(worker.name, 0), worker.host, len(worker.name), worker.name))
    return ClusterState(
        engine=plan.engine,
        status=status,
        time=time.time(),
        workers=tuple(workers),
        tasks_unfinished=count_unfinished_in(scheduler.task_groups.values()),
        cell_tasks_unfinished=cell_tasks_of(scheduler).unfinished(),
        workers_wanted=len(cluster.plan),
        gpus=tuple(gpu.uuid for gpu in plan.gpus if gpu.uuid in cluster.plan),
        held=total_bytes(held),
        worker_exits=tuple(failures.exits),
        lost_hosts=failures.lost_hosts(),
        seconds_without_workers=failures.seconds_without_workers(start_timeout),
    )


def _read_devices(plan: Plan) -> Mapping[str, GpuState]:
    try:
        # Without GPUs in the plan, a cluster class chose them; its workers may have their UUIDs as names.
        return {gpu.uuid: gpu for gpu in (gpus.read_use(plan.gpus) if plan.gpus else gpus.list_gpus())}
    except GpuUnavailableError:
        return _devices_without_metrics(plan)


def _devices_without_metrics(plan: Plan) -> Mapping[str, GpuState]:
    return {gpu.uuid: GpuState(index=gpu.index, uuid=gpu.uuid, name=gpu.name) for gpu in plan.gpus}
