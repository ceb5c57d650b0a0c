"""Fewer, larger tasks: each subtree of a reduction as one task.

A task costs the scheduler and a worker some milliseconds, whatever it does. The leaves of a reduction whose results are
only combined in its next steps run one after the other in one task, depth first. A thread therefore holds the data of
one leaf at a time. The tree of the reduction stays the same, and so does each number.

Blocks of a result that is only gathered are made by several in one task, too, if all of them have room.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dask._task_spec import Alias, DataNode, GraphNode
from dask.core import reverse_dict

from .gathered import gathered
from .program import as_one_task, depth_first, with_names, with_programs, without_aliases
from .rechunk import as_view, has_room, is_part, is_slice, joins, source_of, with_joined_parts
from .repeated import is_cheap, with_copies, without_copies
from .search import MOST_INPUTS, ROUNDING, Limits, find_subtrees, most_leaves
from .workers import choose_workers, locate_others, one_worker_for, position

_MANY_PIECES = 4
_TASKS_PER_THREAD = 4

SMALL = 2**28
"""Bytes of the largest array of a graph for which a GPU takes a few milliseconds at most."""


class ClusterSize(NamedTuple):
    """The size of the cluster, which limits the size of a task."""

    workers: int = 1  # how many there are
    threads: int = 1  # of all of them together; enough tasks remain to feed them
    memory: int = 0  # bytes of all their GPUs together; 0 if it is not known


_HOST_PARTS = 8
"""How many times as many tasks remain where some may run on the host."""


def fuse_subtrees(
    graph: Mapping[Any, GraphNode],
    keys: Collection[Any],
    size: ClusterSize,
    most_repeated: int = 0,
    largest: float = math.nan,
    *,
    on_host: Collection[Any] = frozenset(),
) -> tuple[dict[Any, GraphNode], dict[Any, int], bool]:
    """The same graph with subtrees fused; what several tasks need is still computed once, unless it is cheap.

    `most_repeated`: random numbers of the largest block that is created in each task that needs it; see `repeated`.
    `largest`: bytes of the largest array. `on_host`: the keys of tasks that may run on the host. Meanwhile a worker
    runs other tasks, see `worker.host_threads`; so there must be enough of them.

    Returns also the worker of each task without inputs, if there are several workers, and whether a small graph runs on
    one of them alone; then the worker of each task. Only what runs on the same worker is fused.
    """
    wanted = frozenset(keys)
    first = sorted(wanted, key=position)
    given, graph = graph, without_aliases(graph, wanted)
    others = locate_others(graph, size.workers)
    dependencies, dependents = _related(graph)
    order = depth_first([*first, *graph], graph)

    def on_one(
        needed: Mapping[Any, Collection[Any]], workers: Mapping[Any, int]
    ) -> tuple[dict[Any, GraphNode], dict[Any, int], bool] | None:
        """What is returned for a small graph that several workers do not compute faster; else `None`."""
        if not size.memory or not largest <= SMALL or (alone := one_worker_for(needed, workers, others)) is None:
            return None
        if on_host:  # what a function of the user takes is not known
            return None
        one = ClusterSize(1, size.threads // size.workers, size.memory // size.workers)
        fused, *_ = fuse_subtrees(given, keys, one, most_repeated, largest)
        return fused, dict.fromkeys(fused, alone), True

    single = {key for key in order if len(dependents[key]) == 1}
    single |= _of_one_task(dependents, order, single) - wanted
    leaves = {key for key in single if single.isdisjoint(dependencies[key])}
    enough_on_gpus = 2 * _TASKS_PER_THREAD * max(1, size.threads)
    enough = enough_on_gpus * (_HOST_PARTS if on_host else 1)
    tasks = graph
    graph, originals = (
        with_copies(graph, wanted, dependents, most_repeated, on_one=size.workers == 1)
        if len(leaves) >= enough
        else (graph, {})
    )
    if originals:
        copied = set(originals.values())
        leaves = copied.union(key for key in leaves if copied.isdisjoint(dependencies[key]))
        dependencies, dependents = _related(graph)
        order = depth_first([*first, *graph], graph)
    workers = _workers_of(
        graph,
        order,
        dependencies,
        size,
        others=others,
        originals=originals,
        most_repeated=most_repeated,
        largest=largest,
    )
    if (small := on_one(dependencies, workers)) is not None:
        return small
    pieces: set[Any] = set()
    if size.workers > 1:
        graph, more = with_copies(graph, wanted, dependents, most_repeated, workers)
        originals |= more
        graph, pieces = with_joined_parts(graph, wanted, workers)
        if more or pieces:
            dependencies, dependents = _related(graph)
            order = depth_first([*first, *graph], graph)
    most = most_leaves(2 * len(leaves) // enough), most_leaves(2 * len(leaves) // enough_on_gpus)
    barriers = {key for key, task in graph.items() if task.block_fusion}
    outputs = {key for key in graph if not barriers.isdisjoint(dependencies[key])} if barriers else set()
    limits = Limits(graph, workers, size.workers, *most, on_host, barriers | outputs)
    fits = has_room(largest, size.memory)
    subtrees = find_subtrees(
        graph,
        order,
        dependencies,
        dependents,
        limits,
        wanted=wanted,
        originals=originals,
        most_sources=math.inf if fits else MOST_INPUTS,
        only_parts=len(leaves) < enough and size.workers > 1,
    )
    if fits:
        graph |= gathered(subtrees, limits, wanted, dependents)
    programs: dict[Any, Any] = {}
    fused = {
        key: graph[key]
        if len(subtree.members) == 1
        else as_one_task(
            key,
            with_programs(_merged(graph, subtree.members, originals), programs),
            math.ceil(subtree.leaves - ROUNDING),
        )
        for key, subtree in subtrees.items()
    }
    fused = without_copies(fused, originals, tasks, workers)
    return fused, _to_place(fused, workers, pieces), False


def _related(graph: Mapping[Any, GraphNode]) -> tuple[Mapping[Any, Collection[Any]], Mapping[Any, Collection[Any]]]:
    """What each task needs, and what needs each result."""
    dependencies = {key: task.dependencies for key, task in graph.items()}
    return dependencies, reverse_dict(dependencies)


def _of_one_task(dependents: Mapping[Any, Collection[Any]], order: Iterable[Any], single: Collection[Any]) -> set[Any]:
    """The keys of results that several tasks need, as the parts of a border, and only one task needs in the end.

    `single`: the keys of results that one task needs.
    """
    found = set()
    for key in order:
        if 1 < len(dependents[key]) <= MOST_INPUTS:
            common: set[Any] | None = None
            for user in dependents[key]:
                path = {user}
                while user in single and len(path) < MOST_INPUTS:
                    (user,) = dependents[user]  # noqa: PLW2901 - from one to the next
                    path.add(user)
                common = path if common is None else common & path
            if common:
                found.add(key)
    return found


def _workers_of(
    graph: Mapping[Any, GraphNode],
    order: Sequence[Any],
    dependencies: Mapping[Any, Collection[Any]],
    size: ClusterSize,
    *,
    others: Mapping[Any, int],
    originals: Mapping[Any, Any],
    most_repeated: int,
    largest: float,
) -> dict[Any, int]:
    """The worker of each task.

    What creates a block for one other task, or takes a part of a block that is created again rather than sent, is on
    the worker of that other task.
    """
    anywhere: set[Any] = set()
    if size.workers > 1 and has_room(largest, size.memory // size.workers):
        cheap = {key for key, task in graph.items() if not task.dependencies and is_cheap(task, most_repeated)}
        anywhere = {key for key, task in graph.items() if is_part(task) and source_of(task) in cheap}
    placed = [key for key in order if key not in originals]
    workers = choose_workers(placed, dependencies, size.workers, others, anywhere)
    for key in reversed(order):
        for other in dependencies[key]:
            if other in anywhere or other in originals:
                workers[other] = workers[key]
    return workers


def _merged(
    graph: Mapping[Any, GraphNode], members: Sequence[Any], originals: Mapping[Any, Any]
) -> dict[Any, GraphNode]:
    """Tasks that become one: of copies of a block one remains, and slices are not copied before they are joined.

    Dask copies small slices to release the rest of a block. Here the one task is given the block, and joins the slices.
    """
    names = {key: originals[key] for key in members if key in originals}
    changed = {names.get(key, key): with_names(graph[key], names) for key in members}
    for joining in filter(joins, changed.copy().values()):
        for key in joining.dependencies & changed.keys():
            if is_slice(changed[key]) and source_of(changed[key]) not in changed:
                changed[key] = as_view(changed[key])
    return changed


def _to_place(
    graph: Mapping[Any, GraphNode], workers: Mapping[Any, int], pieces: frozenset[Any] | set[Any] = frozenset()
) -> dict[Any, int]:
    """The workers of tasks that need no others of the graph, or only given values; and of those that need many pieces.

    Dask counts a piece anew for each task that needs it, and would have half of them computed where all is missing.
    """
    return {
        key: workers[key]
        for key, task in graph.items()
        if key in workers
        and not isinstance(task, DataNode | Alias)
        and (
            all(other not in graph or isinstance(graph[other], DataNode) for other in task.dependencies)
            or len(task.dependencies & pieces) >= _MANY_PIECES
        )
    }
