"""Clients of local clusters that the notebook has started: in a cell they compute on the cluster of the cell.

Many notebooks begin with ``client = Client()``. Collections compute on the kernel's cluster all the same; results that
``client.persist(x)`` or ``client.submit(...)`` left on the other cluster could not be used with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from distributed import Client, LocalCluster, futures_of

from ..overlay.config_overlay import current_overlay
from .default_client import default_client

if TYPE_CHECKING:
    from collections.abc import Callable


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
    owners = {future.client for future in futures_of([others, kwargs])}
    known = next(iter(owners & set(_clients_of_cells)), None)
    chosen = known if cell is None else cell
    if chosen is None or client in owners:
        return original(*args, **kwargs)
    _clients_of_cells.add(chosen)
    return getattr(chosen, original.__name__)(*others, **kwargs)


_clients_of_cells: WeakSet[Client] = WeakSet()
"""Those on which methods of other clients were called."""
