"""The maximum lifetime: close clusters that have been running for too long, after a warning."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ...errors import ClusterLifetimeError
from ...quantities import format_period

if TYPE_CHECKING:
    from collections.abc import Callable

    from .cluster import KernelCluster

_WARNING = 600.0
_INTERVAL = 10.0


async def end_after(
    cluster: KernelCluster, seconds: float, close: Callable[[KernelCluster, ClusterLifetimeError], None]
) -> None:
    """Close a cluster that is ready once it is so old, and warn its user ten minutes before.

    Parameters
    ----------
    cluster
        The cluster.
    seconds
        The maximum lifetime; the warning is given at the earliest after half of it.
    close
        Closes a cluster with an error, in the background.
    """
    end = time.monotonic() + seconds
    warning = min(_WARNING, seconds / 2)
    while cluster.status == "ready" and (left := end - time.monotonic()) > 0:
        if left <= warning and cluster.closes_at is None:
            cluster.warn_of_end(time.time() + left)
        await asyncio.sleep(min(left if cluster.closes_at else left - warning, _INTERVAL))
    if cluster.status == "ready":
        close(cluster, ClusterLifetimeError(period=format_period(seconds)))
