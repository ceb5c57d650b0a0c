"""Graphs whose tasks fall back to the host."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from dask._task_spec import NestedContainer, Task, _execute_subgraph, convert_legacy_graph

from ..graph.program import Program
from .host_call import HostFallback

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dask._task_spec import GraphNode

_OF_FUSION = re.compile(r"(_\.\d+)+$")  # what Dask adds to the name of a collection inside a fused task


def with_fallback(graph: Mapping[Any, Any], *, cell: str = "", refuse: bool = False) -> dict[Any, GraphNode]:
    """The same graph, in which the functions of blocks and partitions fall back to the host.

    Tasks of `dask.delayed` and of futures, whose keys are strings, stay as they are: their functions may have side
    effects. Those of SciPy, which `dask.array.stats` calls, have none, and fall back. Dask may fuse the only block of
    an array with a task of `dask.delayed`; then the functions of the block fall back.

    Parameters
    ----------
    graph
        A task graph, as Dask has optimized it.
    cell, refuse
        As for `HostFallback`.
    """
    wrapper = _Wrapper(cell, refuse=refuse)
    nodes = convert_legacy_graph(dict(graph))
    return {
        key: wrapper.node(node, key) if isinstance(key, tuple) or _has_blocks(node) or _is_of_scipy(node) else node
        for key, node in nodes.items()
    }


def _has_blocks(node: GraphNode) -> bool:
    """Whether tasks of blocks are fused in a task."""
    return any(isinstance(key, tuple) for key in _fused_tasks(node) or ())


def _is_of_scipy(node: GraphNode) -> bool:
    """Whether a task calls a function of SciPy, as those of `dask.array.stats` do."""
    function = getattr(node, "func", None)
    return str(getattr(function, "__module__", "")).startswith("scipy.")


def _fused_tasks(node: Any) -> Mapping[Any, GraphNode] | None:
    """The tasks that are fused in a task, by key; `None` if it is a single one."""
    function = getattr(node, "func", None)
    if function is _execute_subgraph:
        tasks: Mapping[Any, GraphNode] = node.args[0]
        return tasks
    return {step.key: step for step, _ in function.steps} if isinstance(function, Program) else None


class _Wrapper:
    """Wraps the functions of one graph; equal functions of a layer, and what fused tasks share, stay one object."""

    def __init__(self, cell: str, *, refuse: bool) -> None:
        self._cell = cell
        self._refuse = refuse
        self._wrapped: dict[tuple[int, str], HostFallback] = {}
        self._fused: dict[int, Any] = {}

    def node(self, node: Any, key: Any) -> Any:
        """A node of a graph, or an argument of a task, which belongs to the task `key`."""
        # Plugins of the scheduler read the tasks of distributed, such as the barrier of a shuffle.
        is_of_scheduler = type(node).__module__.startswith("distributed")
        return self._task(node, key) if isinstance(node, Task) and not is_of_scheduler else node

    def _task(self, task: Any, key: Any) -> Any:
        changed = _copied(task)
        if isinstance(task.func, Program):
            changed.func = self._once(self._program, task.func)
            return changed
        if task.func is _execute_subgraph:
            inner, *others = task.args
            changed.args = (self._once(self._tasks, inner), *others)
            return changed
        if any(isinstance(arg, Task) for arg in task.args):
            changed.args = tuple(self.node(arg, key) for arg in task.args)
        if task.kwargs:
            changed.kwargs = {name: self.node(arg, key) for name, arg in task.kwargs.items()}
        if not isinstance(task, NestedContainer):
            changed.func = self._function(task.func, _layer_of(str(key[0] if isinstance(key, tuple) else key)))
        return changed

    def _once(self, change: Callable[[Any], Any], fused: Any) -> Any:
        """`change` of what fused tasks run; of what several of them have in common it is the same object."""
        if id(fused) not in self._fused:
            self._fused[id(fused)] = change(fused)
        return self._fused[id(fused)]

    def _program(self, program: Program) -> Program:
        tasks = self._tasks({step.key: step for step, _ in program.steps})
        return Program([(tasks[step.key], last) for step, last in program.steps], program.inputs)

    def _tasks(self, tasks: Mapping[Any, Any]) -> dict[Any, Any]:
        """The tasks inside a fused one. Where some are named by blocks, a string is the name of a delayed function."""
        has_blocks = any(isinstance(key, tuple) for key in tasks)
        return {
            key: task if has_blocks and isinstance(key, str) else self.node(task, key) for key, task in tasks.items()
        }

    def _function(self, function: Any, layer: str) -> HostFallback:
        place = id(function), layer
        if place not in self._wrapped:
            self._wrapped[place] = HostFallback(function, layer, cell=self._cell, refuse=self._refuse)
        return self._wrapped[place]


@lru_cache(maxsize=1024)
def _layer_of(name: str) -> str:
    """The name of a collection, from that of a key."""
    return _OF_FUSION.sub("", name)


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
    cell, refuse
        As for `HostFallback`.
    """

    def __init__(self, expression: Any, *, cell: str = "", refuse: bool = False) -> None:
        self._expression = expression
        self._cell = cell
        self._refuse = refuse

    def __dask_graph__(self) -> dict[Any, GraphNode]:
        return with_fallback(self._expression.__dask_graph__(), cell=self._cell, refuse=self._refuse)

    def __dask_annotations__(self) -> Any:
        return self._expression.__dask_annotations__()
