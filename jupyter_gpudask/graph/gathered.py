"""Blocks of a result that is only gathered, of which one task makes several."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dask._task_spec import GraphNode, Task, TaskRef, _execute_subgraph
from dask.array.core import finalize, load_store_chunk
from dask.base import tokenize

from .search import Limits, Subtree
from .workers import position


def gathered(
    subtrees: dict[Any, Subtree],
    limits: Limits,
    wanted: Iterable[Any],
    dependents: Mapping[Any, Collection[Any]],
) -> dict[Any, GraphNode]:
    """Tasks that make several blocks, for results that are only gathered, and the tasks that gather them."""
    changed: dict[Any, GraphNode] = {}
    for key in wanted:
        task: Any = limits.graph[key]
        if getattr(task, "func", None) is not finalize:
            continue
        groups: list[tuple[list[Any], Subtree]] = []
        for block in sorted(task.dependencies & subtrees.keys() - wanted, key=position):
            if len(dependents[block]) > 1 or block in limits.unfused or not _is_computed(block, limits.graph[block]):
                continue
            blocks, group = groups[-1] if groups else ([], Subtree([], set(), math.inf))
            part = subtrees[block]
            larger = Subtree(group.members + part.members, group.inputs | part.inputs, group.leaves + part.leaves)
            if limits.allow(larger):
                groups[-1] = [*blocks, block], larger
            else:
                groups.append(([block], part))
        places: dict[Any, tuple[int, int | None]] = {}
        given: list[Any] = []
        for blocks, group in groups:
            if len(blocks) == 1:
                continue
            name = (f"{blocks[0][0]}-blocks", tokenize(repr(blocks)))  # another graph may need others of this array
            changed[name] = Task(name, _as_list, *map(TaskRef, blocks))
            limits.workers[name] = limits.workers[blocks[0]]
            places |= {block: (len(given), index) for index, block in enumerate(blocks)}
            given.append(name)
            for block in blocks:
                del subtrees[block]
            subtrees[name] = Subtree([name, *group.members], group.inputs, group.leaves)
        if given:
            others = sorted(task.dependencies - places.keys(), key=position)
            places |= {other: (len(given) + index, None) for index, other in enumerate(others)}
            changed[key] = Task(key, _finalize, _placed(task.args[0], places), *map(TaskRef, [*given, *others]))
    return changed


def _is_computed(key: Any, task: GraphNode) -> bool:
    """Whether it is a block, of an array that is not written: in one task, the cores would encode one after the other.

    Of a delayed object, the key is a string.
    """
    return isinstance(key, tuple) and not _writes(task)


def _writes(task: Any) -> bool:
    function: Any = getattr(task, "func", None)
    is_fused = function is _execute_subgraph
    return function is load_store_chunk or (is_fused and any(map(_writes, task.args[0].values())))


def _placed(blocks: Any, places: Mapping[Any, Any]) -> Any:
    """Nested lists of references to blocks, with the place of each block instead."""
    return places[blocks.key] if isinstance(blocks, TaskRef) else [_placed(part, places) for part in blocks.args]


def _as_list(*blocks: Any) -> list[Any]:
    return list(blocks)


def _finalize(places: Any, *given: Any) -> Any:
    """What Dask's `finalize` gives for nested lists of blocks.

    `places`: such lists with the place of each block among `given`: the number of an argument, and if this is a list of
    blocks, the number in it.
    """

    def blocks(part: Any) -> Any:
        if isinstance(part, list):
            return list(map(blocks, part))
        number, index = part
        return given[number] if index is None else given[number][index]

    return finalize(blocks(places))
