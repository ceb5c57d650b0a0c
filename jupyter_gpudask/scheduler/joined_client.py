"""The plugins that a kernel adds to a scheduler that somebody else started, and removes when it disconnects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from ..protocol.engines import engine_with
from ..protocol.state import ClusterState, GpuState, WorkerState, WorkState
from ..worker.graphs import MaterializePlugin
from ..worker.host_threads import HostThreadsPlugin
from ..worker.interruption import InterruptionPlugin
from ..worker.joined import DEVICE, READ_DEVICE, JoinedMetricsPlugin, dump_optional
from ..worker.plugins import PatchPlugin
from ..worker.polars_rank import PolarsRankPlugin
from . import placement
from .cells import UNFINISHED, CountingPlugin, WorkCounter, count_unfinished_in
from .graph_router import GraphRouter
from .results import bytes_by_worker, held_results, total_bytes
from .workers import LostHostsPlugin, WorkerFailuresPlugin, gpu_of_heartbeat, read_worker

JOINED_UPDATE_GRAPH = "gpudask-update-graph"
"""The operation with which joined clients submit graphs; those of other clients are handled as ever."""

JOINED_BEGIN_CELL = "gpudask-joined-begin-cell"
"""The operation with which a joined client says that a cell begins."""

_STIMULUS = "gpudask-leave"

_changing = asyncio.Lock()  # of the one scheduler of this process: clients join and leave one after the other


class JoinedClientPlugin(CountingPlugin, LostHostsPlugin):
    """Counts the tasks of one client, and holds the plugins of the workers while the client is connected.

    The plugins of the workers are shared by all joined clients: the first one registers them, and the last one removes
    them, also if its process is killed.

    - `tasks`: the keys of the tasks that the client has submitted and that the scheduler still has.
    - `unfinished`: how many of these are unfinished.
    - `earlier`: the keys of those that were submitted before the kernel's last cell began.
    - `devices`: the GPUs of the workers that were there when the plugin was registered, by address, for the time until
      their next heartbeat.
    """

    def __init__(self, client: str) -> None:
        super().__init__()
        self.name = _name(client)
        self.tasks: set[Any] = set()
        self.unfinished = 0
        self.earlier: set[Any] = set()
        self.registered: list[str] = []
        self.devices: dict[str, dict[str, Any] | None] = {}
        self.client = client

    async def start(self, scheduler: Any) -> None:
        """Register the plugins of the workers; called by Dask when this plugin is registered."""
        self.watch_hosts(scheduler)
        async with _changing:
            try:
                await self._register(scheduler)
            except BaseException:
                await _unregister(scheduler, self.registered)
                raise

    async def _register(self, scheduler: Any) -> None:
        plugins: list[Any] = [JoinedMetricsPlugin()]
        if WorkerFailuresPlugin.name not in scheduler.plugins:  # else a supervisor has registered what it wants
            plugins += [
                PatchPlugin(),
                InterruptionPlugin(),
                MaterializePlugin(),
                HostThreadsPlugin(),
                PolarsRankPlugin(),
            ]
        for plugin in plugins:
            if plugin.name in scheduler.worker_plugins:
                continue
            self.registered.append(plugin.name)
            register = scheduler.register_worker_plugin
            answers = await register(comm=None, plugin=dump_optional(plugin), name=plugin.name, idempotent=True)
            failed = [answer for answer in answers.values() if answer["status"] == "error"]
            if failed:
                raise RuntimeError(failed[0]["exception_text"])
        if placement.NAME not in scheduler.plugins:
            self.registered.append(placement.NAME)
            placement.install(scheduler)
        if self.client not in scheduler.clients:
            raise RuntimeError("The client has disconnected.")  # nobody would remove the plugins
        if JOINED_UPDATE_GRAPH not in scheduler.stream_handlers:
            checked = set(scheduler.workers)

            def has_plugins(worker: Any) -> bool:
                return worker.address in checked or DEVICE in (worker.metrics or {})

            GraphRouter(scheduler, has_plugins).install(JOINED_UPDATE_GRAPH)
            scheduler.stream_handlers[JOINED_BEGIN_CELL] = partial(begin_cell, dask_scheduler=scheduler)
        found = await scheduler.broadcast(msg={"op": READ_DEVICE}, on_error="ignore")
        self.devices = {address: answer[DEVICE] for address, answer in found.items() if answer}

    def begin_cell(self, scheduler: Any) -> None:
        """Note which tasks are not those of the cell that begins."""
        tasks = self.tasks if self.unfinished else ()
        self.earlier = {key for key in tasks if scheduler.tasks[key].state in UNFINISHED}
        self._work = WorkCounter()

    def work(self) -> WorkState:
        """What is done of the tasks that were submitted last."""
        return self._work.state(self.unfinished - len(self.earlier))

    def update_graph(self, scheduler: Any, *, client: str, tasks: Collection[Any], **_: Any) -> None:
        """Count new tasks; called by Dask for each graph that is submitted."""
        if client == self.client:
            new = [key for key in tasks if key not in self.tasks and key in scheduler.tasks]
            if self.unfinished == len(self.earlier):
                self._work = WorkCounter()
            self._work.add(len(new), len(new))
            self.tasks.update(new)
            self.unfinished += sum(scheduler.tasks[key].state in UNFINISHED for key in new)

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        """Count a task that becomes finished or unfinished; called by Dask for every transition."""
        if key in self.tasks:
            self.unfinished += (finish in UNFINISHED) - (start in UNFINISHED)
            if finish not in UNFINISHED:
                self.earlier.discard(key)
            if finish == "forgotten":
                self.tasks.discard(key)

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Leave; called by Dask when a client has disconnected, or when its process has ended."""
        if client == self.client:
            scheduler._ongoing_background_tasks.call_soon(leave, client, scheduler)  # noqa: SLF001


