"""Measure a cell: in the kernel, and in the scheduler, to which workers report the times of tasks."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from distributed import SchedulerPlugin
from distributed.metrics import time
from distributed.protocol.pickle import dumps

from .measurements import Operation, SchedulerRecord, WorkerRecord, WorkerUse, combine, operation_of
from .worker_plugin import PROFILING_PLUGIN, WorkerProfilingPlugin

if TYPE_CHECKING:
    from distributed import Client

    from .measurements import CellMeasurements

_START_TIMEOUT = 6.0
_STOP_TIMEOUT = 10.0

_UNFINISHED = frozenset({"waiting", "queued", "no-worker", "processing"})
_WORKER_TIMEOUT = 4.0
_MOVES = frozenset({"disk-write", "disk-read"})


class Recording:
    """The recording of one cell."""

    def __init__(self, client: Client, *, on_gpus: bool) -> None:
        self._client, self._on_gpus = client, on_gpus

    def start(self) -> None:
        """Start to record; raises what Dask raises if the cluster does not respond."""
        self._run(start_recording, _START_TIMEOUT, on_gpus=self._on_gpus)
        self._began = monotonic()

    def stop(self) -> CellMeasurements | None:
        """End it, and return the measurements; `None` if another cell was recorded meanwhile."""
        duration = monotonic() - self._began
        recorded = self._run(stop_recording, _STOP_TIMEOUT)
        return None if recorded is None else combine(duration, *recorded, on_gpus=self._on_gpus)

    def _run(self, function: Any, limit: float, **options: Any) -> Any:
        client = self._client
        run_on_scheduler = client._run_on_scheduler  # noqa: SLF001 - the public one has no timeout
        return client.sync(run_on_scheduler, function, client.id, callback_timeout=limit, **options)


class SchedulerProfilingPlugin(SchedulerPlugin):
    """Records all tasks of the cluster until it is removed, or its client has disconnected."""

    name = PROFILING_PLUGIN

    def __init__(self, scheduler: Any, client: str) -> None:
        self._scheduler = scheduler
        self._client = client
        self._record = SchedulerRecord()
        self._unfinished = {key for key, task in scheduler.tasks.items() if task.state in _UNFINISHED}
        self._active_since = time()
        self._last_stop: dict[tuple[str, int], float] = {}

    def transition(self, key: Any, start: str, finish: str, *_: Any, **details: Any) -> None:
        """Record a transition; called by Dask for each."""
        if finish in _UNFINISHED:
            if not self._unfinished:
                self._active_since = time()
            self._unfinished.add(key)
        elif key in self._unfinished:
            self._unfinished.discard(key)
            if not self._unfinished:
                self._record.active += time() - self._active_since
        if start == "processing" and finish in ("memory", "erred") and details.get("startstops"):
            self._add(key, **details)

    def _add(
        self, key: Any, *, worker: str, startstops: list[Any], nbytes: int | None = None, thread: int = 0, **_: Any
    ) -> None:
        state = self._scheduler.workers.get(worker)
        use = self._record.workers.get(worker)
        if use is None:
            use = self._record.workers[worker] = WorkerUse(str(getattr(state, "name", worker)))
            use.threads = getattr(state, "nthreads", 1)
        operation = self._record.operations.setdefault(operation_of(key), Operation())
        operation.tasks += 1
        if nbytes is not None:
            operation.sized += 1
            operation.nbytes += nbytes
        task = self._scheduler.tasks.get(key)
        operation.is_source = task is not None and not task.dependencies
        fetching = 0.0
        for each in startstops:
            seconds = each["stop"] - each["start"]
            if each["action"] == "transfer":
                operation.between_workers += seconds
                fetching += seconds
            elif each["action"] in _MOVES:
                operation.spilling += seconds
            elif each["action"] == "compute":
                operation.seconds += seconds
                use.seconds += seconds
                since = max(self._last_stop.get((worker, thread), 0.0), self._active_since)
                operation.waiting += max(0.0, each["start"] - since - fetching)
                self._last_stop[worker, thread] = each["stop"]

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Remove the plugins if the kernel is gone; called by Dask."""
        if client == self._client:
            scheduler._ongoing_background_tasks.call_soon(_remove_plugins, scheduler)  # noqa: SLF001

    def record(self) -> SchedulerRecord:
        """What was recorded so far."""
        if self._unfinished:
            self._record.active += time() - self._active_since
            self._active_since = time()
        for address, state in self._scheduler.workers.items():  # those that have run nothing, too
            use = self._record.workers.setdefault(address, WorkerUse(str(state.name)))
            use.threads = state.nthreads
        self._record.unfinished = len(self._unfinished)
        return self._record


async def start_recording(client: str, dask_scheduler: Any, *, on_gpus: bool) -> None:
    """Record what a cluster does. A recording that another cell has started ends."""
    dask_scheduler.plugins.pop(PROFILING_PLUGIN, None)
    plugin = dumps(WorkerProfilingPlugin(on_gpus=on_gpus))
    registering = dask_scheduler.register_worker_plugin(None, plugin, PROFILING_PLUGIN, idempotent=False)
    with suppress(TimeoutError):  # a worker that holds Python's global lock registers it later
        await asyncio.wait_for(registering, _WORKER_TIMEOUT)
    dask_scheduler.add_plugin(SchedulerProfilingPlugin(dask_scheduler, client))


async def stop_recording(client: str, dask_scheduler: Any) -> tuple[SchedulerRecord, dict[str, WorkerRecord]] | None:
    """End the recording of a client: the records of scheduler and workers; `None` if another cell has ended it."""
    plugin = dask_scheduler.plugins.get(PROFILING_PLUGIN)
    if not isinstance(plugin, SchedulerProfilingPlugin) or plugin._client != client:  # noqa: SLF001
        return None
    record = plugin.record()
    answers = await asyncio.gather(*(_read(dask_scheduler, address) for address in list(dask_scheduler.workers)))
    await _remove_plugins(dask_scheduler)
    return record, {address: worker for address, worker in answers if worker is not None}


async def _read(scheduler: Any, address: str) -> tuple[str, WorkerRecord | None]:
    asking = scheduler.broadcast(msg={"op": PROFILING_PLUGIN}, workers=[address], on_error="ignore")
    try:
        answers = await asyncio.wait_for(asking, _WORKER_TIMEOUT)
    except TimeoutError:
        return address, None
    values = answers.get(address)
    return address, WorkerRecord.from_dict(values) if values else None


async def _remove_plugins(scheduler: Any) -> None:
    scheduler.plugins.pop(PROFILING_PLUGIN, None)
    if PROFILING_PLUGIN in scheduler.worker_plugins:
        with suppress(TimeoutError):
            await asyncio.wait_for(scheduler.unregister_worker_plugin(None, PROFILING_PLUGIN), _WORKER_TIMEOUT)
