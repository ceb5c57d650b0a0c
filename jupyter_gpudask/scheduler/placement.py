"""The tasks of a graph that has been cut by workers begin on them; see `jupyter_gpudask.graph.workers`.

Dask keeps tasks without inputs in a queue, so that a worker does not compute more of them than it needs next, and gives
the first one to whichever worker is free. Here that worker gets the first one that is its own.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from distributed import SchedulerPlugin
from distributed.collections import HeapSet
from distributed.core import Status

from ..graph.workers import LOCATE, WORKER

NAME = "gpudask-placement"
"""The name of the plugin of a scheduler that places tasks."""


def install(scheduler: Any) -> None:
    """Let tasks be placed; to be called once for a scheduler."""
    _set_queue(scheduler, PlacedQueue(scheduler))
    scheduler.add_plugin(PlacementPlugin())
    scheduler.handlers[LOCATE] = lambda keys, number: locate(scheduler, keys, number)


def remove(scheduler: Any) -> None:
    """Undo `install`."""
    scheduler.plugins.pop(NAME, None)
    scheduler.handlers.pop(LOCATE, None)
    _set_queue(scheduler, HeapSet(key=_priority))


def _set_queue(scheduler: Any, queue: HeapSet[Any]) -> None:
    for task in scheduler.queued:
        queue.add(task)
    scheduler.queued = queue


_priority = attrgetter("priority")


class PlacedQueue(HeapSet[Any]):
    """The queue of a scheduler, whose first task depends on which worker gets the next one.

    A worker that has none of its own left takes one of another worker.
    """

    __slots__ = ("_parts", "_scheduler")

    def __init__(self, scheduler: Any) -> None:
        super().__init__(key=_priority)
        self._scheduler = scheduler
        # by address; tasks that may run anywhere by `None`. They may contain tasks that are no longer in the queue
        self._parts: defaultdict[str | None, HeapSet[Any]] = defaultdict(lambda: HeapSet(key=_priority))

    def add(self, value: Any) -> None:
        """Add a task."""
        super().add(value)
        self._parts[_worker_of(value, self._scheduler)].add(value)

    def clear(self) -> None:
        """Remove all tasks."""
        super().clear()
        self._parts.clear()

    def peek(self) -> Any:
        """The task that the scheduler shall give to the worker that it chooses next."""
        worker = self._scheduler.decide_worker_rootish_queuing_enabled()
        address = None if worker is None else worker.address
        first = [task for task in map(self._first_of, {address, None}) if task is not None]
        return min(first, key=_priority) if first else super().peek()

    def _first_of(self, address: str | None) -> Any:
        part = self._parts[address]
        while part:
            task = part.peek()
            if task in self:
                return task
            part.discard(task)
        return None


class PlacementPlugin(SchedulerPlugin):
    """Gives each idle worker the first of its tasks, before Dask gives it those of another one."""

    name = NAME

    def update_graph(self, scheduler: Any, *, annotations: Mapping[str, Any], stimulus_id: str, **_: Any) -> None:
        """Called by Dask for each graph, before its first task is sent to a worker."""
        own: defaultdict[str, list[Any]] = defaultdict(list)
        for key, (_worker, _number, alone) in annotations.get(WORKER, {}).items():
            task = scheduler.tasks[key]
            address = _worker_of(task, scheduler)
            if not address or task.state not in {"released", "waiting"} or _is_restricted(task):
                continue
            if task.dependencies or alone:
                _restrict(task, address)
            elif task.state == "released":
                own[address].append(task)
        begun = {}
        for address, roots in own.items():
            worker = scheduler.workers[address]
            most = max(1, scheduler.WORKER_SATURATION * worker.nthreads)
            free = len(roots) if math.isinf(most) else math.ceil(most) - len(worker.processing)
            for task in sorted(roots, key=_priority)[: max(0, free)]:
                _restrict(task, address)
                begun[task.key] = "waiting"
        scheduler.transitions(begun, stimulus_id)


def locate(scheduler: Any, keys: Sequence[Any], number: int) -> dict[Any, int]:
    """The workers of results, counted from 0 to `number` - 1, also of those that are still computed.

    A task that has no worker yet counts as being where most of what it needs is.
    """
    running = _running_workers(scheduler)
    positions = {address: index * number // len(running) for index, address in enumerate(running)}
    known: dict[Any, str | None] = {}
    stack = [scheduler.tasks[key] for key in keys if key in scheduler.tasks]
    while stack:
        task = stack[-1]
        missing = [other for other in task.dependencies if other.key not in known]
        address = _address_of(task, scheduler)
        if address is None and missing and task.key not in known:
            known[task.key] = None
            stack += missing
            continue
        if address is None:
            counts = Counter(known[other.key] for other in task.dependencies)
            address = counts.most_common(1)[0][0] if counts else None
        known[stack.pop().key] = address
    return {key: positions[address] for key in keys if (address := known.get(key)) in positions}


def _address_of(task: Any, scheduler: Any) -> str | None:
    worker = next(iter(task.who_has or ()), task.processing_on)
    return _worker_of(task, scheduler) if worker is None else worker.address


def _restrict(task: Any, address: str) -> None:
    """Let a task run on one worker; if the worker ends, another one takes it."""
    task.worker_restrictions = {address}
    task.loose_restrictions = True


def _is_restricted(task: Any) -> bool:
    """Whether the user has said where a task may run."""
    return bool(task.worker_restrictions or task.host_restrictions or task.resource_restrictions)


def _worker_of(task: Any, scheduler: Any) -> str | None:
    """The address of the worker on which a task shall run; `None` if that does not matter."""
    if WORKER not in (task.annotations or {}):
        return None
    running = _running_workers(scheduler)
    worker, number, _alone = task.annotations[WORKER]
    return running[worker * len(running) // number] if running else None


def _running_workers(scheduler: Any) -> list[str]:
    return sorted(state.address for state in scheduler.workers.values() if state.status == Status.running)
