"""Graphs whose tasks fall back to the host."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from dask._task_spec import NestedContainer, Task, _execute_subgraph, convert_legacy_graph

from ..graph.program import Program
from .host_call import HostFallback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask._task_spec import GraphNode

_OF_FUSION = re.compile(r"(_\.\d+)+$")  # what Dask adds to the name of a collection inside a fused task


def with_fallback(graph: Mapping[Any, Any], *, refuse: bool = False) -> dict[Any, GraphNode]:
    """The same graph, in which the functions of blocks and partitions fall back to the host.

    Tasks of `dask.delayed` and of futures, whose keys are strings, stay as they are, also inside a fused task: their
    functions may have side effects.

    Parameters
    ----------
    graph
        A task graph, as Dask has optimized it.
    refuse
        As for `HostFallback`.
    """
    wrapper = _Wrapper(refuse=refuse)
    nodes = convert_legacy_graph(dict(graph))
    return {key: wrapper.outer_node(node, key) for key, node in nodes.items()}


class _Wrapper:
    """Wraps the functions of one graph; equal functions of a layer stay one object, which is pickled once."""

    def __init__(self, *, refuse: bool) -> None:
        self._refuse = refuse
        self._wrapped: dict[tuple[int, str], HostFallback] = {}

    def outer_node(self, node: Any, key: Any) -> Any:
        """A node of the graph. If its key is a string, it may contain blocks, as that of a result of one block does."""
        if isinstance(key, tuple):
            return self.node(node, key)
        return self._fused(node, blocks_only=True) if isinstance(node, Task) and _is_fused(node) else node

    def node(self, node: Any, key: Any) -> Any:
        """A node of a graph, or an argument of a task, which belongs to the task `key`."""
        # Plugins of the scheduler read the tasks of distributed, such as the barrier of a shuffle.
        is_of_scheduler = type(node).__module__.startswith("distributed")
        return self._task(node, key) if isinstance(node, Task) and not is_of_scheduler else node

    def _task(self, task: Any, key: Any) -> Any:
        if _is_fused(task):
            return self._fused(task)
        changed = _copied(task)
        if any(isinstance(arg, Task) for arg in task.args):
            changed.args = tuple(self.node(arg, key) for arg in task.args)
        if task.kwargs:
            changed.kwargs = {name: self.node(arg, key) for name, arg in task.kwargs.items()}
        if not isinstance(task, NestedContainer):
            name = str(key[0] if isinstance(key, tuple) else key)
            changed.func = self._function(task.func, _OF_FUSION.sub("", name))
        return changed

    def _fused(self, task: Any, *, blocks_only: bool = False) -> Any:
        changed = _copied(task)
        if isinstance(task.func, Program):
            steps = self._inner({step.key: step for step, _ in task.func.steps}, blocks_only=blocks_only)
            changed.func = Program([(steps[step.key], last) for step, last in task.func.steps], task.func.inputs)
        else:
            inner, *others = task.args
            changed.args = (self._inner(inner, blocks_only=blocks_only), *others)
        return changed

    def _inner(self, tasks: Mapping[Any, Any], *, blocks_only: bool) -> dict[Any, Any]:
        """The tasks inside a fused one. Where some are named by blocks, a string is the name of a delayed function."""
        blocks_only = blocks_only or any(isinstance(key, tuple) for key in tasks)
        return {
            key: task if blocks_only and isinstance(key, str) else self.node(task, key) for key, task in tasks.items()
        }

    def _function(self, function: Any, layer: str) -> HostFallback:
        place = id(function), layer
        if place not in self._wrapped:
            self._wrapped[place] = HostFallback(function, layer, refuse=self._refuse)
        return self._wrapped[place]


def _is_fused(task: Any) -> bool:
    return task.func is _execute_subgraph or isinstance(task.func, Program)


def _copied(task: Any) -> Any:
    """A copy of a task, without what it has cached; `copy.copy` takes ten times as long."""
    kind: Any = type(task)
    made = object.__new__(kind)
    for slot in _slots_of(kind):
        setattr(made, slot, getattr(task, slot, None))
    made._token = made._repr = None
    return made


@cache
def _slots_of(kind: type[Task]) -> tuple[str, ...]:
    return tuple(kind.get_all_slots())


class WithFallback:
    """An expression as a client submits it, whose graph falls back to the host.

    Parameters
    ----------
    expression
        The expression, optimized.
    refuse
        As for `HostFallback`.
    """

    def __init__(self, expression: Any, *, refuse: bool = False) -> None:
        self._expression = expression
        self._refuse = refuse

    def __dask_graph__(self) -> dict[Any, GraphNode]:
        return with_fallback(self._expression.__dask_graph__(), refuse=self._refuse)

    def __dask_annotations__(self) -> Any:
        return self._expression.__dask_annotations__()
