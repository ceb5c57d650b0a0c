"""The unfinished tasks of the cell that began last, without those of earlier cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from distributed import Scheduler

UNFINISHED = frozenset({"waiting", "queued", "no-worker", "processing"})
"""Dask's states of unfinished tasks."""

_EXTENSION = "gpudask-cell-tasks"


class CellTasks:
    """Which tasks were unfinished when the cell began that runs now.

    A cell that begins on an idle cluster costs nothing, and no task is counted when its state changes.

    Parameters
    ----------
    scheduler
        The scheduler of the tasks.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler: Any = scheduler
        self._earlier: set[Any] = set()

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

    def unfinished(self) -> int:
        """The number of unfinished tasks that were submitted since the cell began."""
        self._earlier = {task for task in self._earlier if task.state in UNFINISHED}
        return max(0, count_unfinished_in(self._scheduler.task_groups.values()) - len(self._earlier))


def count_unfinished_in(groups: Iterable[Any]) -> int:
    """The number of unfinished tasks of these ``distributed.scheduler.TaskGroup``."""
    return sum(group.states[state] for group in groups for state in UNFINISHED)


def watch_cell_tasks(scheduler: Scheduler) -> CellTasks:
    """Give a scheduler its `CellTasks`."""
    tasks = scheduler.extensions[_EXTENSION] = CellTasks(scheduler)
    return tasks


def cell_tasks_of(scheduler: Any) -> CellTasks:
    """The `CellTasks` of a scheduler."""
    tasks: CellTasks = scheduler.extensions[_EXTENSION]
    return tasks
