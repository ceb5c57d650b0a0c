"""The measurements of one cell, how they are put together, and advice. Times are in seconds and sizes in bytes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Any, Self

from dask.utils import key_split

from ..quantities import format_bytes

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


MIN_BLOCKS = 50
SMALL_BLOCK = 2**20
AUTO_BLOCK = 128 * 2**20
"""Bytes of a block with ``chunks="auto"``: Dask's default of ``array.chunk-size``."""
SHORT_TASK = 0.005
MANY_TASKS = 500
MOVE_SHARE = 0.2
FETCH_SHARE = 0.25
MIN_FETCHED = 10 * 2**20
SPILL_SHARE = 0.1
IDLE_SHARE = 0.5
IDLE_DIFFERENCE = 0.25
TASKS_PER_THREAD = 4
MIN_ACTIVE = 0.5
HOST_SECONDS = 1.0
HOST_SHARE = 0.2
KERNEL_SHARE = 0.5
MIN_CELL = 2.0


def small_blocks(cell: CellMeasurements) -> str | None:
    """Many small blocks are created, of which ``chunks="auto"`` would make a tenth or fewer."""
    found = [
        (name, operation)
        for name, operation in cell.operations.items()
        if operation.is_source and operation.tasks >= MIN_BLOCKS and 0 < (operation.block_size or 0) < SMALL_BLOCK
    ]
    name, operation = _largest(found, lambda operation: operation.tasks)
    if operation is None:
        return None
    size = operation.block_size or 0
    fewer = math.ceil(operation.tasks * size / AUTO_BLOCK)
    if fewer > operation.tasks / 10:
        return None
    larger = " On a GPU, blocks of 0.5 to 2 GB are better still." if cell.on_gpus else ""
    return (
        f'{name}: {operation.tasks:,} blocks of {format_bytes(round(size))}; chunks="auto" would make {fewer:,}, '
        f"with less work for Dask.{larger}"
    )


def short_tasks(cell: CellMeasurements) -> str | None:
    """Threads wait longer for tasks than these take."""
    if small_blocks(cell) is not None:
        return None
    name, operation = _largest(cell.operations.items(), lambda operation: operation.waiting)
    if operation is None or operation.tasks < MANY_TASKS:
        return None
    mean = operation.seconds / operation.tasks
    if mean > SHORT_TASK or operation.waiting < operation.seconds:
        return None
    return (
        f"{name}: {operation.tasks:,} tasks of {mean * 1000:.2g} ms each, for which the workers waited "
        f"{operation.waiting:.1f} s: larger chunks or partitions make fewer tasks."
    )


def moved_from_host(cell: CellMeasurements) -> str | None:
    """Much of the time goes into moving blocks to the GPUs."""
    name, part, _ = _shares(cell, "to_gpu_seconds")
    if part < MOVE_SHARE:
        return None
    share = _percent(part)
    if cell.moved:
        is_one = len(cell.moved) == 1 and cell.moved != ("all",)
        names = "the collections on the host" if cell.moved == ("all",) else " and ".join(cell.moved)
        return (
            f"{share} of the time in tasks went into moving {names} to the GPUs by --move: create "
            f"{'it' if is_one else 'them'} in the cell."
        )
    return (
        f"{share} of the time in tasks went into moving blocks from the host to the GPUs, most of it in {name}: create "
        "the collection in the cell, or keep it on the GPUs with persist()."
    )


def moved_to_host(cell: CellMeasurements) -> str | None:
    """Much of the time goes into moving blocks to the host."""
    name, part, _ = _shares(cell, "to_host_seconds")
    if part < MOVE_SHARE:
        return None
    return (
        f"{_percent(part)} of the time in tasks went into moving blocks from the GPUs to the host, "
        f"most of it in {name}: reduce the result before it is converted."
    )


