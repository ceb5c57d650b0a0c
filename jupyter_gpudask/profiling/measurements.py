"""The measurements of one cell, and how they are put together. Times are in seconds and sizes in bytes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from dask.utils import key_split

if TYPE_CHECKING:
    from collections.abc import Iterable

_PARTS_OF_REDUCTIONS = re.compile(r"(?:_chunk|_combine|_agg|-partial|-aggregate)+(?=-|$)")
_WORDS = {
    "_sqrt": "sqrt",
    "empty_like": "empty",  # `da.empty` creates its blocks by it
    "full_like": "full",
    "getitem": "indexing",
    "ones_like": "ones",
    "random_sample": "random",
    "zeros_like": "zeros",
}
_RESULT = "result"


@dataclass
class Operation:
    """The times, blocks and bytes of one operation, summed over all threads of all workers."""

    tasks: int = 0  # how often it ran; each time gives a block or a partition
    # sized, nbytes: the number of results whose size is known, and the sum of their sizes
    sized: int = 0
    nbytes: int = 0
    # time in tasks, by the clock of the host. Functions of CuPy and cuDF return before the GPU has finished
    seconds: float = 0.0
    # time between the first and the last instruction on the GPU's stream, by CUDA events. Of several short steps
    # between two events, each has a part of it, in proportion to its `seconds`
    gpu_seconds: float = 0.0
    # time in which a thread had nothing to run before its tasks, although the cluster had unfinished tasks
    waiting: float = 0.0
    # to_gpu_seconds, to_gpu_bytes, to_host_seconds, to_host_bytes: moves between host and device memory; the time is a
    # part of `seconds`
    to_gpu_seconds: float = 0.0
    to_gpu_bytes: int = 0
    to_host_seconds: float = 0.0
    to_host_bytes: int = 0
    between_workers: float = 0.0  # time to fetch results of other workers
    spilling: float = 0.0  # time to write results to slower memory and to read them again
    is_source: bool = False  # whether it needs no other block

    def add(self, other: Operation) -> None:
        """Add the sums of another one."""
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            setattr(self, each.name, mine or theirs if each.name == "is_source" else mine + theirs)

    @property
    def block_size(self) -> float | None:
        """The mean size of its results; `None` if unknown."""
        return self.nbytes / self.sized if self.sized else None


@dataclass
class WorkerUse:
    """How busy a worker was."""

    name: str  # its name in Dask
    threads: int = 1  # how many tasks it can run at a time
    # seconds, gpu_seconds: time in tasks, see `Operation`
    seconds: float = 0.0
    gpu_seconds: float = 0.0

    def busy(self, duration: float, *, on_gpus: bool) -> float:
        """The part of `duration` seconds in which it computed, from 0 to 1; a GPU worker's is that of its GPU."""
        seconds = self.gpu_seconds if on_gpus and self.gpu_seconds else self.seconds / self.threads
        return min(1.0, seconds / duration) if duration > 0 else 0.0


@dataclass
class SchedulerRecord:
    """The record of the scheduler: the times that workers report with each finished task."""

    operations: dict[str, Operation] = field(default_factory=dict)  # by the operation in the key of the task
    workers: dict[str, WorkerUse] = field(default_factory=dict)  # by address
    active: float = 0.0  # seconds in which there were unfinished tasks
    unfinished: int = 0  # number of tasks that are unfinished at the end


@dataclass
class WorkerRecord:
    """The record of a worker: the steps of the tasks that it ran; several steps may be fused into one task."""

    # by the operation of the task, and then by that of the step. The step that gives the result of the task has no
    # `tasks` and `nbytes`: the scheduler counts them
    steps: dict[str, dict[str, Operation]] = field(default_factory=dict)
    # for each operation of a task, how often a step of which operation was its last
    results: dict[str, dict[str, int]] = field(default_factory=dict)
    transferred: int = 0  # bytes that it fetched from other workers
    spilled: int = 0  # bytes that it wrote to disk

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`."""
        steps = {
            task: {name: Operation(**operation) for name, operation in inner.items()}
            for task, inner in values["steps"].items()
        }
        return cls(**(values | {"steps": steps}))


@dataclass
class CellMeasurements:
    """What was measured of one cell: its profile."""

    duration: float  # of the cell
    active: float  # the part of `duration` in which the cluster had unfinished tasks
    operations: dict[str, Operation]  # by name
    workers: tuple[WorkerUse, ...]  # in the order of the cluster
    on_gpus: bool = False  # whether the workers have GPUs
    # transferred, spilled: bytes moved between workers, and written to disk
    transferred: int = 0
    spilled: int = 0
    unfinished: int = 0  # number of tasks that were unfinished when the cell ended
    silent: int = 0  # number of workers that ran tasks and did not report their steps in time
    moved: tuple[str, ...] = ()  # the names after ``--move``

    @property
    def seconds(self) -> float:
        """Time in tasks, of all workers."""
        return sum(operation.seconds for operation in self.operations.values())


def operation_of(key: Any) -> str:
    """The operation of a task, from its key.

    The steps of a reduction (``sum``, ``sum-partial``, ``sum-aggregate``) are one operation. Tasks that put the blocks
    of a result together have the name ``result``.
    """
    while type(key) is tuple and key:  # without the number of the block: `key_split` keeps what it has split
        key = key[0]
    return _in_words(key_split(key))


@lru_cache(1000)
def _in_words(prefix: str) -> str:
    if prefix.startswith(("finalize", "hlgfinalize")):
        return _RESULT
    parts = [_WORDS.get(part, part) for part in _PARTS_OF_REDUCTIONS.sub("", prefix).split("-")]
    return "-".join(dict.fromkeys(parts))


def combine(
    duration: float, record: SchedulerRecord, workers: dict[str, WorkerRecord], *, on_gpus: bool
) -> CellMeasurements:
    """The measurements of a cell; workers that were restarted or that did not respond are missing in `workers`."""
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
    return CellMeasurements(
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
        scaled = Operation(**(asdict(step) | {"seconds": step.seconds * factor}))
        operations.setdefault(name, Operation()).add(scaled)
    rest = Operation(**(asdict(whole) | {"seconds": 0.0, "is_source": False}))
    operations.setdefault(result, Operation()).add(rest)
