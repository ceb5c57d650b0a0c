"""Clients of local clusters that the notebook has started: in a cell they compute on the cluster of the cell.

Many notebooks begin with ``client = Client()``. Collections compute on the kernel's cluster all the same; results that
``client.persist(x)`` or ``client.submit(...)`` left on the other cluster could not be used with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from dask._expr import Expr
from dask._task_spec import DataNode, Task
from dask.base import is_dask_collection
from dask.highlevelgraph import HighLevelGraph
from distributed import Client, Future, LocalCluster

from ..inspection.arguments import bind
from ..overlay.config_overlay import current_overlay
from .default_client import default_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def on_cluster_of_cell(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a method of `distributed.Client`, called on the client of the cell if it is one of a local cluster.

    What has results of the local cluster among its arguments stays there, and so does an asynchronous client. After the
    cell, what has results of the cell's client is called on that one.
    """
    __tracebackhide__ = True
    cell = None if current_overlay() is None else default_client.current()
    if not args or (cell is None and not _clients_of_cells):
        return original(*args, **kwargs)
    client, *others = args
    if client is cell or not isinstance(getattr(client, "cluster", None), LocalCluster) or client.asynchronous:
        return original(*args, **kwargs)
    owners = set(_clients_of([others, kwargs]))
    chosen = next((owner for owner in owners if owner in _clients_of_cells), None) if cell is None else cell
    # Dask gathers each future of an iterator by itself.
    is_iterator = any(isinstance(given, Iterator) for given in others) and original.__name__ == "gather"
    if chosen is None or client in owners or is_iterator:
        return original(*args, **kwargs)
    _clients_of_cells.add(chosen)
    if original.__name__ == "get_dataset":
        with suppress(KeyError):
            return chosen.get_dataset(bind(original, args, kwargs).arguments["name"])
        return original(*args, **kwargs)  # it may have been published before the cell
    return getattr(chosen, original.__name__)(*others, **kwargs)


_clients_of_cells: WeakSet[Client] = WeakSet()
"""Those on which methods of other clients were called."""


def _clients_of(value: Any) -> Iterator[Client]:
    """The clients of the futures in a value: in containers, collections and their tasks.

    `distributed.futures_of` makes the graphs of collections for that, for which Dask may compute divisions.
    """
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, Future):
            yield part.client
        elif isinstance(part, Task):
            stack.extend((*part.args, *part.kwargs.values()))
        elif isinstance(part, DataNode):
            stack.append(part.value)
        elif type(part) in (tuple, list, set, frozenset):
            stack.extend(part)
        elif type(part) is dict:
            stack.extend(part.values())
        elif is_dask_collection(part):
            stack.extend(_held_by(part))


def _held_by(collection: Any) -> Iterable[Any]:
    """The parts of a collection in which futures may be."""
    if hasattr(type(collection), "_meta") and hasattr(collection, "expr"):  # a Delayed object has every attribute
        return [part for each in collection.expr.walk() for part in each.operands if not isinstance(part, Expr)]
    graph = collection.__dask_graph__()
    if not isinstance(graph, HighLevelGraph):
        return list(graph.values())
    # Layers that are materialized have a mapping, those of blockwise operations have literals among their indices.
    return [dict(getattr(layer, "mapping", {})) or getattr(layer, "indices", ()) for layer in graph.layers.values()]
