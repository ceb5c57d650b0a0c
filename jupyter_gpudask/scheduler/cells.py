"""The tasks of a cell: its beginning, its unfinished tasks, and their cancellation."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from distributed import Scheduler, SchedulerPlugin

from ..protocol.state import WorkState
from ..worker.graphs import blocks_of
from ..worker.interruption import INTERRUPT, MARK
from ..worker.memory import BEGIN_CELL
from ..worker.preload import METRICS
from .workers import WorkerFailuresPlugin

UNFINISHED = frozenset({"waiting", "queued", "no-worker", "processing"})
"""Dask's states of unfinished tasks."""

# With fewer blocks done, the time that is left is not estimated.
_MIN_DONE, _MIN_SHARE = 3, 0.02


OperationTotals: TypeAlias = "tuple[int, float, float, float]"
"""Blocks, and seconds of computing, of fetching from other workers, and of spilling."""

_NOTHING: OperationTotals = (0, 0.0, 0.0, 0.0)


def cell_operations(dask_scheduler: Any) -> tuple[list[str], dict[str, OperationTotals]]:
    """The workers, and what the operations of the last cell have cost, on a cluster that one kernel uses."""
    return list(dask_scheduler.workers), cell_tasks_of(dask_scheduler).operations()


class WorkCounter:
    """Counts the work that is submitted from now on."""

    def __init__(self) -> None:
        self._tasks = self._blocks = self._cancelled = 0
        self._began: float | None = None

    def add(self, tasks: int, blocks: int) -> None:
        """Count tasks that are submitted, and the blocks that they compute."""
        self._began = self._began or time.monotonic()
        self._tasks += tasks
        self._blocks += blocks

    def cancel(self, blocks: int) -> None:
        """Note that so many unfinished blocks are cancelled next, which do not count as done then."""
        self._cancelled = blocks

    def state(self, unfinished: int) -> WorkState:
        """What is done if so many blocks are not."""
        done = self._blocks - min(self._blocks, max(unfinished, self._cancelled))
        left = None
        if self._began is not None and done >= max(_MIN_DONE, _MIN_SHARE * self._blocks):
            left = (time.monotonic() - self._began) / done * (self._blocks - done)
        return WorkState(tasks=self._tasks, blocks=self._blocks, done=done, seconds_left=left)


class CountingPlugin(SchedulerPlugin):
    """Counts the work of all clients of a scheduler, or of one, whose id is `client` then."""

    client = ""

    def __init__(self) -> None:
        self._work = WorkCounter()

    def blocks_left(self, tasks: Collection[Any]) -> int:
        """How many blocks unfinished tasks have still to compute."""
        return len(tasks)

    def cancel(self, tasks: Collection[Any]) -> int:
        """Note that unfinished tasks are cancelled next; how many blocks they have still to compute."""
        blocks = self.blocks_left(tasks)
        self._work.cancel(blocks)
        return blocks


