"""Parts of blocks, of which `dask.array.rechunk` and indexing by numbers make other blocks.

To make rows of columns, each of n new blocks takes a part of each of n old ones. Dask makes n² tasks of that, or, if
that are many, blocks in between. On GPUs a new block takes its parts itself, so that there are n tasks, and data are
copied once. What a worker needs of a block on another one is sent in one piece.
"""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from dask._task_spec import DataNode, GraphNode, Task, TaskRef, _execute_subgraph
from dask.array._shuffle import _getitem as take
from dask.array.chunk import getitem
from dask.array.core import concatenate_shaped
from dask.highlevelgraph import HighLevelGraph
from dask.tokenize import tokenize
from dask.utils import key_split

THRESHOLD = 32
"""Of `dask.array.rechunk`: how much larger a graph without blocks in between may be than one that copies all blocks."""

_SHARE = 4


def has_room(nbytes: float, memory: int) -> bool:
    """Whether all blocks of an array may be in use at once: it takes at most a quarter of the memory."""
    return nbytes * _SHARE <= memory


def largest_array(graph: HighLevelGraph) -> float:
    """Bytes of the largest array in a graph; not a number if one is not known."""
    sizes = [
        math.prod(known["shape"]) * known["dtype"].itemsize
        for layer in graph.layers.values()
        if (known := layer.collection_annotations) and "shape" in known and known.get("dtype") is not None
    ]
    return math.nan if not sizes or any(map(math.isnan, sizes)) else max(sizes)


def is_slice(task: Any) -> bool:
    """Whether it takes a part of a block that has as many dimensions."""
    return _is_slice(task, getitem)


def is_border(task: Any) -> bool:
    """Whether it takes what `map_overlap` needs of a neighboring block."""
    return _is_slice(task, operator.getitem)


def _is_slice(task: Any, function: Any) -> bool:
    if not isinstance(task, Task) or task.func is not function or task.kwargs or len(task.args) != 2:
        return False
    source, index = task.args
    return isinstance(source, TaskRef) and isinstance(index, tuple) and all(isinstance(part, slice) for part in index)


def is_part(task: Any) -> bool:
    """Whether it takes a slice of a block, or what is at some numbers."""
    return is_slice(task) or is_border(task) or (isinstance(task, Task) and task.func is take)


def source_of(part: Any) -> Any:
    """The key of the block of which a part is taken."""
    return part.args[0].key


def joins(task: Any) -> bool:
    """Whether it makes a block of the parts that it needs."""
    if not isinstance(task, Task):
        return False
    inner = task.args[0].values() if task.func is _execute_subgraph else ()
    return task.func is concatenate_shaped or any(map(joins, inner))


def as_view(part: Any) -> Task:
    """The same slice, which is not copied where it is small."""
    return Task(part.key, operator.getitem, *part.args)


def take_contiguous(block: Any, index: tuple[slice, ...]) -> Any:
    """``block[index]``, of CuPy contiguous in memory."""
    part = block[index]
    if type(part).__module__.startswith("cupy") and not part.flags.c_contiguous:
        return part.copy()
    return part


def with_joined_parts(
    graph: Mapping[Any, GraphNode], wanted: Collection[Any], workers: dict[Any, int]
) -> tuple[dict[Any, GraphNode], set[Any]]:
    """The same graph, in which a worker gets what it needs of a block on another one in one piece; the pieces' keys.

    The piece is taken where the block is, and cut into the parts where they are needed. `workers` gets those of pieces.
    """
    users: defaultdict[Any, list[Any]] = defaultdict(list)
    for key, task in graph.items():
        for other in task.dependencies:
            users[other].append(key)
    groups: defaultdict[tuple[Any, int, bool], list[Any]] = defaultdict(list)
    for key, task in graph.items():
        if not is_part(task) or key in wanted or len(users[key]) != 1 or graph[users[key][0]].block_fusion:
            continue
        source, worker = source_of(task), workers[users[key][0]]
        if workers.get(source, worker) != worker:
            groups[source, worker, is_slice(task)].append(key)
    changed, pieces = dict(graph), set()
    for (source, worker, are_slices), keys in groups.items():
        made = _joined_slices(graph, keys) if are_slices else _joined_takes(graph, keys)
        if made is None or len(keys) == 1:
            continue
        function, index, parts = made
        # Its content follows from its name, as other graphs may have other pieces of the same block. It is not in the
        # group of the block: Dask's scheduler takes a group for roots, or none of its tasks.
        layer, *place = source if isinstance(source, tuple) else (source,)
        name = (f"{key_split(keys[0])}-{tokenize(layer)}", *place, tokenize(index))
        workers[name] = workers[source]
        pieces.add(name)
        changed[name] = Task(name, function, TaskRef(source), index)
        for key, part in zip(keys, parts, strict=True):
            workers[key] = worker
            changed[key] = Task(key, getitem, TaskRef(name), part)
    return changed, pieces


def _joined_slices(graph: Mapping[Any, Any], keys: Sequence[Any]) -> Any:
    """What takes the piece, its index, and those of the parts in it; `None` if they are less than the piece."""
    slices = [graph[key].args[1] for key in keys]
    if not all(map(_is_plain, slices)):
        return None
    piece = [
        (min(each.start for each in sides), max(each.stop for each in sides)) for sides in zip(*slices, strict=True)
    ]
    if math.prod(stop - start for start, stop in piece) > sum(map(_elements, slices)):
        return None
    parts = [
        tuple(slice(each.start - start, each.stop - start) for each, (start, _) in zip(sides, piece, strict=True))
        for sides in slices
    ]
    return take_contiguous, tuple(slice(*side) for side in piece), parts


def _joined_takes(graph: Mapping[Any, Any], keys: Sequence[Any]) -> Any:
    indices = []
    for key in keys:
        node = graph.get(graph[key].args[1].key) if isinstance(graph[key].args[1], TaskRef) else None
        if not isinstance(node, DataNode):
            return None
        indices.append(node.value[1])
    axes = {tuple(axis for axis, part in enumerate(index) if isinstance(part, np.ndarray)) for index in indices}
    if len(axes) != 1 or len(axis := axes.pop()) != 1:
        return None
    numbers = [index[axis[0]] for index in indices]
    ends = np.cumsum([len(each) for each in numbers]).tolist()

    def along(part: Any) -> tuple[Any, ...]:
        return tuple(part if other == axis[0] else slice(None) for other in range(len(indices[0])))

    parts = [along(slice(end - len(each), end)) for each, end in zip(numbers, ends, strict=True)]
    return take, (1, along(np.concatenate(numbers))), parts


def _is_plain(index: tuple[slice, ...]) -> bool:
    """Whether the first and the last number of each slice are known, and none between is left out."""
    return all(
        isinstance(part.start, int)
        and isinstance(part.stop, int)
        and 0 <= part.start <= part.stop
        and part.step in (None, 1)
        for part in index
    )


def _elements(index: tuple[slice, ...]) -> int:
    return math.prod(part.stop - part.start for part in index)
