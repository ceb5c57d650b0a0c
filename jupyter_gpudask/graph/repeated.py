"""Blocks that are cheaper to create twice than to keep: random numbers and constants that several tasks need.

A block that several tasks need is a task of its own, and keeps them from being fused: in ``x + x.T`` each block of
``x``. A task costs the scheduler and a worker milliseconds; a block of random numbers takes less, and is the same each
time, because its seed is part of its task.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from dask._task_spec import Alias, DataNode, Task, _execute_subgraph
from dask.array.random import _apply_random
from dask.array.wrap import _broadcast_trick_inner
from dask.core import reverse_dict

from .slices import is_elementwise_function

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dask._task_spec import GraphNode

ELEMENTS_ON_GPU = 10**8
"""Random numbers of the largest block that a GPU draws again: about half a millisecond."""
ELEMENTS_ON_CPU = 2**16

_MOST_COPIES = 4
_CHEAP = frozenset({"random", "random_sample", "uniform", "normal", "standard_normal"})
_MARK = "_gpudask_draws_the_same_again"  # of `random_numbers.blocks.draw_block`


def with_copies(
    graph: Mapping[Any, GraphNode], wanted: Collection[Any], most_elements: int
) -> tuple[dict[Any, GraphNode], dict[Any, Any]]:
    """The same graph, in which each task that needs a cheap block has a copy of the task that creates it.

    Parameters
    ----------
    graph
        With the dependencies of tasks in it or outside.
    wanted
        Keys of tasks that remain.
    most_elements
        Random numbers of the largest block that is drawn more than once.

    Returns
    -------
    graph
        It still has the original tasks if nobody needs them.
    originals
        By the key of each copy, the key of its original.
    """
    changed = dict(graph)
    originals: dict[Any, Any] = {}
    dependents = reverse_dict({key: task.dependencies for key, task in graph.items()})
    for key, task in graph.items():
        users = dependents[key]
        if not 2 <= len(users) <= _MOST_COPIES or key in wanted or not isinstance(key, tuple):
            continue
        if any(isinstance(graph[user], Alias) or graph[user].block_fusion for user in users):
            continue
        if not _is_cheap(task, most_elements):
            continue
        del changed[key]
        for number, user in enumerate(sorted(users, key=str)):
            copy = (*key, f"copy-{number}")
            originals[copy] = key
            changed[copy] = task.substitute({}, key=copy)
            changed[user] = changed[user].substitute({key: copy})
    return changed, originals


def without_copies(
    graph: Mapping[Any, GraphNode], originals: Mapping[Any, Any], tasks: Mapping[Any, GraphNode]
) -> dict[Any, GraphNode]:
    """`graph` with the original `tasks` in the place of copies that have remained tasks of their own."""
    remaining = {copy: original for copy, original in originals.items() if copy in graph}
    if not remaining:
        return dict(graph)
    changed = {key: task.substitute(remaining) for key, task in graph.items() if key not in remaining}
    return changed | {original: tasks[original] for original in remaining.values()}


def _is_cheap(task: Any, most_elements: int) -> bool:
    """Whether a task creates a block, and does no more than element-wise arithmetic with it."""
    if not isinstance(task, Task) or task.dependencies:
        return False
    if task.func is _execute_subgraph:
        inner = task.args[0]
        return all(_is_step(node, most_elements) for node in inner.values())
    return _creates(task, most_elements)


def _is_step(node: Any, most_elements: int) -> bool:
    if isinstance(node, Alias | DataNode):
        return True
    if not isinstance(node, Task):
        return False
    if node.func is _execute_subgraph:
        return all(_is_step(other, most_elements) for other in node.args[0].values())
    return is_elementwise_function(node.func) or _creates(node, most_elements)


def _creates(task: Task, most_elements: int) -> bool:
    """Whether a task makes a constant block, or draws few enough random numbers with a seed of its own."""
    function = task.func
    if isinstance(function, partial):
        return function.func is _broadcast_trick_inner
    if function is _apply_random:
        library, name, _, size, *_ = task.args
        is_known = library in {None, np.random.RandomState}
    elif getattr(function, _MARK, False):
        name, size = task.args[1], task.kwargs.get("size")
        is_known = True
    else:
        return False
    size = size.value if isinstance(size, DataNode) else size
    return is_known and name in _CHEAP and isinstance(size, tuple) and math.prod(size) <= most_elements
