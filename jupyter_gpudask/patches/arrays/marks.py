"""Mark the layers of a graph with the device of their arrays, for arrays that are computed from them.

A graph has the names of its layers, but no metadata. The marks stay in the kernel, and are lost when a graph is
optimized, for example by ``persist``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from dask.highlevelgraph import HighLevelGraph

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dask.array import Array

_NAME = "_jupyter_gpudask_mark"

Mark = Literal["gpu", "not for GPUs", "plain data", "plain data on a GPU"]
"""The array is on a GPU; CuPy cannot hold it; Dask made it of plain data on the host, or on a GPU."""


def mark(array: Array, what: Mark) -> None:
    """Mark the layer of an array."""
    graph = array.dask
    if isinstance(graph, HighLevelGraph) and array.name in graph.layers:
        setattr(graph.layers[array.name], _NAME, what)


def has_mark(array: Array, names: Iterable[str], *marks: Mark) -> bool:
    """Whether one of the layers with these names in the graph of an array has one of the marks."""
    layers: Any = getattr(array.dask, "layers", {})
    return any(getattr(layers.get(name), _NAME, None) in marks for name in names)


def is_plain_on_gpu(array: Array) -> bool:
    """Whether Dask made an array on a GPU of nothing but plain data."""
    return has_mark(array, [array.name], "plain data on a GPU")


def mark_computed(array: Array, names: Iterable[str]) -> None:
    """Mark an array on a GPU that is computed from the layers with these names."""
    plain = [has_mark(array, [name], "plain data on a GPU") for name in names]
    mark(array, "plain data on a GPU" if plain and all(plain) else "gpu")


def may_be_moved(array: Any) -> bool:
    """Whether an array on the host is there for want of a type in CuPy, and not because the user created it there.

    It was on a GPU before, or is computed from an array that CuPy cannot hold, or is plain data beside such an array.
    """
    names: Any = getattr(array.dask, "layers", {})
    return has_mark(array, [array.name], "plain data") or has_mark(array, names, "gpu", "not for GPUs")


def mark_frame(expression: Any) -> None:
    """Mark the expression of a dataframe that Dask made of plain data."""
    object.__setattr__(expression, _NAME, "plain data")  # Dask's own sets an operand


def is_plain_data(expression: Any) -> bool:
    """Whether a dataframe is made of nothing but plain data that the user has passed to functions of Dask."""
    inputs = [part for part in expression.walk() if not part.dependencies()]
    return all(vars(part).get(_NAME) == "plain data" for part in inputs)
