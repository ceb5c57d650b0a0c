"""What the clusters of a supervisor have in common: plugins, metrics, and the reset."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from distributed.comm.core import CommClosedError
from distributed.protocol.pickle import dumps

from ..errors import GpuUnavailableError
from ..machine import gpus
from ..machine.plan import Plan
from ..protocol.engines import Engine, has_gpus
from ..protocol.spec import ClusterSpec
from ..protocol.state import ClusterState, GpuState, TlsCredentials
from ..scheduler import placement
from ..scheduler.cells import (
    StuckWorker,
    assigned_tasks,
    cell_tasks_of,
    count_unfinished_in,
    handle_beginnings,
    restart_busy,
    stop_released_tasks,
)
from ..scheduler.graph_router import GraphRouter
from ..scheduler.results import SpanRetentionPlugin, bytes_by_worker, held_results, release_results, total_bytes
from ..scheduler.settings import DEFAULT_SATURATION, SaturationPlugin, SchedulerPathPlugin, SendIntervalPlugin
from ..scheduler.workers import WorkerFailuresPlugin, read_worker, reported_gpu
from ..worker.cuda_context import CONTEXT_LOST, ContextPlugin
from ..worker.first_kernels import FirstKernelsPlugin
from ..worker.graphs import MaterializePlugin
from ..worker.host_threads import HostThreadsPlugin
from ..worker.imports import CudfPlugin, PathPlugin
from ..worker.interruption import InterruptionPlugin
from ..worker.memory import CellMetricsPlugin, reset_worker
from ..worker.plugins import ExitReportPlugin, MetricsRetentionPlugin, PatchPlugin
from ..worker.polars_rank import PolarsRankPlugin, release_rank


async def register_plugins(path: Sequence[str], engine: Engine, threads: int | None, dask_scheduler: Any) -> None:
    """Register the plugins; workers that start later get theirs, too.

    - `path`: folders from which the scheduler and the workers can import modules.
    - `engine`: on GPUs graphs are not opened in the scheduler, and the device memory and the energy of cells are
      measured.
    - `threads`: of each worker, if the user has said it. Else parts on the host use all cores, if that is switched on.
    """
    scheduler = dask_scheduler
    failures = WorkerFailuresPlugin(scheduler)
    scheduler.add_plugin(failures)
    scheduler.handlers[CONTEXT_LOST] = failures.lose_context
    scheduler.add_plugin(SpanRetentionPlugin(scheduler))
    scheduler.add_plugin(SendIntervalPlugin(scheduler))
    if scheduler.WORKER_SATURATION == DEFAULT_SATURATION:
        scheduler.add_plugin(SaturationPlugin(scheduler))
    await scheduler.register_scheduler_plugin(SchedulerPathPlugin(path), idempotent=True)
    plugins: list[Any] = [PathPlugin(path), PatchPlugin(), InterruptionPlugin(), MetricsRetentionPlugin()]
    if has_gpus(engine):
        plugins += [CudfPlugin(), MaterializePlugin(), CellMetricsPlugin(), ContextPlugin(), PolarsRankPlugin()]
        plugins.append(FirstKernelsPlugin())
        GraphRouter(scheduler).install()
        if threads is None:
            plugins.append(HostThreadsPlugin())
    handle_beginnings(scheduler, pass_on=has_gpus(engine))
    placement.install(scheduler)  # the last plugin, because the others count tasks before they begin
    reports = ExitReportPlugin()
    a_worker_has_gone = suppress(CommClosedError)  # and the others have the plugin
    for plugin in plugins:
        with a_worker_has_gone:
            await scheduler.register_worker_plugin(comm=None, plugin=dumps(plugin), name=plugin.name, idempotent=True)
    with a_worker_has_gone:
        await scheduler.register_nanny_plugin(comm=None, plugin=dumps(reports), name=reports.name, idempotent=True)


def without_gpus(spec: ClusterSpec) -> str:
    """Why cells run on the CPU on a cluster that a class creates; empty if its workers have GPUs."""
    return "" if has_gpus(spec.class_engine) else f"Clusters of the preset {spec.preset} have no GPUs."


Status = Literal["starting", "ready", "closing", "closed"]


async def read_state(
    cluster: Any, plan: Plan, status: Status, *, start_timeout: float, devices: Mapping[str, GpuState] | None = None
) -> ClusterState:
    """The state of a cluster; no worker is asked, and no CUDA context is created.

    - `cluster`: the Dask cluster; its scheduler runs in this process.
    - `start_timeout`: seconds after which a state says that the cluster has no worker.
    - `devices`: the metrics of its GPUs, by UUID.
    """
    devices = _devices_without_metrics(plan) if devices is None else devices
    scheduler = cluster.scheduler
    failures: WorkerFailuresPlugin = scheduler.plugins[WorkerFailuresPlugin.name]
    order = {gpu.uuid: number for number, gpu in enumerate(plan.gpus)}
    pids = {str(name): getattr(worker, "pid", None) for name, worker in cluster.workers.items()}
    held = held_results(scheduler.clients.values())
    sizes = bytes_by_worker(held)
    workers = [
        read_worker(
            worker,
            devices.get(name) or (reported_gpu(worker) if plan.has_gpus else None),
            pids.get(name),
            failures.out_of_memory[name],
            result_bytes=sizes[worker.address],
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
        work=cell_tasks_of(scheduler).work(),
        workers_wanted=len(cluster.plan),
        gpus=tuple(gpu.uuid for gpu in plan.gpus if gpu.uuid in cluster.plan),
        result_bytes=total_bytes(held),
        worker_exits=tuple(failures.exits),
        lost_hosts=failures.lost_hosts(),
        seconds_without_workers=failures.seconds_without_workers(start_timeout),
    )


def read_devices(plan: Plan) -> Mapping[str, GpuState]:
    """The metrics of the GPUs from NVML, which can take tens of milliseconds for each; without NVML there are none."""
    try:
        # Without GPUs in the plan, a cluster class chose them; its workers may have their UUIDs as names.
        return {gpu.uuid: gpu for gpu in (gpus.read_use(plan.gpus) if plan.gpus else gpus.list_gpus())}
    except GpuUnavailableError:
        return _devices_without_metrics(plan)


def _devices_without_metrics(plan: Plan) -> Mapping[str, GpuState]:
    return {gpu.uuid: GpuState(index=gpu.index, uuid=gpu.uuid, name=gpu.name) for gpu in plan.gpus}


# The extensions of Dask's scheduler that keep named objects.
_NAMED_OBJECTS = ("publish", "variables", "queues", "semaphores", "multi_locks", "events")
_STIMULUS = "gpudask-reset"
_STOP_TIMEOUT = 1.5
_WORKER_TIMEOUT = 2.0
_RANK_TIMEOUT = 4.0


async def reset(dask_scheduler: Any) -> list[StuckWorker]:
    """Reset the scheduler and its workers to their state after the start of the cluster.

    Unlike `distributed.Scheduler.restart` it keeps the worker processes, with their imports, CUDA contexts and pools of
    fixed size. A running task is interrupted when it returns to Python; if that takes too long, its worker is
    restarted.

    Returns the workers that were restarted, or could not be.
    """
    scheduler = dask_scheduler
    assigned = assigned_tasks(scheduler)
    for client in list(scheduler.clients.values()):
        keys = [task.key for task in client.wants_what]
        scheduler.client_releases_keys(keys=keys, client=client.client_key, stimulus_id=_STIMULUS)
    _delete_named_objects(scheduler)
    scheduler.report({"op": "restart"})  # connected clients cancel their futures
    stuck = await stop_released_tasks(scheduler, assigned, _STOP_TIMEOUT)
    stuck += await _release_ranks(scheduler)
    message = {"op": "run", "function": dumps(reset_worker), "wait": True}
    with suppress(TimeoutError):  # a worker that is inside compiled code does it later
        await asyncio.wait_for(scheduler.broadcast(msg=message, on_error="ignore"), _WORKER_TIMEOUT)
    return stuck


async def _release_ranks(scheduler: Any) -> list[StuckWorker]:
    """End Polars' engine in the workers; restarts those in which its query does not stop."""
    message = {"op": "run", "function": dumps(release_rank), "wait": True}
    answers: dict[str, Any] = {}
    with suppress(TimeoutError):
        answers = await asyncio.wait_for(scheduler.broadcast(msg=message, on_error="ignore"), _RANK_TIMEOUT)
    busy = [address for address, answer in answers.items() if answer.get("result") is False]
    return await restart_busy(busy, dask_scheduler=scheduler)


