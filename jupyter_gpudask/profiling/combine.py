"""Combine what the scheduler and its workers recorded into the profile of a cell."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .measurements import CellProfile, Operation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .measurements import SchedulerRecord, WorkerRecord


def combine(
    duration: float, record: SchedulerRecord, workers: dict[str, WorkerRecord], *, on_gpus: bool
) -> CellProfile:
    """The profile of a cell, from what the scheduler and its workers recorded.

    Parameters
    ----------
    duration
        Of the cell.
    record
        Of the scheduler.
    workers
        By address; workers that were restarted or that did not respond are missing.
    on_gpus
        Whether the workers have GPUs.
    """
    operations: dict[str, Operation] = {}
    steps = _steps_by_task(workers.values())
    results = _results_by_task(workers.values())
    for task, whole in record.operations.items():
        _add_task(operations, whole, steps.pop(task, {}), results.get(task, task))
    for inner in steps.values():  # tasks of which none has finished
        for name, step in inner.items():
            operations.setdefault(name, Operation()).add(step)
    for address, worker in workers.items():
        if address in record.workers:
            inner_steps = [step for inner in worker.steps.values() for step in inner.values()]
            record.workers[address].gpu_seconds = sum(step.gpu_seconds for step in inner_steps)
    return CellProfile(
        duration=duration,
        active=min(record.active, duration),
        operations=operations,
        workers=tuple(record.workers.values()),
        on_gpus=on_gpus,
        transferred=sum(worker.transferred for worker in workers.values()),
        spilled=sum(worker.spilled for worker in workers.values()),
        unfinished=record.unfinished,
        silent=sum(use.seconds > 0 and address not in workers for address, use in record.workers.items()),
    )


def _steps_by_task(workers: Iterable[WorkerRecord]) -> dict[str, dict[str, Operation]]:
    found: dict[str, dict[str, Operation]] = {}
    for worker in workers:
        for task, inner in worker.steps.items():
            for name, step in inner.items():
                found.setdefault(task, {}).setdefault(name, Operation()).add(step)
    return found


def _results_by_task(workers: Iterable[WorkerRecord]) -> dict[str, str]:
    """The operation of the last step of most tasks, by the operation of the task."""
    counts: dict[str, Counter[str]] = {}
    for worker in workers:
        for task, inner in worker.results.items():
            counts.setdefault(task, Counter()).update(inner)
    return {task: counter.most_common(1)[0][0] for task, counter in counts.items()}


def _add_task(operations: dict[str, Operation], whole: Operation, steps: dict[str, Operation], result: str) -> None:
    """Divide the time of tasks among their steps, in proportion to what the steps took."""
    measured = sum(step.seconds for step in steps.values())
    if not measured:
        operations.setdefault(result, Operation()).add(whole)
        return
    factor = max(1.0, whole.seconds / measured)
    for name, step in steps.items():
        scaled = Operation(**(step.to_dict() | {"seconds": step.seconds * factor}))
        operations.setdefault(name, Operation()).add(scaled)
    rest = Operation(**(whole.to_dict() | {"seconds": 0.0, "is_source": False}))
    operations.setdefault(result, Operation()).add(rest)
