"""The search for subtrees of a graph that can be one task each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from dask._task_spec import DataNode, GraphNode

from .rechunk import is_border, is_part

MOST_INPUTS = 16
"""Results of other tasks that a task needs."""

ROUNDING = 1e-6
"""Of the number of leaves, of which some count as a part of one."""

_MOST_LEAVES = 64


@dataclass(slots=True)
class Subtree:
    """A task and the tasks that are fused into it."""

    members: list[Any]  # their keys, that of the task itself first
    inputs: set[Any]  # keys of other tasks that they need
    leaves: float  # how many of them need nothing within the subtree


@dataclass(frozen=True)
class Limits:
    """How large a subtree may be."""

    graph: Mapping[Any, GraphNode]
    workers: dict[Any, int]  # of each task, and of results of other graphs
    number: int  # of workers
    of_host: float  # how many leaves it has if some of its tasks may run on the host
    of_gpus: float  # and how many otherwise
    on_host: Collection[Any]
    # Barriers of P2P shuffles, and their outputs: each of these is on one of the workers, which the task learns when it
    # runs: it asks to run there.
    unfused: Collection[Any]

    def are_few_leaves(self, subtree: Subtree) -> bool:
        """Whether it has few enough."""
        return subtree.leaves <= self.of_host or (
            subtree.leaves <= self.of_gpus and not any(member in self.on_host for member in subtree.members)
        )

    def are_few_inputs(self, inputs: Collection[Any], worker: int, most: float = MOST_INPUTS) -> bool:
        """Whether a task of that worker may need all of these results."""
        # Results of other graphs that are elsewhere, or not known where, would all have to go to the task's worker.
        elsewhere = (other for other in inputs if other not in self.graph and self.workers.get(other) != worker)
        return len(inputs) <= most and (self.number == 1 or sum(1 for _ in elsewhere) <= 1)

    def allow(self, subtree: Subtree) -> bool:
        """Whether it may be one task."""
        worker = self.workers[subtree.members[0]]
        few = self.are_few_leaves(subtree) and self.are_few_inputs(subtree.inputs, worker)
        return few and all(self.workers[member] == worker for member in subtree.members)


def most_leaves(leaves: int) -> float:
    """How many leaves a subtree has at most, of a number that leaves enough tasks."""
    return max(1, min(_MOST_LEAVES, leaves)) + ROUNDING


def find_subtrees(
    graph: Mapping[Any, GraphNode],
    order: Iterable[Any],
    dependencies: Mapping[Any, Collection[Any]],
    dependents: Mapping[Any, Collection[Any]],
    limits: Limits,
    *,
    wanted: frozenset[Any],
    most_sources: float,
    originals: Mapping[Any, Any],
    only_parts: bool,
) -> dict[Any, Subtree]:
    """Each subtree, by the key of its task. In `order` a task comes after all that it needs.

    `most_sources`: how many results a task may need of which it takes parts. `originals`: those of copies, which
    together count as one leaf. `only_parts`: fuse only what takes parts of blocks, so that few tasks, which several
    workers run, do not wait for others earlier than they must.
    """
    copies = Counter(originals.values())
    weights = {key: 1 / copies[originals[key]] for key in originals}
    workers, are_few = limits.workers, limits.are_few_inputs
    alone = {*limits.unfused, *wanted} | {key for key in graph if len(dependents[key]) != 1}
    subtrees: dict[Any, Subtree] = {}
    shared = {key for key in graph.keys() - limits.unfused - wanted if len(dependents[key]) > 1}

    is_taken = partial(_is_taken, graph, originals, keeps_borders=most_sources < math.inf)
    for key in order:
        needed = dependencies[key]
        inner = [
            other
            for other in needed
            if key not in limits.unfused and other in graph and other not in alone and workers[other] == workers[key]
        ]
        if not inner:
            few = are_few(needed, workers[key])
            subtrees[key] = Subtree([key], set(needed) if few else set(), weights.get(key, 1.0) if few else math.inf)
            continue
        parts = [subtrees[other] for other in inner]
        subtree = Subtree(
            members=[key, *(member for part in parts for member in part.members)],
            inputs=set(needed).difference(inner).union(*(part.inputs for part in parts)),
            leaves=sum(part.leaves for part in parts),
        )
        if only_parts or not limits.are_few_leaves(subtree) or not are_few(subtree.inputs, workers[key]):
            are_parts = all(is_taken(member) for part in parts for member in part.members)
            if are_parts and are_few(subtree.inputs, workers[key], most_sources):
                if not is_taken(key):
                    alone.add(key)
                subtree.leaves = min(subtree.leaves, len(subtree.members))  # some parts may be tasks of their own
            else:
                subtree = Subtree(members=[key], inputs=set(), leaves=math.inf)
        if len(subtree.members) > 1:
            subtree = _with_shared(subtree, subtrees, shared, dependents=dependents, weights=weights, limits=limits)
            for other in inner:
                del subtrees[other]
        subtrees[key] = subtree
    return subtrees


def _is_taken(graph: Mapping[Any, GraphNode], originals: Collection[Any], key: Any, *, keeps_borders: bool) -> bool:
    """Whether it is a part of a block, or data; with `keeps_borders` borders are kept instead of their blocks."""
    task = graph[key]
    is_kept = keeps_borders and is_border(task)
    return (is_part(task) and not is_kept) or isinstance(task, DataNode) or key in originals


def _with_shared(
    subtree: Subtree,
    subtrees: dict[Any, Subtree],
    shared: Collection[Any],
    *,
    dependents: Mapping[Any, Collection[Any]],
    weights: Mapping[Any, float],
    limits: Limits,
) -> Subtree:
    """The subtree with results that several of its tasks need, and no others; they are no longer tasks of their own.

    `weights`: of leaves that count as less than one.
    """
    waiting = [key for key in subtree.inputs if key in shared]
    while waiting:
        key = waiting.pop()
        members = set(subtree.members)
        if key in members or not members.issuperset(dependents[key]):
            continue
        part = subtrees[key]
        inner = members.union(part.members)
        needing = {user for member in inner for user in dependents[member]}
        leaves = sum(weights.get(each, 1.0) for each in inner - needing) if part.leaves < math.inf else math.inf
        larger = Subtree([*subtree.members, *part.members], (subtree.inputs | part.inputs) - {key}, leaves)
        if limits.allow(larger):
            del subtrees[key]
            subtree = larger
            waiting = [key for key in subtree.inputs if key in shared]
    return subtree
