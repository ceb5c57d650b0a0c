"""Measure a cell: its steps in workers, the times of its tasks in the scheduler, both on behalf of the kernel."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from operator import call
from time import monotonic
from typing import Any

from dask._task_spec import GraphNode, Task, _execute_subgraph
from dask.sizeof import sizeof
from distributed import Client, SchedulerPlugin, Worker, WorkerPlugin
from distributed.metrics import context_meter
from distributed.metrics import time as wall_time
from distributed.protocol.pickle import dumps

from ..fallback.host_parts import host_task, host_threads
from ..graph.program import Program, as_one_task, evaluated
from ..inspection.results import TO_GPU, TO_HOST
from ..worker.graphs import OpaqueNode
from ..worker.host_threads import times_seceded
from ..worker.interruption import InterruptionPlugin
from .measurements import CellMeasurements, Operation, SchedulerRecord, WorkerRecord, WorkerUse, combine, operation_of

OnStep = Callable[[GraphNode, Mapping[Any, Any], Any], None]

PROFILING_PLUGIN = "gpudask-profile"
"""The name of the plugin and of the worker's operation that returns its record."""

_FLUSH_TIME = 1.0
_STRETCH = 0.001
"""Seconds between two CUDA events, if the steps of a task are short."""
_ARGUMENT = "__dask_blockwise__"
_GPU_MODULES = ("cupy", "cudf")

_POLL = 0.005
_SHORT = 0.0001
"""Seconds of a step; to measure the end of each shorter one would take a tenth of its time."""

_FIRST = 50
"""Number of steps of an operation after which it is known whether they are short."""


class WorkerProfilingPlugin(WorkerPlugin):
    """Records the steps of all tasks of the worker, until it is removed."""

    def __init__(self, *, on_gpus: bool) -> None:
        self._on_gpus = on_gpus
        self._worker: Worker

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the plugin is registered."""
        self._worker = worker
        self._lock = threading.Lock()
        self._record = WorkerRecord()
        self._began = time.time() + worker.scheduler_delay
        self._written = _bytes_written(worker)
        self._clock = GpuClock(self._add_gpu_time) if self._on_gpus else None
        worker.handlers[PROFILING_PLUGIN] = self.read
        interruption = worker.plugins.get(InterruptionPlugin.name)
        if isinstance(interruption, InterruptionPlugin):
            interruption.call = self.run

    def teardown(self, worker: Worker) -> None:
        """Called by Dask when the plugin is removed."""
        worker.handlers.pop(PROFILING_PLUGIN, None)
        interruption = worker.plugins.get(InterruptionPlugin.name)
        if isinstance(interruption, InterruptionPlugin):
            interruption.call = call

    async def read(self) -> dict[str, Any]:
        """The `WorkerRecord` so far, as plain values."""
        if self._clock is not None:
            await asyncio.to_thread(self._clock.finish, _FLUSH_TIME)
        fetched = [each for each in self._worker.transfer_incoming_log if each["stop"] >= self._began]
        with self._lock:
            self._record.transferred = sum(each["total"] for each in fetched)
            self._record.spilled = _bytes_written(self._worker) - self._written
            return asdict(self._record)  # Dask's connections accept plain values

    def run(self, original: Callable[..., Any], task: Any, *args: Any, **kwargs: Any) -> Any:
        """As ``original(task, ...)``, which calls the task; here step by step."""
        run = _TaskSteps(task, self._clock)
        try:
            with context_meter.add_callback(run.on_metric):
                return original(run, *args, **kwargs)
        finally:
            run.end()
            with self._lock:
                _add_steps(self._record, run)

    def _add_gpu_time(self, task: str, step: str, seconds: float) -> None:
        with self._lock:
            self._record.steps.setdefault(task, {}).setdefault(step, Operation()).gpu_seconds += seconds


class _TaskSteps:
    """One run of a task, with the measurements of its steps."""

    def __init__(self, task: Any, clock: GpuClock | None) -> None:
        self.name = operation_of(task.key)
        self.steps: dict[str, Operation] = {}
        self.result: str | None = None
        self._task, self._clock = task, clock
        self._newest: tuple[str, Operation, int | None] | None = None
        self._count = 0
        self._events: list[Any] = []
        self._stretches: list[dict[str, float]] = []  # what ran between two events
        self._since_event: dict[str, float] = {}
        self._last_event = 0.0
        self._shortest = _STRETCH if clock is not None and clock.has_short_steps(self.name) else 0.0
        self._last = 0.0
        self._seceded = 0  # how often, at the last event
        self._moves: Operation | None = None  # of the step that runs

    def __call__(self, values: Mapping[Any, Any]) -> Any:
        if self._clock is not None:
            self._events.append(self._clock.record())
        self._last = self._last_event = time.perf_counter()
        self._seceded = times_seceded()
        result = run_steps(self._task, values, self._on_step)
        if self._newest is not None:  # the scheduler knows the result of the task
            self.result, operation, size = self._newest
            operation.tasks -= 1
            operation.sized -= size is not None
            operation.nbytes -= size or 0
        return result

    def _on_step(self, step: Any, values: Mapping[Any, Any], result: Any) -> None:
        name = operation_of(step.key)
        operation = self.steps.get(name)
        if operation is None:
            operation = self.steps[name] = Operation(is_source=_is_source(step, values))
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        size = getattr(result, "nbytes", None)
        size = size if isinstance(size, int) else None
        operation.tasks += 1
        operation.seconds += seconds
        if size is not None:
            operation.sized += 1
            operation.nbytes += size
        self._newest = name, operation, size
        self._count += 1
        if self._clock is not None:
            self._since_event[name] = self._since_event.get(name, 0.0) + seconds
            if now - self._last_event >= self._shortest:
                self._add_event(self._clock, now)
            moves, self._moves = self._moves or _move_of(step, values, result, seconds), None
            if moves is not None:
                operation.add(moves)

    def _add_event(self, clock: GpuClock, now: float) -> None:
        self._events.append(clock.record())
        seceded = times_seceded()
        # While it had seceded, the GPU has computed for other tasks.
        self._stretches.append(self._since_event if seceded == self._seceded else {})
        self._seceded = seceded
        self._since_event = {}
        self._last_event = now

    def on_metric(self, label: Any, value: float, unit: str) -> None:
        """Count a move that the function of the step has reported; called by Dask's `context_meter`."""
        if label not in (TO_GPU, TO_HOST):
            return
        moves = self._moves = self._moves or Operation()
        field = f"{'to_gpu' if label == TO_GPU else 'to_host'}_{unit}"  # in seconds or bytes
        setattr(moves, field, getattr(moves, field) + value)

    def end(self) -> None:
        """Count the time of a step that was not finished."""
        if self.result is None and self._last:
            self.steps.setdefault(self.name, Operation()).seconds += time.perf_counter() - self._last
        if self._clock is not None and self._count:
            if self._since_event:
                self._add_event(self._clock, self._last)
            self._clock.measure(self.name, self._count, self._stretches, self._events)