def between_workers(cell: CellMeasurements) -> str | None:
    """Much of the time goes into fetching blocks from other workers."""
    name, _, part = _shares(cell, "between_workers")
    if cell.transferred < MIN_FETCHED or part < FETCH_SHARE:  # the former of short tasks
        return None
    return (
        f"{_percent(part)} of the time went into moving {format_bytes(cell.transferred)} between workers, "
        f"most of it for {name}: chunks along the axis of the operation avoid that."
    )


def spilling(cell: CellMeasurements) -> str | None:
    """Much of the time goes into spilling."""
    _, _, part = _shares(cell, "spilling")
    if part < SPILL_SHARE:
        return None
    return (
        f"{_percent(part)} of the time went into spilling, because results do not fit in memory: persist "
        "less, delete what is not needed, or use smaller chunks."
    )


def idle_workers(cell: CellMeasurements) -> str | None:
    """A worker idles while another one computes."""
    if len(cell.workers) < 2 or cell.active < MIN_ACTIVE:
        return None
    busy = [worker.busy(cell.active, on_gpus=cell.on_gpus) for worker in cell.workers]
    least = min(range(len(busy)), key=busy.__getitem__)
    if 1 - busy[least] < IDLE_SHARE or max(busy) - busy[least] < IDLE_DIFFERENCE:
        return None
    name, operation = _largest(cell.operations.items(), lambda operation: operation.seconds)
    workers = f"{len(cell.workers)} {'GPUs' if cell.on_gpus else 'workers'}"
    text = f"{cell.workers[least].name} idled {_percent(1 - busy[least])}"
    threads = sum(worker.threads for worker in cell.workers)
    if operation is not None and operation.tasks < TASKS_PER_THREAD * threads:
        blocks = f"{operation.tasks:,} block{'' if operation.tasks == 1 else 's'}"
        return f"{text}: {blocks} of {name} for {workers}. Use smaller chunks."
    return f"{text}, and another worker {_percent(1 - max(busy))}: the work is not spread evenly."


def on_host(cell: CellMeasurements) -> str | None:
    """An operation takes long on the host of GPU workers."""
    if not cell.on_gpus:
        return None
    name, operation = _largest(cell.operations.items(), lambda operation: operation.seconds - operation.gpu_seconds)
    if operation is None or operation.seconds < max(HOST_SECONDS, 0.5 * cell.seconds):
        return None
    if operation.gpu_seconds > HOST_SHARE * operation.seconds:
        return None
    return (
        f"{name} took {operation.seconds:.1f} s, of which the GPUs computed {operation.gpu_seconds:.1f} s: the rest is "
        "work of the CPU, such as reading files, compiling, and functions that do not use the GPU."
    )


def in_kernel(cell: CellMeasurements) -> str | None:
    """The cluster has nothing to do for most of the cell."""
    share = 1 - cell.active / cell.duration if cell.duration else 0.0
    if cell.duration < MIN_CELL or share < KERNEL_SHARE:
        return None
    return (
        f"The cluster had no tasks for {_percent(share)} of the cell: code in the kernel, such as loops, building "
        "collections and converting results, took that time."
    )


RULES: tuple[Callable[[CellMeasurements], str | None], ...] = (
    moved_from_host,
    moved_to_host,
    spilling,
    between_workers,
    small_blocks,
    short_tasks,
    idle_workers,
    on_host,
    in_kernel,
)


def advice(cell: CellMeasurements) -> list[str]:
    """The sentences of all rules that hold."""
    return [sentence for rule in RULES if (sentence := rule(cell)) is not None]


def _largest(
    operations: Iterable[tuple[str, Operation]], size: Callable[[Operation], float]
) -> tuple[str, Operation | None]:
    return max(operations, key=lambda item: size(item[1]), default=("", None))


def _shares(cell: CellMeasurements, name: str) -> tuple[str, float, float]:
    """Where most of a time was, and its parts of the time in tasks, and of that together with it."""
    most, _ = _largest(cell.operations.items(), lambda operation: getattr(operation, name))
    total = sum(getattr(each, name) for each in cell.operations.values())
    return most, total / cell.seconds if cell.seconds else 0.0, total / (total + cell.seconds) if total else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