def _delete_named_objects(scheduler: Any) -> None:
    timers = dict(scheduler.periodic_callbacks)
    for name in _NAMED_OBJECTS:
        if name in scheduler.extensions:
            # Not replaced by a new object, because caches of Dask hold the methods of this one and so its contents.
            scheduler.extensions[name].__init__(scheduler)
    for name, timer in timers.items():
        if scheduler.periodic_callbacks.get(name) is not timer:
            timer.stop()


class SupervisedCluster:
    """A Dask cluster; a class overrides what its clusters have: a lease on GPUs, clients to wait for."""

    _cluster: Any = None

    async def on_scheduler(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the process of the scheduler, which it gets as ``dask_scheduler``."""
        raise NotImplementedError

    async def reset(self) -> None:
        """Delete every result, task, actor and named object, and keep the workers."""
        await self.on_scheduler(reset)

    async def release(self) -> None:
        """Release the finished results that clients hold; unfinished tasks go on."""
        await self.on_scheduler(release_results)

    def rename(self, holder: str) -> None:
        """Change the name under which the GPUs are reserved."""

    async def wait_for_clients(self, limit: float) -> None:
        """Wait at most `limit` seconds until the clients have left."""

    async def close(self, grace: float) -> None:
        """Stop the cluster; raises if that takes longer than `grace` seconds."""
        raise NotImplementedError

    async def abandon(self, grace: float) -> None:
        """Stop what is not killed with this process; raises if that takes longer than `grace` seconds."""
        await self.close(grace)

    def end(self, reason: str) -> None:
        """Remove what is left after all processes have ended; the record of the use of GPUs has the reason."""

    def _credentials(self) -> TlsCredentials | None:
        security: Any = getattr(self._cluster, "security", None)  # clusters of Kubernetes have none
        if hasattr(security, "tls_cert"):  # of dask-gateway: one certificate, which has signed itself, for all sides
            return TlsCredentials(ca=security.tls_cert, certificate=security.tls_cert, key=security.tls_key)
        if not getattr(security, "tls_client_cert", None):
            return None
        ca, certificate, key = security.tls_ca_file, security.tls_client_cert, security.tls_client_key
        return TlsCredentials(ca=ca, certificate=certificate, key=key)