class CellTasks(CountingPlugin):
    """The tasks that were submitted since the last cell began, or since the cluster was last idle.

    A cell that begins on an idle cluster costs nothing, and no task is counted when its state changes.
    """

    name = "gpudask-cell-tasks"

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler: Any = scheduler
        self._earlier: set[Any] = set()
        self._fused: dict[Any, int] = {}  # the blocks of tasks that compute several, by key
        self._before: dict[str, OperationTotals] = {}  # by the prefix of the keys, when the cell began
        self._cell_blocks: Counter[str] = Counter()  # that the cell has submitted, by this prefix

    def begin_cell(self) -> None:
        """Note the unfinished tasks: those that run or are ready, and those that wait for them."""
        scheduler = self._scheduler
        processing = (task for worker in scheduler.workers.values() for task in worker.processing)
        found = {*scheduler.unrunnable, *scheduler.queued, *processing}
        following = list(found)
        while following:
            waiting = {task for task in following.pop().dependents if task.state in UNFINISHED} - found
            found |= waiting
            following += waiting
        self._earlier = found
        self._before = self._totals()
        self._cell_blocks.clear()
        self._begin()

    def _begin(self) -> None:
        self._work = WorkCounter()
        self._fused = {}

    def update_graph(self, scheduler: Scheduler, *, tasks: Collection[Any], **_: Any) -> None:
        """Count the tasks of a graph that are not computed already; called by Dask before they run."""
        if not self._count_unfinished():
            self._begin()
        found = [task for key in tasks if (task := scheduler.tasks.get(key)) and task.state == "released"]
        blocks = {task.key: blocks_of(task.run_spec) for task in found}
        for key, number in blocks.items():
            self._cell_blocks[scheduler.tasks[key].prefix.name] += number
        self._work.add(len(blocks), sum(blocks.values()))
        self._fused.update((key, number) for key, number in blocks.items() if number > 1)

    def operations(self) -> dict[str, OperationTotals]:
        """What the operations of the cell have cost, by the prefix of the keys of their tasks."""
        found = {}
        for name, after in self._totals().items():
            if blocks := self._cell_blocks[name]:
                _, compute, transfer, spill = self._before.get(name, _NOTHING)
                found[name] = (blocks, after[1] - compute, after[2] - transfer, after[3] - spill)
        return found

    def _totals(self) -> dict[str, OperationTotals]:
        return {
            name: (
                0,
                (durations := prefix.all_durations).get("compute", 0.0),
                durations.get("transfer", 0.0),
                durations.get("disk-read", 0.0) + durations.get("disk-write", 0.0),
            )
            for name, prefix in self._scheduler.task_prefixes.items()
        }

    def work(self) -> WorkState:
        """What is done of these tasks."""
        known = self._scheduler.tasks
        fused = [task for key in self._fused if (task := known.get(key)) and task.state in UNFINISHED]
        return self._work.state(self._count_unfinished() - len(fused) + self.blocks_left(fused))

    def blocks_left(self, tasks: Collection[Any]) -> int:
        """How many blocks unfinished tasks have still to compute, by the last heartbeats of the workers."""
        heartbeats = [(worker.metrics or {}).get(METRICS) or {} for worker in self._scheduler.workers.values()]
        done = {key: blocks for each in heartbeats for key, blocks in each.get("blocks", ())}
        return sum(max(1, self._fused.get(task.key, 1) - done.get(task.key, 0)) for task in tasks)

    def _count_unfinished(self) -> int:
        self._earlier = {task for task in self._earlier if task.state in UNFINISHED}
        return max(0, count_unfinished_in(self._scheduler.task_groups.values()) - len(self._earlier))


def count_unfinished_in(groups: Iterable[Any]) -> int:
    """The number of unfinished tasks of these ``distributed.scheduler.TaskGroup``."""
    return sum(group.states[state] for group in groups for state in UNFINISHED)


def cell_tasks_of(scheduler: Any) -> CellTasks:
    """The `CellTasks` of a scheduler."""
    tasks: CellTasks = scheduler.plugins[CellTasks.name]
    return tasks


def handle_beginnings(scheduler: Scheduler, *, pass_on: bool) -> None:
    """Register the handler of the message `BEGIN_CELL`.

    `pass_on`: whether the workers get the message, too; then all must have the `CellMetricsPlugin`.
    """
    tasks = CellTasks(scheduler)
    scheduler.add_plugin(tasks)

    def begin_cell(client: str) -> None:  # noqa: ARG001 - as Dask calls it
        tasks.begin_cell()
        sent, addresses = time.time(), list(scheduler.workers) if pass_on else []
        for address in addresses:
            scheduler.worker_send(address, {"op": BEGIN_CELL, "sent": sent, "workers": len(addresses)})

    scheduler.stream_handlers[BEGIN_CELL] = begin_cell


_STIMULUS = "gpudask-interrupt"
_RESPONSE_MARGIN = 0.2
"""Seconds that a worker has to respond, in addition to its time to interrupt tasks."""
UNRESPONSIVE_TIMEOUT = 8.0
"""Seconds after which a worker that does not respond is restarted."""

_KILL_TIME = 0.5
"""Seconds that a nanny has to end a process in which a task is stuck; it kills it after four fifths of them."""


@dataclass(frozen=True)
class StuckWorker:
    """A worker with cancelled tasks that did not stop in time.

    - `outcome`: ``restarted``: its nanny restarts it. ``ending``: it is restarted if its query of Polars does not end
      soon. ``busy``: it also runs tasks that are wanted, or has no nanny, or
      belongs to a cluster of others; the cancelled tasks end when they return to Python. ``silent``: it does not
      respond, and is restarted after `UNRESPONSIVE_TIMEOUT` seconds.
    - `recomputed`: number of its results that Dask recomputes when they are needed.
    - `lost`: keys that only this worker held and that cannot be recomputed: scattered data, and actors.
    """

    name: str
    tasks: tuple[str, ...]
    outcome: Literal["restarted", "ending", "busy", "silent"]
    recomputed: int = 0
    lost: tuple[str, ...] = ()


