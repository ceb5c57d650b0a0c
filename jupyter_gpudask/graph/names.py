"""Remove the aliases in a graph, so that each task is directly connected to all tasks that need its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._task_spec import Alias

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dask._task_spec import GraphNode


def without_aliases(tasks: Mapping[Any, GraphNode], wanted: Collection[Any]) -> dict[Any, GraphNode]:
    """The same tasks without the second names of results that nobody else needs by that name.

    Parameters
    ----------
    tasks
        By key; they may need results of other tasks.
    wanted
        Names that remain.
    """
    others = {key: task.target for key, task in tasks.items() if isinstance(task, Alias) and key not in wanted}
    others = {key: target for key, target in others.items() if target in tasks}
    if not others:
        return dict(tasks)
    targets = {key: _last(target, others) for key, target in others.items()}
    return {key: with_names(task, targets) for key, task in tasks.items() if key not in targets}


def with_names(task: GraphNode, names: Mapping[Any, Any]) -> GraphNode:
    """The same task, which needs other results instead of those in `names`."""
    # Dask looks at all names for each task.
    needed = {key: names[key] for key in task.dependencies if key in names}
    return task.substitute(needed) if needed else task


def _last(key: Any, others: Mapping[Any, Any]) -> Any:
    while key in others:
        key = others[key]
    return key
