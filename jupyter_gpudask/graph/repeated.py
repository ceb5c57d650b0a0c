"""Blocks that are cheaper to create again in each task that needs them than to keep."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import partial
from numbers import Number
from typing import Any

import numpy as np
from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef, _execute_subgraph
from dask.array.random import _apply_random
from dask.array.wrap import _broadcast_trick_inner

from .program import with_names
from .slices import is_elementwise_function

ELEMENTS_ON_GPU = 10**8
"""Numbers in the largest block that a GPU computes again: about half a millisecond for random ones."""

ELEMENTS_ON_CPU = 2**16
_COPIES_OF_LARGEST = 4
_MOST_COPIES = 32  # as many blocks of a megabyte take a GPU as long as a task takes Dask; a block has 27 neighbors
_ON_ONE_WORKER = 2**22  # numbers in all of more than four copies, where no block has to be sent
_MOST_STEPS = 4
_CHEAP = frozenset({"random", "random_sample", "uniform", "normal", "standard_normal"})
_CONSTANTS = (np.ones_like, np.zeros_like, np.full_like)
_MARK = "_gpudask_draws_the_same_again"  # of `random_numbers.blocks.draw_block`


def with_copies(
    graph: Mapping[Any, GraphNode],
    wanted: Collection[Any],
    dependents: Mapping[Any, Collection[Any]],
    most_elements: int,
    workers: dict[Any, int] | None = None,
    *,
    on_one: bool = False,
) -> tuple[dict[Any, GraphNode], dict[Any, Any]]:
    """The same graph, in which each task that needs a cheap block has a copy of the task that creates it.

    `graph`: with the dependencies of tasks in it or outside; without aliases, which would hide who needs a block.
    `dependents`: what needs each result.
    `most_elements`: numbers in the largest block that is computed more than once; a constant may be larger. `workers`:
    if it is given, one copy for each worker that needs a block is made instead, and gets its worker there. `on_one`:
    whether there is one worker only. Returns the graph, and by the key of each copy the key of its original.
    """
    originals: dict[Any, Any] = {}
    changed = dict(graph)
    for key, task in graph.items():
        users = dependents[key]
        if len(users) < 2 or key in wanted or not isinstance(key, tuple):
            continue
        if len(users) > _MOST_COPIES if workers is None else len({workers[user] for user in users}) < 2:
            continue
        if any(isinstance(graph[user], Alias) or graph[user].block_fusion for user in users):
            continue
        fewer = 1 if workers is not None else max(1, len(users) / _COPIES_OF_LARGEST)
        most = most_elements / fewer if fewer == 1 or not on_one else min(most_elements, _ON_ONE_WORKER) / len(users)
        if not is_cheap(task, int(most)):
            continue
        del changed[key]
        for number, user in enumerate(sorted(users, key=str)):
            copy = (*key, f"copy-{number}" if workers is None else f"worker-{workers[user]}")
            originals[copy] = key
            changed[copy] = task.substitute({}, key=copy)
            changed[user] = changed[user].substitute({key: copy})
            if workers is not None:
                workers[copy] = workers[user]
    return changed, originals


def without_copies(
    graph: Mapping[Any, GraphNode],
    originals: Mapping[Any, Any],
    tasks: Mapping[Any, GraphNode],
    workers: dict[Any, int],
) -> dict[Any, GraphNode]:
    """`graph` with the original `tasks` in the place of copies that have remained tasks of their own.

    One of them remains for each worker; the first one has the key of the original.
    """
    names: dict[Any, Any] = {}
    firsts: dict[Any, int] = {}
    for copy, original in originals.items():
        if copy in graph:
            worker = workers[copy]
            is_first = firsts.setdefault(original, worker) == worker
            name = names[copy] = original if is_first else (*original, f"worker-{worker}")
            workers[name] = worker
    if not names:
        return dict(graph)
    changed = {key: with_names(task, names) for key, task in graph.items() if key not in names}
    return changed | {name: tasks[originals[copy]].substitute({}, key=name) for copy, name in names.items()}


def created_shape(tasks: Mapping[Any, Any]) -> tuple[int, ...] | None:
    """The shape of the block that tasks, by key, together create from nothing; `None` if it is not known."""
    block = _Block()
    given = {key: task for key, task in tasks.items() if isinstance(task, DataNode)}
    if not all(block.add(task, given) for task in tasks.values()):
        return None
    return block.shape if block.sizes else None


def is_cheap(task: Any, most_elements: int) -> bool:
    """Whether a task creates a block, and does at most a few steps of element-wise arithmetic with it."""
    if not isinstance(task, Task) or task.dependencies:
        return False
    block = _Block()
    if not block.add(task, {}) or not block.sizes or block.steps > _MOST_STEPS:
        return False
    if not block.is_drawn and not block.steps:  # a constant is one number in memory, of whatever shape
        return True
    shape = block.shape
    return shape is not None and math.prod(shape) <= most_elements


class _Block:
    """A block that a task creates without inputs.

    - `sizes`: of the constants and random numbers that it creates.
    - `steps`: operations of element-wise arithmetic.
    - `is_drawn`: whether it draws random numbers.
    """

    def __init__(self) -> None:
        self.sizes: list[tuple[int, ...]] = []
        self.steps = 0
        self.is_drawn = False

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of the block; `None` if the sizes do not fit."""
        try:
            return np.broadcast_shapes(*self.sizes)
        except ValueError:
            return None

    def add(self, node: Any, given: Mapping[Any, Any]) -> bool:
        """Whether a node is known to be cheap; `given` are the values from outside of its graph, by name."""
        if isinstance(node, Alias):
            return True
        if isinstance(node, DataNode):
            return _is_small(node)
        if not isinstance(node, Task):
            return False
        if node.func is _execute_subgraph:
            inner, _, names, *values = node.args
            values = [given.get(value.key, value) if isinstance(value, TaskRef) else value for value in values]
            known = dict(zip(names, values, strict=True))
            are_small = all(isinstance(value, TaskRef) or _is_small(value) for value in values)
            return are_small and all(self.add(other, known) for other in inner.values())
        if is_elementwise_function(node.func):
            self.steps += 1
            return not node.kwargs and all(isinstance(arg, TaskRef) or _is_small(arg) for arg in node.args)
        return self._add_creation(node, given)

    def _add_creation(self, task: Task, given: Mapping[Any, Any]) -> bool:
        function = task.func
        if _is_constant(function) and len(task.args) == 1:
            size = task.args[0]
        elif function is _apply_random:
            library, name, _, size, *_ = task.args
            self.is_drawn = True
            if name not in _CHEAP or library not in {None, np.random.RandomState}:
                return False
        elif getattr(function, _MARK, False):
            name, size = task.args[1], task.kwargs.get("size")
            self.is_drawn = True
            if name not in _CHEAP:
                return False
        else:
            return False
        size = given.get(size.key) if isinstance(size, TaskRef) else size
        size = size.value if isinstance(size, DataNode) else size
        if not isinstance(size, tuple):
            return False
        self.sizes.append(size)
        return True


def _is_constant(function: Any) -> bool:
    """Whether it is the function of Dask's `ones`, `zeros` or `full`, which keeps one number of a block in memory."""
    creation: Any = function.func if isinstance(function, partial) else function
    is_known = getattr(creation, "func", None) is _broadcast_trick_inner.func
    return is_known and bool(creation.args) and creation.args[0] in _CONSTANTS


def _is_small(value: Any) -> bool:
    value = value.value if isinstance(value, DataNode) else value
    return isinstance(value, Number | np.generic | np.dtype | str | tuple | None)
