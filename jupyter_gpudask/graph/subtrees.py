"""Fewer, larger tasks: each subtree of a reduction as one task.

A task costs the scheduler and a worker some milliseconds, whatever it does. The leaves of a reduction whose results are
only combined in its next steps run one after the other in one task, depth first. A thread therefore holds the data of
one leaf at a time. The tree of the reduction stays the same, and so does each number.

Blocks of a result that is only gathered are made by several in one task, too, if all of them have room.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef, _execute_subgraph
from dask.array.core import finalize, load_store_chunk
from dask.base import tokenize
from dask.core import reverse_dict

from .program import as_one_task, depth_first, with_names, with_programs, without_aliases
from .rechunk import as_view, has_room, is_border, is_part, is_slice, joins, source_of, with_joined_parts
from .repeated import is_cheap, with_copies, without_copies
from .workers import choose_workers, locate_others, one_worker_for, position

_MOST_LEAVES = 64
_ROUNDING = 1e-6
_MOST_INPUTS = 16
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
_OF_BLOCKS = frozenset(
    {"_operator", "builtins", "cupy", "cupyx", "cytoolz", "dask", "functools", "numpy", "operator", "tlz", "toolz"}
)
"""Packages whose functions mostly compute on GPUs there."""


def may_run_on_host(task: Any) -> bool:
    """Whether a task calls a function that is not of Dask or of an array library, or reads an array of a file.

    What reads a block and moves it to the GPU at once does not count: such blocks are read ahead.
    """
    if not isinstance(task, Task):
        return _is_array_of_file(task)
    if task.func is _execute_subgraph:
        inner, _, _, *values = task.args
        reads = {key for key in moved_blocks(inner) & inner.keys() if not _needs_task(inner[key], inner)}
        others = [each for key, each in inner.items() if key not in reads]
        return any(map(may_run_on_host, others)) or (not reads and any(map(_is_array_of_file, values)))
    function: Any = task.func
    while isinstance(function, partial):
        function = function.func
    package = _package_of(function)
    is_of_other = package not in _OF_BLOCKS and package != __name__.partition(".")[0]
    return is_of_other or any(map(may_run_on_host, task.args))


def _needs_task(task: GraphNode, others: Mapping[Any, GraphNode]) -> bool:
    return any(isinstance(others.get(key), Task) for key in task.dependencies)


def moved_blocks(tasks: Mapping[Any, GraphNode]) -> set[Any]:
    """The keys of the results, such as blocks that are read from a file, that a task or one inside of it moves."""
    moved: set[Any] = set()
    task: Any
    for task in tasks.values():
        function: Any = getattr(task, "func", None)
        if function is _execute_subgraph:
            inner, _, names, *values = task.args
            inside = moved_blocks(inner)
            moved.update(each.key for name, each in zip(names, values, strict=True) if name in inside)
        elif getattr(function, "__name__", "") == "to_cupy":
            moved |= task.dependencies
    return moved


def _is_array_of_file(value: Any) -> bool:
    value = value.value if isinstance(value, DataNode) else value
    return hasattr(value, "shape") and _package_of(type(value)) not in _OF_BLOCKS


def _package_of(function: Any) -> str:
    return str(getattr(function, "__module__", None) or type(function).__module__).partition(".")[0]


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
    most = _most_leaves(2 * len(leaves) // enough), _most_leaves(2 * len(leaves) // enough_on_gpus)
    barriers = {key for key, task in graph.items() if task.block_fusion}
    outputs = {key for key in graph if not barriers.isdisjoint(dependencies[key])} if barriers else set()
    limits = _Limits(graph, workers, size.workers, *most, on_host, barriers | outputs)
    fits = has_room(largest, size.memory)
    subtrees = _find_subtrees(
        graph,
        order,
        dependencies,
        dependents,
        limits,
        wanted=wanted,
        originals=originals,
        most_sources=math.inf if fits else _MOST_INPUTS,
        only_parts=len(leaves) < enough and size.workers > 1,
    )
    if fits:
        graph |= _gathered(subtrees, limits, wanted, dependents)
    programs: dict[Any, Any] = {}
    fused = {
        key: graph[key]
        if len(subtree.members) == 1
        else as_one_task(
            key,
            with_programs(_merged(graph, subtree.members, originals), programs),
            math.ceil(subtree.leaves - _ROUNDING),
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
        if 1 < len(dependents[key]) <= _MOST_INPUTS:
            common: set[Any] | None = None
            for user in dependents[key]:
                path = {user}
                while user in single and len(path) < _MOST_INPUTS:
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


@dataclass(slots=True)
class _Subtree:
    """A task and the tasks that are fused into it."""

    members: list[Any]  # their keys, that of the task itself first
    inputs: set[Any]  # keys of other tasks that they need
    leaves: float  # how many of them need nothing within the subtree


@dataclass(frozen=True)
class _Limits:
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

    def are_few_leaves(self, subtree: _Subtree) -> bool:
        """Whether it has few enough."""
        return subtree.leaves <= self.of_host or (
            subtree.leaves <= self.of_gpus and not any(member in self.on_host for member in subtree.members)
        )

    def are_few_inputs(self, inputs: Collection[Any], worker: int, most: float = _MOST_INPUTS) -> bool:
        """Whether a task of that worker may need all of these results."""
        # Results of other graphs that are elsewhere, or not known where, would all have to go to the task's worker.
        elsewhere = (other for other in inputs if other not in self.graph and self.workers.get(other) != worker)
        return len(inputs) <= most and (self.number == 1 or sum(1 for _ in elsewhere) <= 1)

    def allow(self, subtree: _Subtree) -> bool:
        """Whether it may be one task."""
        worker = self.workers[subtree.members[0]]
        few = self.are_few_leaves(subtree) and self.are_few_inputs(subtree.inputs, worker)
        return few and all(self.workers[member] == worker for member in subtree.members)


def _most_leaves(leaves: int) -> float:
    return max(1, min(_MOST_LEAVES, leaves)) + _ROUNDING


def _find_subtrees(
    graph: Mapping[Any, GraphNode],
    order: Iterable[Any],
    dependencies: Mapping[Any, Collection[Any]],
    dependents: Mapping[Any, Collection[Any]],
    limits: _Limits,
    *,
    wanted: frozenset[Any],
    most_sources: float,
    originals: Mapping[Any, Any],
    only_parts: bool,
) -> dict[Any, _Subtree]:
    """Each subtree, by the key of its task. In `order` a task comes after all that it needs.

    `most_sources`: how many results a task may need of which it takes parts. `originals`: those of copies, which
    together count as one leaf. `only_parts`: fuse only what takes parts of blocks, so that few tasks, which several
    workers run, do not wait for others earlier than they must.
    """
    copies = Counter(originals.values())
    weights = {key: 1 / copies[originals[key]] for key in originals}
    workers, are_few = limits.workers, limits.are_few_inputs
    alone = {*limits.unfused, *wanted} | {key for key in graph if len(dependents[key]) != 1}
    subtrees: dict[Any, _Subtree] = {}
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
            subtrees[key] = _Subtree([key], set(needed) if few else set(), weights.get(key, 1.0) if few else math.inf)
            continue
        parts = [subtrees[other] for other in inner]
        subtree = _Subtree(
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
                subtree = _Subtree(members=[key], inputs=set(), leaves=math.inf)
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
    subtree: _Subtree,
    subtrees: dict[Any, _Subtree],
    shared: Collection[Any],
    *,
    dependents: Mapping[Any, Collection[Any]],
    weights: Mapping[Any, float],
    limits: _Limits,
) -> _Subtree:
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
        larger = _Subtree([*subtree.members, *part.members], (subtree.inputs | part.inputs) - {key}, leaves)
        if limits.allow(larger):
            del subtrees[key]
            subtree = larger
            waiting = [key for key in subtree.inputs if key in shared]
    return subtree


def _gathered(
    subtrees: dict[Any, _Subtree],
    limits: _Limits,
    wanted: Iterable[Any],
    dependents: Mapping[Any, Collection[Any]],
) -> dict[Any, GraphNode]:
    """Tasks that make several blocks, for results that are only gathered, and the tasks that gather them."""
    changed: dict[Any, GraphNode] = {}
    for key in wanted:
        task: Any = limits.graph[key]
        if getattr(task, "func", None) is not finalize:
            continue
        groups: list[tuple[list[Any], _Subtree]] = []
        for block in sorted(task.dependencies & subtrees.keys() - wanted, key=position):
            if len(dependents[block]) > 1 or block in limits.unfused or not _is_computed(block, limits.graph[block]):
                continue
            blocks, group = groups[-1] if groups else ([], _Subtree([], set(), math.inf))
            part = subtrees[block]
            larger = _Subtree(group.members + part.members, group.inputs | part.inputs, group.leaves + part.leaves)
            if limits.allow(larger):
                groups[-1] = [*blocks, block], larger
            else:
                groups.append(([block], part))
        places: dict[Any, tuple[int, int | None]] = {}
        given: list[Any] = []
        for blocks, group in groups:
            if len(blocks) == 1:
                continue
            name = (f"{blocks[0][0]}-blocks", tokenize(repr(blocks)))  # another graph may need others of this array
            changed[name] = Task(name, _as_list, *map(TaskRef, blocks))
            limits.workers[name] = limits.workers[blocks[0]]
            places |= {block: (len(given), index) for index, block in enumerate(blocks)}
            given.append(name)
            for block in blocks:
                del subtrees[block]
            subtrees[name] = _Subtree([name, *group.members], group.inputs, group.leaves)
        if given:
            others = sorted(task.dependencies - places.keys(), key=position)
            places |= {other: (len(given) + index, None) for index, other in enumerate(others)}
            changed[key] = Task(key, _finalize, _placed(task.args[0], places), *map(TaskRef, [*given, *others]))
    return changed


def _is_computed(key: Any, task: GraphNode) -> bool:
    """Whether it is a block, of an array that is not written: in one task, the cores would encode one after the other.

    Of a delayed object, the key is a string.
    """
    return isinstance(key, tuple) and not _writes(task)


def _writes(task: Any) -> bool:
    function: Any = getattr(task, "func", None)
    is_fused = function is _execute_subgraph
    return function is load_store_chunk or (is_fused and any(map(_writes, task.args[0].values())))


def _placed(blocks: Any, places: Mapping[Any, Any]) -> Any:
    """Nested lists of references to blocks, with the place of each block instead."""
    return places[blocks.key] if isinstance(blocks, TaskRef) else [_placed(part, places) for part in blocks.args]


def _as_list(*blocks: Any) -> list[Any]:
    return list(blocks)


def _finalize(places: Any, *given: Any) -> Any:
    """What Dask's `finalize` gives for nested lists of blocks.

    `places`: such lists with the place of each block among `given`: the number of an argument, and if this is a list of
    blocks, the number in it.
    """

    def blocks(part: Any) -> Any:
        if isinstance(part, list):
            return list(map(blocks, part))
        number, index = part
        return given[number] if index is None else given[number][index]

    return finalize(blocks(places))
