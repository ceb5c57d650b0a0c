"""Generators from outside a cell for GPUs stay CPU generators inside it, where Dask would ask the settings anew."""

from __future__ import annotations

import functools
import numbers
from typing import TYPE_CHECKING, Any

import dask.array.random as dask_random
from dask._task_spec import Task, parse_input
from dask.array import Array
from dask.array.backends import array_creation_dispatch
from dask.highlevelgraph import HighLevelGraph

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask.array.random import RandomState


def permutation_on_cpu(method: Callable[..., Array]) -> Callable[..., Array]:
    """Dask's ``permutation``, but that of a number permutes an ``arange`` of NumPy, whatever the settings are."""

    @functools.wraps(method)
    def permutation(self: Any, x: Any) -> Array:
        is_number = isinstance(x, numbers.Number)
        return method(self, array_creation_dispatch.dispatch("numpy").arange(x, chunks="auto") if is_number else x)

    return permutation


def choice_on_cpu(method: Callable[..., Array]) -> Callable[..., Array]:
    """``RandomState.choice``, whose tasks in Dask take the settings of the process that they run in."""

    @functools.wraps(method)
    def choice(self: RandomState, *args: Any, **kwargs: Any) -> Array:
        array = method(self, *args, **kwargs)
        layer = {key: _with(self._RandomState, task) for key, task in array.dask.layers[array.name].items()}
        layers = dict(array.dask.layers) | {array.name: layer}
        graph = HighLevelGraph(layers, array.dask.dependencies)
        return Array(graph, array.name, array.chunks, meta=array._meta)  # noqa: SLF001

    return choice


def _with(library: Any, task: Task) -> Task:
    """The task of ``choice`` with its generator named, as Dask's other methods have it."""
    state, a, size, replace, p = task.args
    given, options = parse_input([a]), parse_input({"replace": replace, "p": p})
    return Task(task.key, dask_random._apply_random, library, "choice", state, size, given, options)  # noqa: SLF001
