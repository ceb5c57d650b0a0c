"""Fewer and smaller decompositions of matrices: without parts that are not used, and on GPUs one for several blocks.

R is the same without Q, bit for bit. Singular values without vectors are computed with another method of the same
precision, so their last digit may differ.

CuPy decomposes one block of 100,000 rows in the time of two blocks of 20,000 rows. R of a stack of blocks can have
other signs than the R that Dask computes from them, but has the same singular values, whatever else is stacked below.
Neighbouring blocks are therefore stacked if only singular values are computed from R, and if the blocks are created
without inputs, such as random numbers. Then no block has to be moved to another worker, and the size of a stack is
known.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from dask._task_spec import (
    Alias,
    DataNode,
    DependenciesMapping,
    GraphNode,
    Task,
    TaskRef,
    _execute_subgraph,
    _identity_cast,
)
from dask.array.linalg import _wrapped_qr
from dask.core import reverse_dict
from tlz import compose

from .program import as_one_task, with_names, with_programs, without_aliases
from .repeated import created_shape

Graph = Mapping[Any, GraphNode]

Functions = dict[Callable[..., Any], Callable[..., Any]]

_BYTES_OF_NUMBER = 8


def r_only(block: Any) -> tuple[None, Any]:
    """`None` and R of ``numpy.linalg.qr``; of a block without rows, R as Dask defines it.

    NumPy takes lists and stacks of matrices, too, which tasks of `dask.delayed` may pass.
    """
    has_no_rows = getattr(block, "ndim", 0) == 2 and not block.shape[0]
    return (None, _wrapped_qr(block)[1] if has_no_rows else np.linalg.qr(block, mode="r"))


def _as_second_of_three(values: Any) -> tuple[None, Any, None]:
    return None, values, None


# With NumPy's function in it, the fallback to the host knows that it may fail to converge.
values_only = compose(_as_second_of_three, partial(np.linalg.svd, compute_uv=False))
"""`None`, the singular values of ``numpy.linalg.svd``, and `None`."""

ONLY_R: Functions = {_wrapped_qr: r_only, np.linalg.qr: r_only}
ONLY_VALUES: Functions = {np.linalg.svd: values_only}


def without_unused_parts(tasks: Graph, wanted: Collection[Any], functions: Functions) -> dict[Any, GraphNode]:
    """The same tasks, with only the second part computed by each decomposition whose other parts no task needs.

    `tasks`: of a graph without tasks that nobody needs; not fused. `wanted`: keys whose results are needed elsewhere.
    `functions`: for each decomposition a function that gives `None` for the other parts: `ONLY_R` or `ONLY_VALUES`.
    """
    if not any(_decomposition(task, functions) for task in tasks.values()):
        return dict(tasks)
    changed = without_aliases(tasks, wanted)
    users = reverse_dict(DependenciesMapping(changed))
    # Another graph may need all of the decomposition, by its key.
    names = {
        key: _rename_key(key, "second")
        for key, task in changed.items()
        if key not in wanted
        and _decomposition(task, functions)
        and all(_whose_second(changed[user]) == key for user in users[key])
    }
    return {
        names.get(key, key): _with_function(task, names[key], functions) if key in names else with_names(task, names)
        for key, task in changed.items()
    }


def _decomposition(task: Any, functions: Functions) -> Callable[..., Any] | None:
    """The function of `functions` whose result is that of a task, which may be a fused one."""
    if not isinstance(task, Task):
        return None
    if task.func is _execute_subgraph:
        inner, wanted, *_ = task.args
        return _decomposition(inner.get(wanted), functions)
    # The shape of the vectors does not matter to the values.
    is_plain = len(task.args) == 1 and task.kwargs.keys() <= {"full_matrices"}
    return next((function for function in functions if function is task.func and is_plain), None)


def _with_function(task: Any, key: Any, functions: Functions) -> Task:
    """The same task for another key, with the function that takes the place of its decomposition."""
    if task.func is not _execute_subgraph:
        return Task(key, functions[task.func], *task.args)
    inner, wanted, *rest = task.args
    changed = {**inner, wanted: _with_function(inner[wanted], wanted, functions)}
    return Task(key, task.func, changed, wanted, *rest, _data_producer=task.data_producer)


def _whose_second(task: Any) -> Any:
    """The key of the several results of which a task takes the second one; `None` if it does something else."""
    if not isinstance(task, Task) or task.func is not operator.getitem or task.kwargs or len(task.args) != 2:
        return None
    source, index = task.args
    number = index.value if isinstance(index, DataNode) else index
    return _key_of(source) if type(number) is int and number == 1 else None


def _key_of(argument: Any) -> Any:
    """The key of a result; `None` for other arguments."""
    if isinstance(argument, Alias):
        return argument.target
    return argument.key if isinstance(argument, TaskRef) else None


def _rename_key(key: Any, prefix: str) -> Any:
    return (f"{prefix}-{key[0]}", *key[1:]) if isinstance(key, tuple) else f"{prefix}-{key}"


def with_taller_blocks(
    tasks: Graph, wanted: Collection[Any], *, most_bytes: int, least_stacks: int
) -> dict[Any, GraphNode]:
    """The same tasks, with one QR decomposition for several blocks where only the singular values of them are needed.

    `tasks`, `wanted`: as `without_unused_parts` returns them, and as for it. `most_bytes`: of the largest stack, if a
    number takes eight. `least_stacks`: how many remain of all blocks together.
    """
    users = reverse_dict(DependenciesMapping(tasks))
    # Another graph may need what Dask computes by the same key, whose signs differ.
    names = {key: _rename_key(key, "stacked") for key in _only_for_values(tasks, users, wanted)} if most_bytes else {}
    rows = {
        key: [_leaf(tasks, users, wanted, row, key) for row in found]
        for key in names
        if (found := _stacked_keys(tasks[key]))
    }
    most_leaves = sum(leaf.size is not None for row in rows.values() for leaf in row) // max(1, least_stacks)
    groups = {key: list(_groups(row, most_leaves, most_bytes)) for key, row in rows.items()}
    stacks = [group for row in groups.values() for group in row if len(group) > 1]
    if not stacks:
        return dict(tasks)
    gone = {key for group in stacks for leaf in group for key in (leaf.key, *leaf.members)}
    changed = {
        names.get(key, key): with_names(task, names).substitute({}, key=names.get(key, key))
        for key, task in tasks.items()
        if key not in gone and key not in groups
    }
    for key, row in groups.items():
        parts = [_part(group, names) for group in row]
        changed[names[key]] = Task(names[key], _stack, *map(TaskRef, parts))
    programs: dict[Any, Any] = {}
    for group in stacks:
        key = _part(group, names)
        members = {name: task for leaf in group for name, task in leaf.members.items()}
        members[key] = Task(key, r_of_stack, *(TaskRef(leaf.decomposition) for leaf in group))
        changed[key] = as_one_task(key, with_programs(members, programs))
    return changed


def r_of_stack(*blocks: Any) -> Any:
    """R of the blocks below each other."""
    return r_only(np.concatenate(blocks))[1]


def _stack(*blocks: Any) -> Any:
    return np.vstack(blocks)


def _only_for_values(tasks: Graph, users: Mapping[Any, set[Any]], wanted: Collection[Any]) -> Iterator[Any]:
    """The keys of matrices of which all that is computed is singular values, and those of what they are made of."""
    ends: dict[Any, Any] = {key: task for key, task in tasks.items() if getattr(task, "func", None) is values_only}
    waiting = [(_key_of(task.args[0]), key) for key, task in ends.items()]
    while waiting:
        key, user = waiting.pop()
        task: Any = tasks.get(key)
        if task is None or key in wanted or users[key] != {user}:
            continue
        if getattr(task, "func", None) is r_only:
            below = [_key_of(task.args[0])]
        else:
            source: Any = tasks.get(_whose_second(task))
            below = [source.key] if _decomposition(source, {r_only: r_only}) else _stacked_keys(task)
        if below:
            yield key
            waiting += [(other, key) for other in below]


def _stacked_keys(task: Any) -> list[Any]:
    """The keys of the blocks that a task of Dask's ``tsqr`` stacks, from the top; empty for another task."""
    match task:
        case Task(func=np.vstack, args=(Task(func=builtins.tuple, args=(Task(func=func, args=parts),)),)):
            keys = [_key_of(part) for part in parts]
            return keys if func is _identity_cast and None not in keys and len(set(keys)) == len(keys) else []
    return []


