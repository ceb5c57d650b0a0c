"""Blocks with a border of their neighbors, of which only those that are needed get tasks.

The layer of `dask.array.overlap` makes the tasks of all blocks when one of them is asked for. For a slice of a large
array, as a test of a cell on few of its rows, that takes longer than all else.
"""

from __future__ import annotations

import operator
from itertools import product
from typing import TYPE_CHECKING, Any

from dask._task_spec import List, Task, TaskRef
from dask.array.core import concatenate_shaped
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.layers import ArrayOverlapLayer

if TYPE_CHECKING:
    from collections.abc import Collection

_BEHIND, _BEFORE = 0.9, -0.9  # of a block, in the keys of parts of its neighbors; as Dask names them


class _Overlap(ArrayOverlapLayer):
    """A layer of Dask's that knows its blocks without making their tasks."""

    has_legacy_tasks = False

    def __init__(self, layer: ArrayOverlapLayer) -> None:
        super().__init__(layer.name, layer.axes, layer.chunks, layer.numblocks, layer.token)
        self.annotations = layer.annotations

    def get_output_keys(self) -> set[Any]:
        """Override: the keys of the blocks."""
        return {(f"overlap-{self.token}", *block) for block in product(*map(range, self.numblocks))}

    def cull(self, keys: set[Any], all_hlg_keys: Collection[Any]) -> tuple[MaterializedLayer, dict[Any, set[Any]]]:  # noqa: ARG002 - Dask's
        """Override: the tasks of these blocks, and the keys of the blocks that they need."""
        tasks: dict[Any, Task] = {}
        for key in sorted(keys & self.get_output_keys()):
            sides = [self._parts(axis, number) for axis, number in enumerate(key[1:])]
            parts = [self._part(list(zip(*place, strict=True)), tasks) for place in product(*sides)]
            shape = tuple(map(len, sides))
            tasks[key] = Task(key, concatenate_shaped, List(*parts), shape)
        return MaterializedLayer(tasks, annotations=self.annotations), {
            key: set(task.dependencies) for key, task in tasks.items()
        }

    def _parts(self, axis: int, number: int) -> list[tuple[float, int, slice]]:
        """Of what a block consists along an axis: the place in a key, the number of a block, and what of it."""
        depth = self.axes.get(axis, 0)
        before, behind = depth if isinstance(depth, tuple) else (depth, depth)
        parts: list[tuple[float, int, slice]] = [(number, number, slice(None))]
        if number > 0 and before:
            parts.insert(0, (number + _BEFORE, number - 1, slice(-before, None)))
        if number < len(self.chunks[axis]) - 1 and behind:
            parts.append((number + _BEHIND, number + 1, slice(0, behind)))
        return parts

    def _part(self, place: list[tuple[Any, ...]], tasks: dict[Any, Task]) -> TaskRef:
        names, numbers, index = place
        block = (self.name, *numbers)
        if names == numbers:
            return TaskRef(block)
        key = (f"getitem-{self.token}", *names)
        tasks[key] = Task(key, operator.getitem, TaskRef(block), index)
        return TaskRef(key)


def with_few_overlaps(graph: HighLevelGraph) -> HighLevelGraph:
    """The same graph, whose overlaps are made for the blocks that are needed."""
    layers = {
        name: _Overlap(layer) if type(layer) is ArrayOverlapLayer else layer for name, layer in graph.layers.items()
    }
    return HighLevelGraph(layers, graph.dependencies)
