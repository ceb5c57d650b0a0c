"""Generators created outside a GPU cell draw on the CPU inside it too; Dask would look up the backend again."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

from dask._task_spec import Task, parse_input
from dask.array.backends import array_creation_dispatch
from dask.array.core import Array
from dask.array.random import _apply_random
from dask.highlevelgraph import HighLevelGraph

from ..inspection.arguments import bind, first_argument

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask.array.random import RandomState


def permute_on_cpu(original: Callable[..., Array], /, *args: Any, **kwargs: Any) -> Array:
    """As Dask's ``permutation``; for a number, permute a NumPy ``arange`` whatever the configuration is."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    x = call.arguments["x"]
    if not isinstance(x, numbers.Number):
        return original(*args, **kwargs)
    call.arguments["x"] = array_creation_dispatch.dispatch("numpy").arange(x, chunks="auto")
    return original(*call.args, **call.kwargs)


def choose_on_cpu(original: Callable[..., Array], /, *args: Any, **kwargs: Any) -> Array:
    """As ``RandomState.choice``; in Dask its tasks use the configuration of the process in which they run."""
    __tracebackhide__ = True
    array = original(*args, **kwargs)
    state: RandomState = first_argument(original, args, kwargs)
    layer = {key: _with(state._RandomState, task) for key, task in array.dask.layers[array.name].items()}  # noqa: SLF001
    layers = dict(array.dask.layers) | {array.name: layer}
    graph = HighLevelGraph(layers, array.dask.dependencies)
    return Array(graph, array.name, array.chunks, meta=array._meta)  # noqa: SLF001


def _with(library: Any, task: Task) -> Task:
    """The task of ``choice`` with its generator as an argument, as in Dask's other methods."""
    state, a, size, replace, p = task.args
    given, options = parse_input([a]), parse_input({"replace": replace, "p": p})
    return Task(task.key, _apply_random, library, "choice", state, size, given, options)