def _add_steps(record: WorkerRecord, run: _TaskSteps) -> None:
    known = record.steps.setdefault(run.name, {})
    for name, operation in run.steps.items():
        known.setdefault(name, Operation()).add(operation)
    if run.result is not None:
        counts = record.results.setdefault(run.name, {})
        counts[run.result] = counts.get(run.result, 0) + 1


def _is_source(step: Any, values: Mapping[Any, Any]) -> bool:
    """Whether a step needs no block; Dask's blockwise operations have arguments such as shapes as dependencies."""
    return all(str(key).startswith(_ARGUMENT) and not hasattr(values.get(key), "shape") for key in step.dependencies)


def _move_of(step: Any, values: Mapping[Any, Any], result: Any, seconds: float) -> Operation | None:
    """What a step moves whose one block is on the host and whose result is on the GPU, or the other way round."""
    if len(step.dependencies) != 1:
        return None
    (needed,) = step.dependencies
    before = values.get(needed)
    if type(before) is type(result):
        return None
    after = _is_on_gpu(result)
    if before is None or _is_on_gpu(before) == after or not hasattr(before, "ndim") or not hasattr(result, "ndim"):
        return None
    if after:
        return Operation(to_gpu_seconds=seconds, to_gpu_bytes=sizeof(result))
    return Operation(to_host_seconds=seconds, to_host_bytes=sizeof(result))


