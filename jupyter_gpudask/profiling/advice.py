"""Advice on a cell, from its measurements. Each rule is a function that returns a sentence if it holds, or `None`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..quantities import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .measurements import CellMeasurements, Operation

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
    return (
        f'{name}: {operation.tasks:,} blocks of {format_bytes(round(size))}; chunks="auto" would make {fewer:,}, '
        "with less work for Dask."
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
    name, operation = _largest(cell.operations.items(), lambda operation: operation.to_gpu_seconds)
    total = sum(each.to_gpu_seconds for each in cell.operations.values())
    if operation is None or not cell.seconds or total / cell.seconds < MOVE_SHARE:
        return None
    share = _percent(total / cell.seconds)
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
    name, operation = _largest(cell.operations.items(), lambda operation: operation.to_host_seconds)
    total = sum(each.to_host_seconds for each in cell.operations.values())
    if operation is None or not cell.seconds or total / cell.seconds < MOVE_SHARE:
        return None
    return (
        f"{_percent(total / cell.seconds)} of the time in tasks went into moving blocks from the GPUs to the host, "
        f"most of it in {name}: reduce the result before it is converted."
    )


def between_workers(cell: CellMeasurements) -> str | None:
    """Much of the time goes into fetching blocks from other workers."""
    name, operation = _largest(cell.operations.items(), lambda operation: operation.between_workers)
    total = sum(each.between_workers for each in cell.operations.values())
    whole = total + cell.seconds
    if cell.transferred < MIN_FETCHED:  # short tasks
        return None
    if operation is None or not whole or total / whole < FETCH_SHARE:
        return None
    how = ", and --protocol ucx uses NVLink" if cell.on_gpus else ""
    return (
        f"{_percent(total / whole)} of the time went into moving {format_bytes(cell.transferred)} between workers, "
        f"most of it for {name}: chunks along the axis of the operation avoid that{how}."
    )


def spilling(cell: CellMeasurements) -> str | None:
    """Much of the time goes into spilling."""
    total = sum(each.spilling for each in cell.operations.values())
    whole = total + cell.seconds
    if not whole or total / whole < SPILL_SHARE:
        return None
    return (
        f"{_percent(total / whole)} of the time went into spilling, because results do not fit in memory: persist "
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


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
