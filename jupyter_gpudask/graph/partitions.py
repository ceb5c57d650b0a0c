"""What follows from one partition of a dataframe as one task with it.

Dask 2026.7 fuses the expressions of a dataframe for ``persist()``, but not for ``compute()``: each operation on each
partition is a task then, which costs a scheduler and a worker some milliseconds. Tasks with several inputs, such as
merges, concatenations and steps of a reduction, remain tasks of their own, whose inputs are computed at the same time
and can be spilled. No task is copied: a function of the user runs once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dask._task_spec import DataNode, DependenciesMapping, GraphNode, Task, convert_legacy_graph
from dask.core import reverse_dict, toposort


def fuse_partitions(graph: Mapping[Any, GraphNode], keys: Collection[Any]) -> dict[Any, GraphNode]:
    """The same graph, in which a task that is needed by one other of the same partition is fused with that one.

    `keys`: of the results that are wanted, which remain.
    """
    graph = convert_legacy_graph(dict(graph))
    dependencies = DependenciesMapping(graph)
    order = toposort(
        graph, {key: [other for other in needed if other in graph] for key, needed in dependencies.items()}
    )
    sources: dict[Any, Any] = {}  # the task from which alone each follows
    for key in order:
        found = {sources.get(other, other) for other in dependencies[key] if isinstance(other, tuple)}
        computed = {source for source in found if not isinstance(graph.get(source), DataNode)}
        (sources[key],) = computed or found if len(computed or found) == 1 else (key,)
    dependents = reverse_dict(dependencies)
    ends: dict[Any, Any] = {}  # the task with which each is fused
    for key in reversed(order):
        users = {ends[user] for user in dependents[key]}
        end = users.pop() if len(users) == 1 and key not in keys else key
        is_fused = sources[end] == sources[key] and _is_of_partition(graph[key]) and _is_of_partition(graph[end])
        ends[key] = end if is_fused else key
    fused: dict[Any, list[GraphNode]] = {}
    for key in order:
        fused.setdefault(ends[key], []).append(graph[key])
    return {end: GraphNode.fuse(*tasks, key=end) if len(tasks) > 1 else tasks[0] for end, tasks in fused.items()}


def _is_of_partition(node: GraphNode) -> bool:
    """Whether it is a task of a partition, and not one of which a scheduler has to know, as of a P2P shuffle."""
    return type(node) is Task and isinstance(node.key, tuple) and not node.block_fusion
