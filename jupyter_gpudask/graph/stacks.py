"""Stack blocks for fewer, taller QR decompositions if only singular values are needed.

CuPy decomposes one block of 100,000 rows in the time of two blocks of 20,000 rows. R of a stack of blocks can have
other signs than the R that Dask computes from them, but has the same singular values, whatever else is stacked below.
Neighbouring blocks are therefore stacked if only singular values are computed from R, and if the blocks are created
without inputs, such as random numbers. Then no block has to be moved to another worker, and the size of a stack is
known.
"""

from __future__ import annotations

import math
import operator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from dask._task_spec import (
    Alias,
    DataNode,
    DependenciesMapping,
    GraphNode,
    List,
    Task,
    TaskRef,
    Tuple,
    _execute_subgraph,
    _identity_cast,
)
from dask.core import reverse_dict

from .chains import fuse_chains
from .program import as_one_task, with_names
from .subtrees import created_shape
from .unused import r_only, values_only

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_BYTES_OF_NUMBER = 8
_CONTAINERS = (tuple, list, _identity_cast)


def with_taller_blocks(
    tasks: Mapping[Any, GraphNode], wanted: Collection[Any], *, most_bytes: int, least_stacks: int
) -> dict[Any, GraphNode]:
    """The same tasks, with one QR decomposition for several blocks where only the singular values of them are needed.

    Parameters
    ----------
    tasks
        As `unused.without_unused_parts` returns them.
    wanted
        Keys whose results are needed elsewhere.
    most_bytes
        Of the largest stack, if a number takes eight.
    least_stacks
        How many remain of all blocks together.
    """
    if not most_bytes or not _have_function(tasks, values_only) or not _have_function(tasks, r_only):
        return dict(tasks)
    graph = _Graph(tasks, wanted)
    rows = {
        key: [_leaf(item, key, graph) for item in items]
        for key, task in graph.tasks.items()
        if (items := _stacked_keys(task)) and graph.ends_in_values(key)
    }
    leaves = [leaf for row in rows.values() for leaf in row if leaf.members]
    most_leaves = len(leaves) // max(1, least_stacks)
    groups = {key: list(_groups(row, most_leaves, most_bytes)) for key, row in rows.items()}
    changed = {key: row for key, row in groups.items() if len(row) < len(rows[key])}
    if not changed:
        return dict(tasks)
    names = {key: _stacked_name(key) for stack in changed for key in graph.until_values(stack)}
    new: dict[Any, GraphNode] = {}
    gone: set[Any] = set(changed)
    for key, row in changed.items():
        parts = [_part(group) for group in row]
        new[names[key]] = Task(names[key], _stack, *map(TaskRef, parts))
        for part, group in zip(parts, row, strict=True):
            if len(group) > 1:
                new[part] = _stacked(part, group, graph)
                gone.update(*(leaf.members for leaf in group))
    for key, task in graph.closed(gone.union(names)).items():
        if key not in gone:
            renamed = with_names(task, names)
            new[names.get(key, key)] = renamed.substitute({}, key=names[key]) if key in names else renamed
    return fuse_chains(new, new.keys() - tasks.keys(), wanted)


def r_of_stack(*blocks: Any) -> Any:
    """R of the blocks below each other."""
    return r_only(np.concatenate(blocks))[1]


def _stack(*blocks: Any) -> Any:
    return np.vstack(blocks)


class _Leaf(NamedTuple):
    """One R that is stacked with others.

    Attributes
    ----------
    key
        Of R.
    block
        Of the block whose R it is.
    members
        Keys of all tasks that nothing else needs: those that create the block, and those that compute R of it; empty if
        the block cannot be stacked.
    size
        Of the block, in bytes.
    """

    key: Any
    block: Any = None
    members: frozenset[Any] = frozenset()
    size: int = 0