async def cancel_tasks(
    keys: Collection[Any], limit: float, dask_scheduler: Any, only_client: str | None = None
) -> list[StuckWorker]:
    """Release `keys` for all clients, and stop their tasks that are running.

    Unlike ``distributed.Client.cancel`` it accepts keys between which there are tasks that no client wants.

    - `limit`: seconds to wait for running tasks.
    - `only_client`: the id of a client of a cluster that it shares with others: `keys` are released for this client
      only, and no worker is restarted.

    Returns the workers with tasks that did not stop in time.
    """
    assigned = assigned_tasks(dask_scheduler)
    for client, wanted in _wanted_by(dask_scheduler, keys).items():
        if only_client in (None, client):
            dask_scheduler.client_releases_keys(keys=wanted, client=client, stimulus_id=_STIMULUS)
    return await stop_released_tasks(dask_scheduler, assigned, limit, restart=only_client is None)


def note_cancellation(keys: Collection[Any], client: str, dask_scheduler: Any) -> int:
    """Note that the release of these keys follows; the number of unfinished blocks that it cancels."""
    cancelled = set(keys)
    tasks = [task for key in cancelled if (task := dask_scheduler.tasks.get(key))]
    kept = [
        task
        for state in dask_scheduler.clients.values()
        for task in state.wants_what
        if state.client_key != client or task.key not in cancelled
    ]
    cancelled_tasks = _unfinished_below(tasks) - _unfinished_below(kept)
    plugins = [plugin for plugin in dask_scheduler.plugins.values() if isinstance(plugin, CountingPlugin)]
    counts = {plugin.client: plugin.cancel(cancelled_tasks) for plugin in plugins if plugin.client in ("", client)}
    return counts.get(client, counts.get("", 0))


def _unfinished_below(tasks: Iterable[Any]) -> set[Any]:
    """The unfinished tasks among `tasks` and all that they depend on."""
    found: set[Any] = set()
    open_tasks = [task for task in tasks if task.state in UNFINISHED]
    while open_tasks:
        task = open_tasks.pop()
        if task not in found:
            found.add(task)
            open_tasks += [below for below in task.dependencies if below.state in UNFINISHED]
    return found


def assigned_tasks(scheduler: Any) -> dict[str, set[Any]]:
    """The keys of the unfinished tasks that are assigned to each worker, by worker address."""
    return {address: {task.key for task in worker.processing} for address, worker in scheduler.workers.items()}


async def stop_released_tasks(
    scheduler: Any, assigned: Mapping[str, set[Any]], limit: float, *, restart: bool = True
) -> list[StuckWorker]:
    """Interrupt released tasks, and restart the workers whose tasks do not end in time.

    A worker that also runs tasks that are wanted is not restarted. Restarts may continue after this has returned.

    - `assigned`: the result of `assigned_tasks` before the release.
    - `limit`: seconds to wait.
    - `restart`: whether workers may be restarted.
    """
    workers = {address: worker for address in assigned if (worker := scheduler.workers.get(address))}
    # One that is being restarted would not respond until its process has ended.
    addresses = [address for address, worker in workers.items() if not _is_restarting(scheduler, worker)]
    marks = {address: _mark(scheduler, address) if restart else "" for address in addresses}
    answers = await asyncio.gather(*(_interrupt(scheduler, *each, limit) for each in marks.items()))
    stuck = [
        await _handle_response(scheduler, address, answer, assigned[address], restart=restart)
        for address, answer in zip(addresses, answers, strict=True)
    ]
    return [worker for worker in stuck if worker is not None]


def describe_ending(addresses: Collection[str], dask_scheduler: Any) -> list[StuckWorker]:
    """The workers at these addresses, in which a query of Polars may still end."""
    workers = filter(None, map(dask_scheduler.workers.get, addresses))
    return [StuckWorker(str(worker.name), ("of Polars",), "ending") for worker in workers]


async def restart_busy(addresses: Collection[str], dask_scheduler: Any) -> list[StuckWorker]:
    """Restart the workers in which a query of Polars has not stopped; restarts may continue after this has returned."""
    stuck = []
    for worker in filter(None, map(dask_scheduler.workers.get, addresses)):
        if worker.nanny and not _is_restarting(dask_scheduler, worker):
            recomputed, lost = _sole_results(worker)
            _restart(dask_scheduler, worker)
            stuck.append(StuckWorker(str(worker.name), ("of Polars",), "restarted", recomputed, lost))
    return stuck


def _wanted_by(scheduler: Any, keys: Collection[Any]) -> dict[str, list[Any]]:
    wanted: dict[str, list[Any]] = {}
    for key in keys:
        task = scheduler.tasks.get(key)
        for client in (task and task.who_wants) or ():
            wanted.setdefault(client.client_key, []).append(key)
    return wanted


