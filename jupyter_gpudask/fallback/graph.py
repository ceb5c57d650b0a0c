"""Graphs whose tasks fall back to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._task_spec import _execute_subgraph, convert_legacy_graph

from ..graph.program import Program
from .tasks import TaskWrapper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask._task_spec import GraphNode


def with_fallback(graph: Mapping[Any, Any], *, cell: str = "", refuse: bool = False) -> dict[Any, GraphNode]:
    """The same graph, in which the functions of blocks and partitions fall back to the host.

    Of the tasks of `dask.delayed` and of futures, whose keys are strings, the user's functions stay as they are: they
    may have side effects. Those of installed packages, which libraries such as `dask.array.stats` and dask-image call
    there, fall back if they get nothing of the user. Dask may fuse the only block of an array with a task of
    `dask.delayed`; then the functions of the block fall back.

    Parameters
    ----------
    graph
        A task graph, as Dask has optimized it.
    cell, refuse
        As for `HostFallback`.
    """
    wrapper = TaskWrapper(cell, refuse=refuse)
    nodes = convert_legacy_graph(dict(graph))
    return {
        key: wrapper.node(node, key) if isinstance(key, tuple) or _has_blocks(node) else wrapper.delayed(node, key)
        for key, node in nodes.items()
    }


def _has_blocks(node: GraphNode) -> bool:
    """Whether tasks of blocks are fused in a task."""
    return any(isinstance(key, tuple) for key in _fused_tasks(node) or ())


def _fused_tasks(node: Any) -> Mapping[Any, GraphNode] | None:
    """The tasks that are fused in a task, by key; `None` if it is a single one."""
    function = getattr(node, "func", None)
    if function is _execute_subgraph:
        tasks: Mapping[Any, GraphNode] = node.args[0]
        return tasks
    return {step.key: step for step, _ in function.steps} if isinstance(function, Program) else None


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
