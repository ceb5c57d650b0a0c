"""Fuse each subtree of a reduction into one task, for fewer, larger tasks.

A task costs the scheduler and a worker some milliseconds, whatever it does. The leaves of a reduction whose results are
only combined in its next steps run one after the other in one task, depth first. A thread therefore holds the data of
one leaf at a time. The tree of the reduction stays the same, and so does each number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dask._task_spec import DependenciesMapping
from dask.core import reverse_dict

from .names import without_aliases
from .program import as_one_task, with_programs
from .repeated import with_copies, without_copies

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from dask._task_spec import GraphNode

_MOST_LEAVES = 64
_MOST_INPUTS = 16
_TASKS_PER_THREAD = 4


class ClusterSize(NamedTuple):
    """The size of the cluster, which limits the size of a task.

    Attributes
    ----------
    workers
        How many there are.
    threads
        Of all of them together; enough tasks remain to feed them.
    """

    workers: int = 1
    threads: int = 1


def fuse_subtrees(
    graph: Mapping[Any, GraphNode], keys: Collection[Any], size: ClusterSize, most_repeated: int = 0
) -> dict[Any, GraphNode]:
    """The same graph with subtrees fused; what several tasks need is still computed once, unless it is cheap.

    Parameters
    ----------
    graph
        Optimized by Dask: without tasks that nobody needs.
    keys
        Whose results are wanted; they remain tasks of their own.
    size
        Of the cluster that computes it.
    most_repeated
        Random numbers of the largest block that is created in each task that needs it; see `.repeated`.
    """
    wanted = frozenset(keys)
    given, graph = graph, without_aliases(graph, wanted)
    dependencies = DependenciesMapping(graph)
    order = list(_topological(graph, dependencies))
    leaves = sum(1 for key in order if not any(other in graph for other in dependencies[key]))
    most_leaves = min(_MOST_LEAVES, leaves // (_TASKS_PER_THREAD * max(1, size.threads)))
    if most_leaves < 2:
        return dict(given)
    # What is there already, or what others need too, would have to go to the one worker of a task.
    most_inputs = _MOST_INPUTS if size.workers == 1 else 1
    tasks = graph
    graph, originals = with_copies(graph, wanted, most_repeated)
    if originals:
        dependencies = DependenciesMapping(graph)
        order = list(_topological(graph, dependencies))
    subtrees = _find_subtrees(
        graph, order, dependencies, wanted=wanted, most_leaves=most_leaves, most_inputs=most_inputs
    )
    programs: dict[Any, Any] = {}
    fused = {
        key: graph[key]
        if len(members) == 1
        else as_one_task(key, with_programs({member: graph[member] for member in members}, programs))
        for key, members in subtrees.items()
    }
    return without_copies(fused, originals, tasks)


@dataclass(slots=True)
class _Subtree:
    """A task and the tasks that are fused into it.

    Attributes
    ----------
    members
        Their keys, that of the task itself first.
    inputs
        Keys of other tasks that they need.
    leaves
        How many of them need nothing within the subtree.
    """

    members: list[Any]
    inputs: set[Any]
    leaves: float


def _find_subtrees(
    graph: Mapping[Any, GraphNode],
    order: Iterable[Any],
    dependencies: Mapping[Any, Collection[Any]],
    *,
    wanted: frozenset[Any],
    most_leaves: int,
    most_inputs: int,
) -> dict[Any, list[Any]]:
    """The members of each subtree, by the key of its task. In `order` a task comes after all that it needs."""
    dependents = reverse_dict(dependencies)
    barriers = {key for key, task in graph.items() if task.block_fusion}
    # Each output of a P2P shuffle is on one of the workers, which the task learns when it runs: it asks to run there.
    outputs = {key for barrier in barriers for key in dependents[barrier]}
    unfused = barriers | outputs
    alone = unfused | wanted | {key for key in graph if len(dependents[key]) != 1}
    subtrees: dict[Any, _Subtree] = {}
    for key in order:
        needed = dependencies[key]
        inner = [] if key in unfused else [other for other in needed if other in graph and other not in alone]
        if not inner:
            few = len(needed) <= most_inputs
            subtrees[key] = _Subtree([key], set(needed) if few else set(), 1 if few else math.inf)
            continue
        parts = [subtrees[other] for other in inner]
        subtree = _Subtree(
            members=[key, *(member for part in parts for member in part.members)],
            inputs=set(needed).difference(inner).union(*(part.inputs for part in parts)),
            leaves=sum(part.leaves for part in parts),
        )
        if subtree.leaves > most_leaves or len(subtree.inputs) > most_inputs:
            subtree = _Subtree(members=[key], inputs=set(), leaves=math.inf)
        else:
            for other in inner:
                del subtrees[other]
        subtrees[key] = subtree
    return {key: subtree.members for key, subtree in subtrees.items()}


def _topological(graph: Mapping[Any, GraphNode], dependencies: Mapping[Any, Collection[Any]]) -> Iterator[Any]:
    """The keys, each after those that it depends on."""
    seen = set()
    for start in graph:
        stack = [(start, False)]
        while stack:
            key, is_ready = stack.pop()
            if is_ready:
                yield key
            elif key not in seen:
                seen.add(key)
                stack.append((key, True))
                stack += [(other, False) for other in dependencies[key] if other in graph and other not in seen]