def _mark(scheduler: Any, address: str) -> str:
    """Send a mark to a worker behind the messages that cancel its tasks; its name. All workers must have the plugin."""
    name = uuid4().hex
    scheduler.worker_send(address, {"op": MARK, "name": name})
    return name


async def _interrupt(scheduler: Any, address: str, mark: str, limit: float) -> dict[str, Any] | None:
    """The response of a worker's `InterruptionPlugin.interrupt`; `None` if it does not respond."""
    message = {"op": INTERRUPT, "limit": limit, "mark": mark}
    asking = scheduler.broadcast(msg=message, workers=[address], on_error="ignore")
    try:
        answers: dict[str, dict[str, Any]] = await asyncio.wait_for(asking, limit + _RESPONSE_MARGIN)
    except TimeoutError:
        return None
    return answers.get(address)


async def _handle_response(
    scheduler: Any, address: str, answer: dict[str, Any] | None, assigned: set[Any], *, restart: bool
) -> StuckWorker | None:
    worker = scheduler.workers.get(address)
    if worker is None:
        return None
    if answer is None:
        return _interrupt_later(scheduler, worker, assigned, restart=restart)
    tasks = tuple(answer["cancelled"])
    if not tasks:
        return None
    if answer["others"] or not worker.nanny or not restart:
        return StuckWorker(str(worker.name), tasks, "busy")
    recomputed, lost = _sole_results(worker)
    _restart(scheduler, worker)
    return StuckWorker(str(worker.name), tasks, "restarted", recomputed, lost)


def _interrupt_later(scheduler: Any, worker: Any, assigned: set[Any], *, restart: bool) -> StuckWorker | None:
    """Ask a worker again that does not respond: a task may hold the GIL, or the machine may just be slow.

    It is restarted if it stays unresponsive.
    """
    released = assigned - {task.key for task in worker.processing}
    # What it reported as executing in its last heartbeat can be a released task too: those do not count.
    is_wanted = any(task in worker.processing for task in worker.executing)
    may_restart = restart and bool(worker.nanny) and not is_wanted
    mark = _mark(scheduler, worker.address) if restart else ""
    later = scheduler._ongoing_background_tasks  # noqa: SLF001
    later.call_soon(_interrupt_again, scheduler, worker.address, mark, may_restart)
    tasks = tuple(sorted(map(str, released))[:1])
    if not tasks:
        return None
    if not may_restart:
        return StuckWorker(str(worker.name), tasks, "busy")
    return StuckWorker(str(worker.name), tasks, "silent", *_sole_results(worker))


async def _interrupt_again(scheduler: Any, address: str, mark: str, may_restart: bool) -> None:
    answer = await _interrupt(scheduler, address, mark, UNRESPONSIVE_TIMEOUT)
    worker = scheduler.workers.get(address)
    is_stuck = answer is None or (answer["cancelled"] and not answer["others"])
    if may_restart and worker is not None and is_stuck:
        _restart(scheduler, worker)


def _sole_results(worker: Any) -> tuple[int, tuple[str, ...]]:
    """The number of results that Dask would recompute without this worker, and the keys that would be lost."""
    alone = [task for task in worker.has_what if len(task.who_has) == 1]
    lost = tuple(str(task.key) for task in alone if task in worker.actors or not task.run_spec)
    return len(alone) - len(lost), lost


def _is_restarting(scheduler: Any, worker: Any) -> bool:
    failures = scheduler.plugins.get(WorkerFailuresPlugin.name)
    return failures is not None and failures.expects_exit(worker.pid)


def _restart(scheduler: Any, worker: Any) -> None:
    # Its tasks are released first, so that they do not count as tasks that kill workers. It is not removed from the
    # scheduler, because a worker that the scheduler does not know shuts down together with its nanny.
    failures = scheduler.plugins.get(WorkerFailuresPlugin.name)
    if failures is not None:  # a cluster that somebody else started has none
        failures.expect_exit(worker.pid)
    scheduler.handle_worker_status_change("paused", worker, _STIMULUS)
    scheduler.transitions({task.key: "released" for task in worker.processing}, _STIMULUS)
    scheduler._ongoing_background_tasks.call_soon(_kill, scheduler, worker.nanny)  # noqa: SLF001


async def _kill(scheduler: Any, nanny: str) -> None:
    with suppress(OSError, TimeoutError):  # the nanny starts another process when this one has ended
        await scheduler.rpc(nanny).kill(timeout=_KILL_TIME, reason=_STIMULUS)
