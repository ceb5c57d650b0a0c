"""Do not compute unused parts of decompositions: Q of QR, and the singular vectors of an SVD.

R is the same without Q, bit for bit. Singular values without vectors are computed with another method of the same
precision, so their last digit may differ.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from dask._task_spec import Alias, DataNode, DependenciesMapping, Task, TaskRef, _execute_subgraph
from dask.array.linalg import _wrapped_qr
from dask.core import reverse_dict
from tlz import compose

from .program import with_subgraphs, without_aliases

if TYPE_CHECKING:
    from collections.abc import Collection

    from dask._task_spec import GraphNode

Functions = dict[Callable[..., Any], Callable[..., Any]]


def without_unused_parts(
    tasks: Mapping[Any, GraphNode], wanted: Collection[Any], functions: Functions
) -> dict[Any, GraphNode]:
    """The same tasks, with only the second part computed by each decomposition whose other parts no task needs.

    Parameters
    ----------
    tasks
        Of a graph without tasks that nobody needs, or of one fused task.
    wanted
        Keys whose results are needed elsewhere.
    functions
        For each decomposition a function that gives `None` for the other parts: `ONLY_R` or `ONLY_VALUES`.
    """
    changed = with_subgraphs(tasks, lambda inner, key: without_unused_parts(inner, {key}, functions))
    if not any(_decomposition(task, functions) for task in changed.values()):
        return changed
    changed = without_aliases(changed, wanted)
    found = [key for key, task in changed.items() if key not in wanted and _decomposition(task, functions)]
    dependents = reverse_dict(DependenciesMapping(changed))
    # Another graph may need all of the decomposition, by its key.
    names: dict[Any, Any] = {}
    for key in found:
        if all(_needs_only_second(changed[other], key) for other in dependents[key]):
            names[key] = (f"second-{key[0]}", *key[1:]) if isinstance(key, tuple) else f"second-{key}"
            changed[key] = _with_function(changed[key], names[key], functions)
            for other in dependents[key]:  # one of them may be a decomposition, too
                changed[other] = changed[other].substitute({key: names[key]})
    return {names.get(key, key): task for key, task in changed.items()}


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


def _needs_only_second(task: Any, key: Any) -> bool:
    """Whether a task takes only the second of the results of the task `key`."""
    if not isinstance(task, Task) or task.kwargs:
        return False
    if task.func is _execute_subgraph:
        inner, _, names, *values = task.args
        same = [name for name, value in zip(names, values, strict=True) if _refers_to(value, key)]
        return all(
            _needs_only_second(node, name) for node in inner.values() for name in same if name in node.dependencies
        )
    return task.func is operator.getitem and _refers_to(task.args[0], key) and _is_one(task.args[1])


def _refers_to(argument: Any, key: Any) -> bool:
    is_reference = isinstance(argument, TaskRef) and argument.key == key
    return is_reference or (isinstance(argument, Alias) and argument.target == key)


def _is_one(argument: Any) -> bool:
    value = argument.value if isinstance(argument, DataNode) else argument
    return type(value) is int and value == 1
