"""Which tasks of a graph may run on the host, so that a worker of a GPU runs others meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dask._task_spec import DataNode, GraphNode, Task, TaskRef, _execute_subgraph

_OF_BLOCKS = frozenset(
    {"_operator", "builtins", "cupy", "cupyx", "cytoolz", "dask", "functools", "numpy", "operator", "tlz", "toolz"}
)
"""Packages whose functions mostly compute on GPUs there."""

_PLAIN = frozenset({TaskRef, bool, float, int, slice, str, tuple, type(None)})
"""Types of most arguments, none of which is a task, or an array of a file."""


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
    return is_of_other or any(type(value) not in _PLAIN and may_run_on_host(value) for value in task.args)


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