class _Graph:
    """Tasks, also those inside of fused tasks, and which of them need a result.

    Parameters
    ----------
    tasks, wanted
        As for `with_taller_blocks`.

    Attributes
    ----------
    tasks
        By key. Those that were fused have keys of their own.
    """

    def __init__(self, tasks: Mapping[Any, GraphNode], wanted: Collection[Any]) -> None:
        self._given = tasks
        self._parts = {key: dict(_opened(task)) for key, task in tasks.items() if _is_fused(task)}
        self.tasks: dict[Any, GraphNode] = {}
        for key, task in tasks.items():
            self.tasks.update(self._parts.get(key, {key: task}))
        self._wanted = frozenset(wanted)
        self._users = reverse_dict(DependenciesMapping(self.tasks))
        self._known: dict[Any, bool] = {}

    def closed(self, touched: Collection[Any]) -> dict[Any, GraphNode]:
        """The tasks as they were given, but for fused tasks of which some part is in `touched`."""
        tasks: dict[Any, GraphNode] = {}
        for key, task in self._given.items():
            parts = self._parts.get(key, {})
            tasks |= {key: task} if parts.keys().isdisjoint(touched) else parts
        return tasks

    def without_alias(self, key: Any) -> Any:
        """The key of the task that computes a result."""
        task = self.tasks.get(key)
        return self.without_alias(task.target) if isinstance(task, Alias) else key

    def ancestors(self, key: Any) -> frozenset[Any]:
        """The key and those of all that its task needs, of itself or of others; they may be missing."""
        found, stack = set(), [key]
        while stack:
            current = stack.pop()
            if current not in found:
                found.add(current)
                stack += self.tasks[current].dependencies if current in self.tasks else ()
        return frozenset(found)

    def are_only_for(self, keys: frozenset[Any], end: Any, user: Any) -> bool:
        """Whether nothing but each other needs the results of tasks, and `user` that of the task `end`."""
        return all(
            key in self.tasks and key not in self._wanted and self._users[key] - {user if key == end else None} <= keys
            for key in keys
        )

    def ends_in_values(self, key: Any) -> bool:
        """Whether all that is computed from the rows of a matrix is their singular values."""
        if key not in self._known:
            users = self._users[key]
            self._known[key] = (
                key not in self._wanted
                and bool(users)
                and all(self._is_end(user) or (self._passes(user) and self.ends_in_values(user)) for user in users)
            )
        return self._known[key]

    def until_values(self, key: Any) -> Iterator[Any]:
        """The key of a matrix, and those of all matrices that are computed from it; some more than once."""
        yield key
        for user in self._users[key]:
            if not self._is_end(user):
                yield from self.until_values(user)

    def is_r(self, key: Any) -> bool:
        """Whether a task takes R of a QR decomposition."""
        task: Any = self.tasks.get(key)
        return _is_second(task) and self.function(_key_of(task.args[0])) is r_only

    def function(self, key: Any) -> Any:
        """The function of a task."""
        return getattr(self.tasks.get(self.without_alias(key)), "func", None)

    def _is_end(self, key: Any) -> bool:
        return getattr(self.tasks[key], "func", None) is values_only

    def _passes(self, key: Any) -> bool:
        """Whether a task gives a matrix with the singular values of those that it needs below each other."""
        task: Any = self.tasks[key]
        is_decomposition = isinstance(task, Task) and task.func is r_only and not task.kwargs
        return is_decomposition or isinstance(task, Alias) or bool(_stacked_keys(task)) or self.is_r(key)


def _leaf(key: Any, stack: Any, graph: _Graph) -> _Leaf:
    """The leaf whose R is an item of the stack of that key."""
    item = graph.without_alias(key)
    if not isinstance(key, tuple) or not graph.is_r(item):
        return _Leaf(key)
    decomposition: Any = graph.tasks[graph.without_alias(_key_of(graph.tasks[item].args[0]))]  # type: ignore[attr-defined]
    block = _key_of(decomposition.args[0])
    members = graph.ancestors(key)
    if not graph.are_only_for(members, key, stack):
        return _Leaf(key)
    creating = {part: graph.tasks[part] for part in graph.ancestors(block)}
    shape = created_shape(creating)
    if shape is None or len(shape) != 2:
        return _Leaf(key)
    return _Leaf(key, block, members, math.prod(shape) * _BYTES_OF_NUMBER)


