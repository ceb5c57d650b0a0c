"""Clients of local clusters that the notebook has started: in a cell they compute on the cluster of the cell.

Many notebooks begin with ``client = Client()``. Collections compute on the kernel's cluster all the same; results that
``client.persist(x)`` or ``client.submit(...)`` left on the other cluster could not be used with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distributed import Client, LocalCluster, futures_of

from ..overlay.config_overlay import current_overlay
from .default_client import default_client

if TYPE_CHECKING:
    from collections.abc import Callable


def on_cluster_of_cell(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a method of `distributed.Client`, called on the client of the cell if it is one of a local cluster.

    What has results of the local cluster among its arguments stays there, and so does an asynchronous client.
    """
    __tracebackhide__ = True
    cell = _client_of_cell()
    if cell is None or not args:
        return original(*args, **kwargs)
    client, *others = args
    if client is cell or not isinstance(client.cluster, LocalCluster) or client.asynchronous:
        return original(*args, **kwargs)
    if any(future.client is client for future in futures_of([others, kwargs])):
        return original(*args, **kwargs)
    return getattr(cell, original.__name__)(*others, **kwargs)


def _client_of_cell() -> Client | None:
    return None if current_overlay() is None else default_client.current()
