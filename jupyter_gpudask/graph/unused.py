"""Q of a QR decomposition is not computed where only R is needed, as for singular values: R is the same without it."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from dask._task_spec import Alias, DataNode, DependenciesMapping, Task, TaskRef, _execute_subgraph
from dask.array.linalg import _wrapped_qr
from dask.core import reverse_dict

from .names import without_aliases
from .subgraphs import with_subgraphs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dask._task_spec import GraphNode

_DECOMPOSITIONS = (_wrapped_qr, np.linalg.qr)


def without_unused_q(tasks: Mapping[Any, GraphNode], wanted: Collection[Any]) -> dict[Any, GraphNode]:
    """The same tasks, with only R computed by each QR decomposition whose Q no task needs.

    Parameters
    ----------
    tasks
        Of a graph without tasks that nobody needs, or of one fused task.
    wanted
        Keys whose results are needed elsewhere.
    """
    changed = with_subgraphs(tasks, lambda inner, key: without_unused_q(inner, {key}))
    if not any(map(_is_decomposition, changed.values())):
        return changed
    changed = without_aliases(changed, wanted)
    found = {key: task for key, task in changed.items() if _is_decomposition(task) and key not in wanted}
    dependents = reverse_dict(DependenciesMapping(changed))
    for key, task in found.items():
        if all(_needs_only_r(changed[other], key) for other in dependents[key]):
            # Another graph may need all of the decomposition, by its key.
            name = (f"r-{key[0]}", *key[1:]) if isinstance(key, tuple) else f"r-{key}"
            del changed[key]
            changed[name] = _with_r_only(task, name)
            for other in dependents[key]:
                changed[other] = changed[other].substitute({key: name})
    return changed


def r_only(block: Any) -> tuple[None, Any]:
    """`None` and R of ``numpy.linalg.qr``; of a block without rows, R as Dask defines it."""
    return (None, np.linalg.qr(block, mode="r") if block.shape[0] else _wrapped_qr(block)[1])


def _is_decomposition(task: Any) -> bool:
    """Whether the result of a task, which may be a fused one, is that of a QR decomposition."""
    if not isinstance(task, Task):
        return False
    if task.func is _execute_subgraph:
        inner, wanted, *_ = task.args
        return _is_decomposition(inner.get(wanted))
    return task.func in _DECOMPOSITIONS and len(task.args) == 1 and not task.kwargs


def _with_r_only(task: Any, key: Any) -> Task:
    """The same task for another key, with `r_only` in the place of the decomposition."""
    if task.func is not _execute_subgraph:
        return Task(key, r_only, *task.args)
    inner, wanted, *rest = task.args
    changed = {**inner, wanted: _with_r_only(inner[wanted], wanted)}
    return Task(key, task.func, changed, wanted, *rest, _data_producer=task.data_producer)


def _needs_only_r(task: Any, key: Any) -> bool:
    """Whether a task takes only the second of the two results of the task `key`."""
    if not isinstance(task, Task) or task.kwargs:
        return False
    if task.func is _execute_subgraph:
        inner, _, names, *values = task.args
        same = [name for name, value in zip(names, values, strict=True) if _refers_to(value, key)]
        return all(_needs_only_r(node, name) for node in inner.values() for name in same if name in node.dependencies)
    return task.func is operator.getitem and _refers_to(task.args[0], key) and _is_one(task.args[1])


def _refers_to(argument: Any, key: Any) -> bool:
    is_reference = isinstance(argument, TaskRef) and argument.key == key
    return is_reference or (isinstance(argument, Alias) and argument.target == key)


def _is_one(argument: Any) -> bool:
    value = argument.value if isinstance(argument, DataNode) else argument
    return type(value) is int and value == 1