def _is_on_gpu(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _GPU_MODULES


def _bytes_written(worker: Any) -> int:
    """Bytes that Dask has written to disk since the worker started; dask-cuda does not count them."""
    metrics: Mapping[Any, float] = getattr(worker.data, "cumulative_metrics", {})
    return int(metrics.get(("disk-write", "bytes"), 0))


def run_steps(task: GraphNode, values: Mapping[Any, Any], on_step: OnStep) -> Any:
    """The result of ``task(values)``, by the same functions with the same arguments.

    `on_step`: called after each step, with its task, the results that it had, and its result.
    """
    if isinstance(task, OpaqueNode):
        opened: GraphNode = task.unpickle()
        with host_task(opened, values, host_threads()):
            return run_steps(opened, values, on_step)
    if type(task) is not Task:  # data, or another name for a result
        return task(values)
    function, arguments = task.func, task.args
    if isinstance(function, Program):
        return _run_program(function, evaluated(arguments, values), on_step)
    if function is _execute_subgraph and arguments[1] in arguments[0]:
        inner, key, names, *given = arguments
        program: Any = as_one_task(key, inner).func
        needed = dict(zip(names, evaluated(given, values), strict=True))
        return _run_program(program, [needed[name] for name in program.inputs], on_step)
    options = dict(zip(task.kwargs, evaluated(task.kwargs.values(), values), strict=True)) if task.kwargs else {}
    result = function(*evaluated(arguments, values), **options)
    on_step(task, values, result)
    return result


def _run_program(program: Program, inputs: Sequence[Any], on_step: OnStep) -> Any:
    values = dict(zip(program.inputs, inputs, strict=True))
    return program.run(values, lambda step, results: run_steps(step, results, on_step))


class GpuClock:
    """Measures the steps of tasks on the GPU of this process, without waiting for it, and calls `add` with them."""

    def __init__(self, add: Callable[[str, str, float], None]) -> None:
        self.add = add
        self._draining = threading.Lock()
        self._unused: deque[Any] = deque()
        self._pending: deque[tuple[str, int, Sequence[Mapping[str, float]], list[Any]]] = deque()
        self._totals: dict[str, tuple[float, int]] = {}

    def record(self) -> Any:
        """An event that the GPU reaches after what this thread has submitted; `None` without CuPy."""
        cuda: Any = getattr(sys.modules.get("cupy"), "cuda", None)
        if not hasattr(cuda, "get_elapsed_time"):
            return None
        try:
            event = self._unused.pop()
        except IndexError:
            event = cuda.Event()
        event.record()
        return event

    def has_short_steps(self, task: str) -> bool:
        """Whether the steps of tasks of that name have been so short that events between all of them cost much."""
        seconds, count = self._totals.get(task, (0.0, 0))
        return count >= _FIRST and seconds < _SHORT * count

    def measure(self, task: str, count: int, stretches: Sequence[Mapping[str, float]], events: list[Any]) -> None:
        """Measure the steps of a task between `events`; later, when the GPU has reached them.

        `stretches`: for each two neighboring events, the seconds of the host in the steps between them, by the name of
        the step. Where they have several names, the time on the GPU is divided in proportion.
        """
        if all(event is not None for event in events):
            self._pending.append((task, count, stretches, events))
        self._drain()

    def finish(self, limit: float) -> None:
        """Wait at most `limit` seconds for the GPU."""
        end = time.monotonic() + limit
        while self._drain() and time.monotonic() < end:
            time.sleep(_POLL)

    def _drain(self) -> bool:
        """Add the times of what the GPU has done; returns whether there may be more."""
        if not self._draining.acquire(blocking=False):  # another thread does it
            return True
        try:
            while self._pending and self._pending[0][-1][-1].done:
                task, count, stretches, events = self._pending.popleft()
                on_gpu = _seconds_of_steps(stretches, events)
                for step, seconds in on_gpu.items():
                    self.add(task, step, seconds)
                before, known = self._totals.get(task, (0.0, 0))
                self._totals[task] = before + sum(on_gpu.values()), known + count
                self._unused.extend(events)
            return bool(self._pending)
        finally:
            self._draining.release()


def _seconds_of_steps(stretches: Sequence[Mapping[str, float]], events: Sequence[Any]) -> dict[str, float]:
    on_gpu: dict[str, float] = {}
    elapsed = sys.modules["cupy"].cuda.get_elapsed_time
    for number, on_host in enumerate(stretches):
        seconds = elapsed(events[number], events[number + 1]) / 1000
        whole = sum(on_host.values())
        for step, part in on_host.items():
            share = part / whole if whole else 1 / len(on_host)
            on_gpu[step] = on_gpu.get(step, 0.0) + seconds * share
    return on_gpu


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
        self._active_since = wall_time()
        self._last_stop: dict[tuple[str, int], float] = {}

    def transition(self, key: Any, start: str, finish: str, *_: Any, **details: Any) -> None:
        """Record a transition; called by Dask for each."""
        if finish in _UNFINISHED:
            if not self._unfinished:
                self._active_since = wall_time()
            self._unfinished.add(key)
        elif key in self._unfinished:
            self._unfinished.discard(key)
            if not self._unfinished:
                self._record.active += wall_time() - self._active_since
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
                operation.waiting += max(0.0, each["start"] - self._free_since(worker, thread, use) - fetching)
                self._last_stop[worker, thread] = each["stop"]

    def _free_since(self, worker: str, thread: int, use: WorkerUse) -> float:
        if use.threads == 1:  # whichever thread has its place
            stops = [stop for (known, _), stop in self._last_stop.items() if known == worker]
            return max([*stops, self._active_since])
        return max(self._last_stop.get((worker, thread), 0.0), self._active_since)

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Remove the plugins if the kernel is gone; called by Dask."""
        if client == self._client:
            scheduler._ongoing_background_tasks.call_soon(_remove_plugins, scheduler)  # noqa: SLF001

    def record(self) -> SchedulerRecord:
        """What was recorded so far."""
        if self._unfinished:
            self._record.active += wall_time() - self._active_since
            self._active_since = wall_time()
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
