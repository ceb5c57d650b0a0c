"""Slices of blocks, of which `dask.array.rechunk` makes other blocks.

To make rows of columns, each of n new blocks takes a slice of each of n old ones. Dask makes n² tasks of that, or, if
that are many, blocks in between. On GPUs a new block takes its slices itself, so that there are n tasks, and data are
copied once. What a worker needs of a block on another one is sent in one piece.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from dask._task_spec import Task, TaskRef
from dask.array.chunk import getitem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from dask._task_spec import GraphNode

THRESHOLD = 32
"""Of `dask.array.rechunk`: how much larger a graph without blocks in between may be than one that copies all blocks."""

_BYTES = 16
_PART = 4


def has_room(elements: float, memory: int) -> bool:
    """Whether an array, rechunked at once, takes at most a quarter of the memory of all GPUs."""
    return elements * _BYTES * _PART <= memory


def fit_in_memory(slices: Iterable[GraphNode], memory: int) -> bool:
    """Whether the arrays of which these slices are can be rechunked at once."""
    return has_room(sum(_elements(bounds) if (bounds := _bounds(task)) else math.inf for task in slices), memory)


def is_slice(task: Any) -> bool:
    """Whether it takes a part of a block that has as many dimensions."""
    if not isinstance(task, Task) or task.func is not getitem or task.kwargs or len(task.args) != 2:
        return False
    source, index = task.args
    return isinstance(source, TaskRef) and isinstance(index, tuple) and all(isinstance(part, slice) for part in index)


def source_of(task: Any) -> Any:
    """The key of the block of which a slice is taken."""
    return task.args[0].key


def take_contiguous(block: Any, index: tuple[slice, ...]) -> Any:
    """``block[index]``, of CuPy contiguous in memory."""
    part = block[index]
    if type(part).__module__.startswith("cupy") and not part.flags.c_contiguous:
        return part.copy()
    return part


def with_joined_slices(
    graph: Mapping[Any, GraphNode], wanted: Collection[Any], workers: dict[Any, int]
) -> tuple[dict[Any, GraphNode], bool]:
    """The same graph, in which a worker gets what it needs of a block on another one as one part; whether it changed.

    The part is taken where the block is, and cut into the slices where they are needed. `workers` gets those of parts.
    """
    users: defaultdict[Any, list[Any]] = defaultdict(list)
    for key, task in graph.items():
        for other in task.dependencies:
            users[other].append(key)
    groups: defaultdict[tuple[Any, int], dict[Any, list[tuple[int, int]]]] = defaultdict(dict)
    for key, task in graph.items():
        bounds = _bounds(task) if is_slice(task) and len(users[key]) == 1 and key not in wanted else None
        if bounds is None or graph[users[key][0]].block_fusion:
            continue
        source, worker = source_of(task), workers[users[key][0]]
        if workers.get(source, worker) != worker:
            groups[source, worker][key] = bounds
    changed = dict(graph)
    for (source, worker), slices in groups.items():
        part = [
            (min(start for start, _ in sides), max(stop for _, stop in sides))
            for sides in zip(*slices.values(), strict=True)
        ]
        if len(slices) == 1 or _elements(part) > sum(map(_elements, slices.values())):
            continue
        # Its content follows from its name, as other graphs may have other parts of the same block.
        name = (
            *(source if isinstance(source, tuple) else (source,)),
            ",".join(f"{start}:{stop}" for start, stop in part),
        )
        workers[name] = workers[source]
        changed[name] = Task(name, take_contiguous, TaskRef(source), tuple(slice(*side) for side in part))
        for key, bounds in slices.items():
            index = tuple(
                slice(start - first, stop - first) for (start, stop), (first, _) in zip(bounds, part, strict=True)
            )
            workers[key] = worker
            changed[key] = Task(key, getitem, TaskRef(name), index)
    return changed, len(changed) > len(graph)


def _bounds(task: Any) -> list[tuple[int, int]] | None:
    """The first and the last index of each dimension of a slice; `None` if it skips any, or they are not known."""
    index = task.args[1]
    are_known = all(
        isinstance(part.start, int)
        and isinstance(part.stop, int)
        and 0 <= part.start <= part.stop
        and part.step in (None, 1)
        for part in index
    )
    return [(int(part.start), int(part.stop)) for part in index] if are_known else None


def _elements(bounds: Iterable[tuple[int, int]]) -> int:
    return math.prod(stop - start for start, stop in bounds)