class _Leaf(NamedTuple):
    """One R that may be stacked with others: its key, and if it can be stacked, what creates its block."""

    key: Any
    decomposition: Any = None  # the key of the task that computes R
    # that task, changed so that it gives the block, and all tasks that the block needs, by key
    members: Mapping[Any, GraphNode] = {}
    size: int | None = None  # of the block, in bytes; `None` if it cannot be stacked


def _leaf(tasks: Graph, users: Mapping[Any, set[Any]], wanted: Collection[Any], key: Any, stack: Any) -> _Leaf:
    """The leaf of one of the keys that the task `stack` stacks."""
    decomposition = _whose_second(tasks.get(key))
    block = _as_block(tasks.get(decomposition))
    if block is None or users[key] != {stack}:
        return _Leaf(key)
    members: dict[Any, GraphNode] = {}
    waiting = [decomposition]
    while waiting:
        name = waiting.pop()
        if name not in tasks or name in wanted:
            return _Leaf(key)
        members[name] = block if name == decomposition else tasks[name]
        waiting += members[name].dependencies - members.keys()
    shape = created_shape(members)
    if shape is None or len(shape) != 2 or any(users[name] - {key} - members.keys() for name in members):
        return _Leaf(key)
    return _Leaf(key, decomposition, members, math.prod(shape) * _BYTES_OF_NUMBER)


def _as_block(task: Any) -> GraphNode | None:
    """A task that computes R, changed to give the block that it decomposes; `None` for another task."""
    if not _decomposition(task, {r_only: r_only}):
        return None
    if task.func is r_only:
        source = _key_of(task.args[0])
        return None if source is None else Alias(task.key, source)
    inner, wanted, *rest = task.args
    block = _as_block(inner[wanted])
    return block and Task(task.key, task.func, {**inner, wanted: block}, wanted, *rest)


def _groups(row: Sequence[_Leaf], most_leaves: int, most_bytes: int) -> Iterator[list[_Leaf]]:
    """Neighbours that are stacked; about as many in each group."""
    for cannot_be_stacked, run in groupby(row, lambda leaf: leaf.size is None):
        leaves = list(run)
        size = sum(leaf.size or 0 for leaf in leaves)
        number = max(-(-len(leaves) // max(1, most_leaves)), -(-size // most_bytes))
        most = 1 if cannot_be_stacked else -(-len(leaves) // number)
        group: list[_Leaf] = []
        for leaf in leaves:
            if group and (len(group) == most or sum(other.size or 0 for other in (*group, leaf)) > most_bytes):
                yield group
                group = []
            group.append(leaf)
        yield group


def _part(group: Sequence[_Leaf], names: Mapping[Any, Any]) -> Any:
    """The key of R of a group."""
    key = group[0].key
    if len(group) == 1:
        return names.get(key, key)
    name = str(key[0])
    return (f"stacked-qr-{name.partition('-')[2] or name}", *key[1:], len(group))