def _groups(row: Sequence[_Leaf], most_leaves: int, most_bytes: int) -> Iterator[list[_Leaf]]:
    """Neighbours that are stacked; about as many in each group."""
    for can_be_stacked, run in groupby(row, lambda leaf: bool(leaf.members)):
        leaves = list(run)
        size = sum(leaf.size for leaf in leaves)
        number = max(-(-len(leaves) // max(1, most_leaves)), -(-size // max(1, most_bytes)))
        most = -(-len(leaves) // number) if can_be_stacked else 1
        group: list[_Leaf] = []
        for leaf in leaves:
            if group and (len(group) == most or sum(other.size for other in (*group, leaf)) > most_bytes):
                yield group
                group = []
            group.append(leaf)
        yield group


def _part(group: Sequence[_Leaf]) -> Any:
    """The key of R of a group."""
    key = group[0].key
    if len(group) == 1:
        return key
    name = str(key[0])
    return (f"stacked-qr-{name.partition('-')[2] or name}", *key[1:], len(group))


def _stacked(key: Any, group: Sequence[_Leaf], graph: _Graph) -> Task:
    """The task that creates the blocks of a group and gives R of all of them."""
    members = {part: graph.tasks[part] for leaf in group for part in graph.ancestors(leaf.block)}
    members[key] = Task(key, r_of_stack, *(TaskRef(leaf.block) for leaf in group))
    return as_one_task(key, members)


def _stacked_name(key: Any) -> Any:
    """Another graph may need what Dask computes by the same key, whose signs differ."""
    return (f"stacked-{key[0]}", *key[1:]) if isinstance(key, tuple) else f"stacked-{key}"


def _have_function(tasks: Mapping[Any, Any], function: Any) -> bool:
    seen: dict[int, bool] = {}
    for task in tasks.values():
        if _is_fused(task):
            inner = task.args[0]
            if id(inner) not in seen:
                seen[id(inner)] = _have_function(inner, function)
            if seen[id(inner)]:
                return True
        elif getattr(task, "func", None) is function:
            return True
    return False


def _is_fused(task: Any) -> bool:
    return isinstance(task, Task) and task.func is _execute_subgraph


def _opened(task: Any) -> Iterator[tuple[Any, GraphNode]]:
    """The tasks inside of a fused task as tasks of their own, and the name of its result."""
    inner, wanted, names, *values = task.args
    start = task.key if isinstance(task.key, tuple) else (task.key,)
    known = {name: (f"part-{start[0]}", *start[1:], str(name)) for name in inner}
    for name, value in zip(names, values, strict=True):
        other = _key_of(value)
        known[name] = other if other is not None else (f"part-{start[0]}", *start[1:], str(name))
        if other is None:
            yield known[name], DataNode(known[name], value.value if isinstance(value, DataNode) else value)
    for name, node in inner.items():
        part = node.substitute(known, key=known[name])
        if _is_fused(part):
            yield from _opened(part)
        else:
            yield known[name], part
    yield task.key, Alias(task.key, known[wanted])


def _stacked_keys(task: Any) -> list[Any]:
    """The keys of the blocks that a task stacks, from the top; empty if it does something else."""
    if not isinstance(task, Task) or task.func is not np.vstack or task.kwargs or len(task.args) != 1:
        return []
    keys = list(_items(task.args[0]))
    return keys if None not in keys and len(set(keys)) == len(keys) == len(task.dependencies) else []


def _items(argument: Any) -> Iterator[Any]:
    """The keys in nested containers; `None` for anything else."""
    parts = None
    if isinstance(argument, List | Tuple) or (isinstance(argument, Task) and argument.func in _CONTAINERS):
        parts = argument.args
    elif type(argument) in {tuple, list}:
        parts = argument
    if parts is None:
        yield _key_of(argument)
    else:
        for part in parts:
            yield from _items(part)


def _is_second(task: Any) -> bool:
    """Whether a task takes the second of several results of another one."""
    if not isinstance(task, Task) or task.func is not operator.getitem or task.kwargs or len(task.args) != 2:
        return False
    source, index = task.args
    number = index.value if isinstance(index, DataNode) else index
    return _key_of(source) is not None and type(number) is int and number == 1


def _key_of(argument: Any) -> Any:
    """The key of a result; `None` for other arguments."""
    if isinstance(argument, Alias):
        return argument.target
    return argument.key if isinstance(argument, TaskRef) else None
