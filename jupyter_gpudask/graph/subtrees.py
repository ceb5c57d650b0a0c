"""Fewer, larger tasks that do less: slices before arithmetic, and each subtree of a reduction as one task.

``(x + 1)[::2]`` becomes ``x[::2] + 1``, which adds half as many numbers. This is done only inside one task, if nothing
else needs the numbers that are left out. The result of arithmetic on a slice is contiguous in memory, and CuPy 14
reduces contiguous memory up to a hundred times as fast as every second number of a block. For that reason, a slice
without arithmetic is copied.

A task costs the scheduler and a worker some milliseconds, whatever it does. The leaves of a reduction whose results are
only combined in its next steps run one after the other in one task, depth first. A thread therefore holds the data of
one leaf at a time. The tree of the reduction stays the same, and so does each number.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from dask._task_spec import Alias, DataNode, DependenciesMapping, GraphNode, Task, TaskRef, _execute_subgraph
from dask.array.random import _apply_random
from dask.array.wrap import _broadcast_trick_inner
from dask.core import reverse_dict

from .program import as_one_task, with_names, with_programs, without_aliases
from .rechunk import as_view, has_room, is_part, is_slice, joins, source_of, take_contiguous, with_joined_parts
from .workers import choose_workers, locate_others, one_worker_for, position

_ELEMENTWISE = frozenset(
    {
        operator.abs,
        operator.add,
        operator.and_,
        operator.eq,
        operator.floordiv,
        operator.ge,
        operator.gt,
        operator.inv,
        operator.le,
        operator.lt,
        operator.mod,
        operator.mul,
        operator.ne,
        operator.neg,
        operator.or_,
        operator.pos,
        operator.pow,
        operator.sub,
        operator.truediv,
        operator.xor,
        np.where,
    }
)


def with_slices_first(tasks: Mapping[Any, GraphNode]) -> dict[Any, GraphNode]:
    """The same tasks, with `slice_first` of the graph inside each fused one; graphs in common remain common."""
    changes: dict[int, Mapping[Any, GraphNode]] = {}
    changed = dict(tasks)
    for key, task in tasks.items():
        if not isinstance(task, Task) or task.func is not _execute_subgraph:
            continue
        inner, *rest = task.args
        if id(inner) not in changes:
            sliced = slice_first(inner)
            changes[id(inner)] = inner if all(sliced[name] is node for name, node in inner.items()) else sliced
        if changes[id(inner)] is not inner:
            changed[key] = Task(task.key, task.func, changes[id(inner)], *rest, _data_producer=task.data_producer)
    return changed


def slice_first(tasks: Mapping[Any, GraphNode]) -> dict[Any, GraphNode]:
    """The same tasks, with each slice taken before the element-wise functions of one array that it follows."""
    changed = dict(tasks)
    dependents = reverse_dict(DependenciesMapping(changed))
    for key in tasks:
        current = key
        while is_slice(changed[current]):
            source = changed[current].args[0].key
            operand = _only_operand(changed.get(source)) if len(dependents[source]) == 1 else None
            if operand is None:
                break
            slicing, function = changed[current], changed[source]
            changed[current] = function.substitute({operand: source}, key=current)
            changed[source] = Task(source, slicing.func, TaskRef(operand), *slicing.args[1:])
            current = source
    for key, task in changed.items():
        if is_slice(task) and dependents[key] and not any(_only_operand(changed[other]) for other in dependents[key]):
            changed[key] = Task(key, take_contiguous, *task.args)
    return changed


def _only_operand(task: Any) -> Any:
    """The key of the one array whose numbers `task` changes, each for itself; `None` if it does something else."""
    operands: Any = getattr(task, "dependencies", ())
    if len(operands) != 1:
        return None
    (operand,) = operands
    return operand if _is_elementwise(task, {operand}) else None


def _is_elementwise(task: Any, arrays: Collection[Any], numbers: Collection[Any] = ()) -> bool:
    """Whether each number of its result comes from the numbers at the same place in `arrays`, which have one shape."""
    if not isinstance(task, Task) or task.kwargs:
        return False
    if task.func is _execute_subgraph:
        inner, _, names, *values = task.args
        needed = dict(zip(names, values, strict=True))
        same = {name for name, value in needed.items() if _refers_to(value, arrays)}
        single = {name for name, value in needed.items() if _is_number(value)}
        known = same.union(inner)
        return same | single == needed.keys() and all(_is_elementwise(node, known, single) for node in inner.values())
    is_known = is_elementwise_function(task.func)
    return is_known and all(_refers_to(arg, arrays) or _refers_to(arg, numbers) or _is_number(arg) for arg in task.args)


def is_elementwise_function(function: Any) -> bool:
    """Whether each number of its result comes from the numbers at the same place in its arguments, and nothing else.

    That is no ufunc with a signature, such as `np.matmul`, which takes rows or matrices; and none that is made of a
    function of the user by `np.frompyfunc`, which has loops of objects only, and may give something else each time.
    """
    if (isinstance(function, Hashable) and function in _ELEMENTWISE) or getattr(function, "is_elementwise", False):
        return True
    is_ufunc = isinstance(function, np.ufunc) and function.nout == 1 and function.signature is None
    return is_ufunc and any("O" not in loop for loop in function.types)


def _refers_to(argument: Any, keys: Collection[Any]) -> bool:
    return isinstance(argument, TaskRef) and argument.key in keys


def _is_number(argument: Any) -> bool:
    value = argument.value if isinstance(argument, DataNode) else argument
    return isinstance(value, Number | np.generic)


_MOST_LEAVES = 64
_ROUNDING = 1e-6
_MOST_INPUTS = 16
_MANY_PIECES = 4
_TASKS_PER_THREAD = 4

ELEMENTS_ON_GPU = 10**8
"""Numbers in the largest block that a GPU computes again: about half a millisecond for random ones."""

ELEMENTS_ON_CPU = 2**16
_COPIES_OF_LARGEST = 4
_MOST_COPIES = 32  # as many blocks of a megabyte take a GPU as long as a task takes Dask; a block has 27 neighbors
_MOST_STEPS = 4
_CHEAP = frozenset({"random", "random_sample", "uniform", "normal", "standard_normal"})
_CONSTANTS = (np.ones_like, np.zeros_like, np.full_like)
_MARK = "_gpudask_draws_the_same_again"  # of `random_numbers.blocks.draw_block`


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


def size_for(graph: Mapping[Any, GraphNode], size: ClusterSize) -> ClusterSize:
    """The size of a cluster on GPUs for this graph: with more threads if functions of it may run on the host.

    Meanwhile the workers run other tasks, see `worker.host_threads`; so there must be enough of them.
    """
    may_run_on_host = any(map(_may_run_on_host, graph.values()))
    return size._replace(threads=size.threads * _HOST_PARTS) if may_run_on_host else size


def _may_run_on_host(task: Any) -> bool:
    """Whether a task calls a function that is not of Dask or of an array library, or reads an array of a file."""
    if not isinstance(task, Task):
        return _is_array_of_file(task)
    if task.func is _execute_subgraph:
        inner, _, _, *values = task.args
        return any(map(_may_run_on_host, inner.values())) or any(map(_is_array_of_file, values))
    function: Any = task.func
    while isinstance(function, partial):
        function = function.func
    package = _package_of(function)
    is_of_other = package not in _OF_BLOCKS and package != __name__.partition(".")[0]
    return is_of_other or any(map(_may_run_on_host, task.args))


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
) -> tuple[dict[Any, GraphNode], dict[Any, int], bool]:
    """The same graph with subtrees fused; what several tasks need is still computed once, unless it is cheap.

    `most_repeated`: random numbers of the largest block that is created in each task that needs it; see `with_copies`.
    `largest`: bytes of the largest array.

    Returns also the worker of each task without inputs, if there are several workers, and whether a small graph runs on
    one of them alone; then the worker of each task. Only what runs on the same worker is fused.
    """
    wanted = frozenset(keys)
    given, graph = graph, without_aliases(graph, wanted)
    others = locate_others(graph, size.workers)
    dependencies = DependenciesMapping(graph)
    order = _depth_first(graph, dependencies, wanted)

    def on_one(
        needed: Mapping[Any, Collection[Any]], workers: Mapping[Any, int]
    ) -> tuple[dict[Any, GraphNode], dict[Any, int], bool] | None:
        """What is returned for a small graph that several workers do not compute faster; else `None`."""
        if not size.memory or not largest <= SMALL or (alone := one_worker_for(needed, workers, others)) is None:
            return None
        if any(map(_may_run_on_host, given.values())):  # what a function of the user takes is not known
            return None
        one = ClusterSize(1, size.threads // size.workers, size.memory // size.workers)
        fused, *_ = fuse_subtrees(given, keys, one, most_repeated, largest)
        return fused, dict.fromkeys(fused, alone), True

    users = Counter(other for key in order for other in dependencies[key])
    single = {key for key in order if users[key] == 1}
    single |= _of_one_task(dependencies, order, single) - wanted
    leaves = {key for key in single if single.isdisjoint(dependencies[key])}
    enough = 2 * _TASKS_PER_THREAD * max(1, size.threads)
    tasks = graph
    graph, originals = with_copies(graph, wanted, most_repeated) if len(leaves) >= enough else (graph, {})
    if originals:
        copied = set(originals.values())
        leaves = copied.union(key for key in leaves if copied.isdisjoint(dependencies[key]))
    if len(leaves) < enough:
        workers = choose_workers(order, dependencies, size.workers, others)
        return on_one(dependencies, workers) or (dict(given), _to_place(given, workers), False)
    if originals:
        dependencies = DependenciesMapping(graph)
        order = _depth_first(graph, dependencies, wanted)
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
        graph, more = with_copies(graph, wanted, most_repeated, workers)
        originals |= more
        graph, pieces = with_joined_parts(graph, wanted, workers)
        if more or pieces:
            dependencies = DependenciesMapping(graph)
            order = _depth_first(graph, dependencies, wanted)
    subtrees = _find_subtrees(
        graph,
        order,
        dependencies,
        workers,
        size.workers,
        wanted=wanted,
        most_leaves=min(_MOST_LEAVES, 2 * len(leaves) // enough),
        originals=originals,
        most_sources=math.inf if has_room(largest, size.memory) else _MOST_INPUTS,
    )
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


def _of_one_task(
    dependencies: Mapping[Any, Collection[Any]], order: Iterable[Any], single: Collection[Any]
) -> set[Any]:
    """The keys of results that several tasks need, as the parts of a border, and only one task needs in the end.

    `single`: the keys of results that one task needs.
    """
    dependents = reverse_dict({key: dependencies[key] for key in order})
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
        cheap = {key for key, task in graph.items() if not task.dependencies and _is_cheap(task, most_repeated)}
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


def _find_subtrees(
    graph: Mapping[Any, GraphNode],
    order: Iterable[Any],
    dependencies: Mapping[Any, Collection[Any]],
    workers: Mapping[Any, int],
    number: int,
    *,
    wanted: frozenset[Any],
    most_leaves: int,
    most_sources: float,
    originals: Mapping[Any, Any],
) -> dict[Any, _Subtree]:
    """Each subtree, by the key of its task. In `order` a task comes after all that it needs.

    `most_sources`: how many results a task may need of which it takes parts. `originals`: those of copies, which
    together count as one leaf.
    """
    copies = Counter(originals.values())
    weights = {key: 1 / copies[originals[key]] for key in originals}

    def are_few(inputs: Collection[Any], worker: int, most: float = _MOST_INPUTS) -> bool:
        # Results of other graphs that are elsewhere, or not known where, would all have to go to the task's worker.
        elsewhere = (other for other in inputs if other not in graph and workers.get(other) != worker)
        return len(inputs) <= most and (number == 1 or sum(1 for _ in elsewhere) <= 1)

    dependents = reverse_dict(dependencies)
    barriers = {key for key, task in graph.items() if task.block_fusion}
    # Each output of a P2P shuffle is on one of the workers, which the task learns when it runs: it asks to run there.
    outputs = {key for barrier in barriers for key in dependents[barrier]}
    unfused = barriers | outputs
    alone = unfused | wanted | {key for key in graph if len(dependents[key]) != 1}
    subtrees: dict[Any, _Subtree] = {}
    shared = {key for key in graph.keys() - unfused - wanted if len(dependents[key]) > 1}

    def is_allowed(subtree: _Subtree) -> bool:
        worker = workers[subtree.members[0]]
        few = subtree.leaves <= most_leaves + _ROUNDING and are_few(subtree.inputs, worker)
        return few and all(workers[member] == worker for member in subtree.members)

    for key in order:
        needed = dependencies[key]
        inner = [
            other
            for other in needed
            if key not in unfused and other in graph and other not in alone and workers[other] == workers[key]
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
        if subtree.leaves > most_leaves + _ROUNDING or not are_few(subtree.inputs, workers[key]):
            are_parts = all(
                is_part(graph[member]) or isinstance(graph[member], DataNode)
                for part in parts
                for member in part.members
            )
            if are_parts and are_few(subtree.inputs, workers[key], most_sources):
                alone.add(key)
                subtree.leaves = min(subtree.leaves, len(subtree.members))  # some parts may be tasks of their own
            else:
                subtree = _Subtree(members=[key], inputs=set(), leaves=math.inf)
        if len(subtree.members) > 1:
            subtree = _with_shared(
                subtree, subtrees, shared, dependents=dependents, weights=weights, is_allowed=is_allowed
            )
            for other in inner:
                del subtrees[other]
        subtrees[key] = subtree
    return subtrees


def _with_shared(
    subtree: _Subtree,
    subtrees: dict[Any, _Subtree],
    shared: Collection[Any],
    *,
    dependents: Mapping[Any, Collection[Any]],
    weights: Mapping[Any, float],
    is_allowed: Callable[[_Subtree], bool],
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
        if is_allowed(larger):
            del subtrees[key]
            subtree = larger
            waiting = [key for key in subtree.inputs if key in shared]
    return subtree


def _depth_first(
    graph: Mapping[Any, GraphNode], dependencies: Mapping[Any, Collection[Any]], wanted: Iterable[Any]
) -> list[Any]:
    """The keys, each soon after those that it depends on; first what the first of the wanted results needs."""
    order = []
    seen = set()
    for start in (*sorted(wanted, key=position), *graph):
        stack = [(start, False)]
        while stack:
            key, is_ready = stack.pop()
            if is_ready:
                order.append(key)
            elif key not in seen and key in graph:
                seen.add(key)
                stack.append((key, True))
                needed = [other for other in dependencies[key] if other in graph and other not in seen]
                stack += [(other, False) for other in sorted(needed, key=position, reverse=True)]
    return order


def with_copies(
    graph: Mapping[Any, GraphNode],
    wanted: Collection[Any],
    most_elements: int,
    workers: dict[Any, int] | None = None,
) -> tuple[dict[Any, GraphNode], dict[Any, Any]]:
    """The same graph, in which each task that needs a cheap block has a copy of the task that creates it.

    `graph`: with the dependencies of tasks in it or outside; without aliases, which would hide who needs a block.
    `most_elements`: numbers in the largest block that is computed more than once; a constant may be larger. `workers`:
    if it is given, one copy for each worker that needs a block is made instead, and gets its worker there. Returns the
    graph, and by the key of each copy the key of its original.
    """
    originals: dict[Any, Any] = {}
    dependents = reverse_dict({key: task.dependencies for key, task in graph.items()})
    changed = dict(graph)
    for key, task in graph.items():
        users = dependents[key]
        if len(users) < 2 or key in wanted or not isinstance(key, tuple):
            continue
        if len(users) > _MOST_COPIES if workers is None else len({workers[user] for user in users}) < 2:
            continue
        if any(isinstance(graph[user], Alias) or graph[user].block_fusion for user in users):
            continue
        fewer = 1 if workers is not None else max(1, len(users) / _COPIES_OF_LARGEST)
        if not _is_cheap(task, int(most_elements / fewer)):
            continue
        del changed[key]
        for number, user in enumerate(sorted(users, key=str)):
            copy = (*key, f"copy-{number}" if workers is None else f"worker-{workers[user]}")
            originals[copy] = key
            changed[copy] = task.substitute({}, key=copy)
            changed[user] = changed[user].substitute({key: copy})
            if workers is not None:
                workers[copy] = workers[user]
    return changed, originals


def without_copies(
    graph: Mapping[Any, GraphNode],
    originals: Mapping[Any, Any],
    tasks: Mapping[Any, GraphNode],
    workers: dict[Any, int],
) -> dict[Any, GraphNode]:
    """`graph` with the original `tasks` in the place of copies that have remained tasks of their own.

    One of them remains for each worker; the first one has the key of the original.
    """
    names: dict[Any, Any] = {}
    firsts: dict[Any, int] = {}
    for copy, original in originals.items():
        if copy in graph:
            worker = workers[copy]
            is_first = firsts.setdefault(original, worker) == worker
            name = names[copy] = original if is_first else (*original, f"worker-{worker}")
            workers[name] = worker
    if not names:
        return dict(graph)
    changed = {key: with_names(task, names) for key, task in graph.items() if key not in names}
    return changed | {name: tasks[originals[copy]].substitute({}, key=name) for copy, name in names.items()}


def created_shape(tasks: Mapping[Any, Any]) -> tuple[int, ...] | None:
    """The shape of the block that tasks, by key, together create from nothing; `None` if it is not known."""
    block = _Block()
    given = {key: task for key, task in tasks.items() if isinstance(task, DataNode)}
    if not all(block.add(task, given) for task in tasks.values()):
        return None
    return block.shape if block.sizes else None


def _is_cheap(task: Any, most_elements: int) -> bool:
    """Whether a task creates a block, and does at most a few steps of element-wise arithmetic with it."""
    if not isinstance(task, Task) or task.dependencies:
        return False
    block = _Block()
    if not block.add(task, {}) or not block.sizes or block.steps > _MOST_STEPS:
        return False
    if not block.is_drawn and not block.steps:  # a constant is one number in memory, of whatever shape
        return True
    shape = block.shape
    return shape is not None and math.prod(shape) <= most_elements


class _Block:
    """A block that a task creates without inputs.

    - `sizes`: of the constants and random numbers that it creates.
    - `steps`: operations of element-wise arithmetic.
    - `is_drawn`: whether it draws random numbers.
    """

    def __init__(self) -> None:
        self.sizes: list[tuple[int, ...]] = []
        self.steps = 0
        self.is_drawn = False

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of the block; `None` if the sizes do not fit."""
        try:
            return np.broadcast_shapes(*self.sizes)
        except ValueError:
            return None

    def add(self, node: Any, given: Mapping[Any, Any]) -> bool:
        """Whether a node is known to be cheap; `given` are the values from outside of its graph, by name."""
        if isinstance(node, Alias):
            return True
        if isinstance(node, DataNode):
            return _is_small(node)
        if not isinstance(node, Task):
            return False
        if node.func is _execute_subgraph:
            inner, _, names, *values = node.args
            values = [given.get(value.key, value) if isinstance(value, TaskRef) else value for value in values]
            known = dict(zip(names, values, strict=True))
            are_small = all(isinstance(value, TaskRef) or _is_small(value) for value in values)
            return are_small and all(self.add(other, known) for other in inner.values())
        if is_elementwise_function(node.func):
            self.steps += 1
            return not node.kwargs and all(isinstance(arg, TaskRef) or _is_small(arg) for arg in node.args)
        return self._add_creation(node, given)

    def _add_creation(self, task: Task, given: Mapping[Any, Any]) -> bool:
        function = task.func
        if _is_constant(function) and len(task.args) == 1:
            size = task.args[0]
        elif function is _apply_random:
            library, name, _, size, *_ = task.args
            self.is_drawn = True
            if name not in _CHEAP or library not in {None, np.random.RandomState}:
                return False
        elif getattr(function, _MARK, False):
            name, size = task.args[1], task.kwargs.get("size")
            self.is_drawn = True
            if name not in _CHEAP:
                return False
        else:
            return False
        size = given.get(size.key) if isinstance(size, TaskRef) else size
        size = size.value if isinstance(size, DataNode) else size
        if not isinstance(size, tuple):
            return False
        self.sizes.append(size)
        return True


def _is_constant(function: Any) -> bool:
    """Whether it is the function of Dask's `ones`, `zeros` or `full`, which keeps one number of a block in memory."""
    creation: Any = function.func if isinstance(function, partial) else function
    is_known = getattr(creation, "func", None) is _broadcast_trick_inner.func
    return is_known and bool(creation.args) and creation.args[0] in _CONSTANTS


def _is_small(value: Any) -> bool:
    value = value.value if isinstance(value, DataNode) else value
    return isinstance(value, Number | np.generic | np.dtype | str | tuple | None)
