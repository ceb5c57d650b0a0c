"""Names of collections: two backends must never give one name to two things."""

from __future__ import annotations

from typing import Any

from dask.array import Array
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph


def renamed(array: Array, *token: Any) -> Array:
    """The same array under a name that is made from `token`, of which one part tells its backend.

    Dask names some arrays by their arguments alone, so that the NumPy and the CuPy version of ``da.arange(10)`` have
    one name; whichever a cluster holds already would be taken for the other.

    Parameters
    ----------
    array
        Whose last layer makes its blocks.
    token
        What makes the array what it is. Equal tokens give equal names.
    """
    graph = array.dask
    name = f"{array.name.rsplit('-', 1)[0]}-{tokenize(token)}"
    layer = {_new_key(key, array.name, name): task for key, task in graph.layers[array.name].items()}
    layer = {key: task if task.key == key else task.substitute({}, key=key) for key, task in layer.items()}
    layers = {other: content for other, content in graph.layers.items() if other != array.name} | {name: layer}
    dependencies = {other: needs for other, needs in graph.dependencies.items() if other != array.name}
    dependencies[name] = graph.dependencies[array.name]
    return Array(HighLevelGraph(layers, dependencies), name, array.chunks, meta=array._meta)  # noqa: SLF001


def _new_key(key: Any, old: str, new: str) -> Any:
    return (new, *key[1:]) if isinstance(key, tuple) and key[0] == old else key