def begin_cell(client: str, dask_scheduler: Any) -> None:
    """Begin to count the tasks of a cell of a client."""
    plugin = dask_scheduler.plugins.get(_name(client))
    if plugin is not None:
        plugin.begin_cell(dask_scheduler)


def dashboard_token(dask_scheduler: Any) -> str:
    """The token of the dashboard of a cluster of this package; empty if it is off, and for other schedulers."""
    return str(getattr(getattr(dask_scheduler, "http_application", None), "dashboard_token", ""))


async def leave(client: str, dask_scheduler: Any) -> None:
    """Release the results of a client, and remove what it has added to the scheduler and the workers."""
    state = dask_scheduler.clients.get(client)
    if state is not None:
        keys = [task.key for task in state.wants_what]
        dask_scheduler.client_releases_keys(keys=keys, client=client, stimulus_id=_STIMULUS)
    async with _changing:
        plugin = dask_scheduler.plugins.pop(_name(client), None)
        if plugin is None:
            return
        others = [other for other in dask_scheduler.plugins.values() if isinstance(other, JoinedClientPlugin)]
        if others:
            others[0].registered += plugin.registered
            return
        for operation in (JOINED_UPDATE_GRAPH, JOINED_BEGIN_CELL):
            dask_scheduler.stream_handlers.pop(operation, None)
        await _unregister(dask_scheduler, plugin.registered)


def read_joined_state(client: str, start_timeout: float, dask_scheduler: Any) -> ClusterState:
    """The state of the cluster for a client; no worker is asked.

    - `start_timeout`: seconds after which the state says that the cluster has no worker.
    """
    plugin: JoinedClientPlugin = dask_scheduler.plugins[_name(client)]
    held = held_results([dask_scheduler.clients[client]])
    sizes = bytes_by_worker(held)
    workers = [
        _read_joined_worker(worker, plugin, sizes[address]) for address, worker in dask_scheduler.workers.items()
    ]
    unfinished = count_unfinished_in(dask_scheduler.task_groups.values())
    return ClusterState(
        engine=engine_with(gpus=any(worker.gpu_index is not None for worker in workers)),
        status="ready",
        time=time.time(),
        workers=tuple(sorted(workers, key=lambda worker: (worker.host, worker.gpu_index or 0, worker.name))),
        tasks_unfinished=plugin.unfinished,
        work=plugin.work(),
        workers_wanted=len(workers),
        result_bytes=total_bytes(held),
        lost_hosts=plugin.lost_hosts(),
        seconds_without_workers=plugin.seconds_without_workers(start_timeout),
        others_unfinished=max(0, unfinished - plugin.unfinished),
    )


def _read_joined_worker(worker: Any, plugin: JoinedClientPlugin, result_bytes: int) -> WorkerState:
    own = {task for task in worker.processing if task.key in plugin.tasks}
    executing = sum(task in own for task in worker.executing)
    counts = {"executing": executing, "waiting": len(own) - executing, "others": len(worker.processing) - len(own)}
    state = read_worker(worker, _gpu_of(worker, plugin.devices), result_bytes=result_bytes)
    return state.model_copy(update=counts)


def _gpu_of(worker: Any, devices: Mapping[str, dict[str, Any] | None]) -> GpuState | None:
    device = (worker.metrics or {}).get(DEVICE, devices.get(worker.address))
    return gpu_of_heartbeat(worker, device)


async def _unregister(scheduler: Any, names: Collection[str]) -> None:
    for name in names:
        if name == placement.NAME:
            placement.remove(scheduler)
            continue
        with suppress(OSError, ValueError):  # a worker that has ended meanwhile; a plugin that somebody has removed
            await scheduler.unregister_worker_plugin(comm=None, name=name)


def _name(client: str) -> str:
    return f"gpudask-joined {client}"
