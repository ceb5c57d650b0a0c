"""Change the graphs inside the tasks that Dask has fused; the tasks of an array have one graph in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._task_spec import Task, _execute_subgraph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dask._task_spec import GraphNode

    Graph = Mapping[Any, GraphNode]


def with_subgraphs(tasks: Graph, change: Callable[[Graph, Any], Graph]) -> dict[Any, GraphNode]:
    """The same tasks, with `change` of the graph inside each fused task; it is called once for each such graph.

    Parameters
    ----------
    tasks
        By key. Graphs that they have in common remain common, and what is not changed remains the same object.
    change
        Called with a graph and with the key of its result.
    """
    changes: dict[tuple[int, Any], Graph] = {}
    changed = dict(tasks)
    for key, task in tasks.items():
        if not isinstance(task, Task) or task.func is not _execute_subgraph:
            continue
        inner, wanted, *rest = task.args
        known = changes.get((id(inner), wanted))
        if known is None:
            known = change(inner, wanted)
            if known.keys() == inner.keys() and all(known[name] is node for name, node in inner.items()):
                known = inner
            changes[id(inner), wanted] = known
        if known is not inner:
            changed[key] = Task(task.key, task.func, known, wanted, *rest, _data_producer=task.data_producer)
    return changed
