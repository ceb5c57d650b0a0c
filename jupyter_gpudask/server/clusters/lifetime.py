"""Close clusters that have been running for too long, after a warning, or that had no work for too long."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ...errors import ClusterIdleError, ClusterLifetimeError
from ...quantities import format_period

if TYPE_CHECKING:
    from collections.abc import Callable

    from .cluster import KernelCluster
    from .kernels import ServerKernels

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


class IdleTimeout:
    """Decides whether a cluster is closed for being idle.

    Parameters
    ----------
    seconds
        The timeout; 0 disables it.
    kernels
        The kernels of the server: while a kernel is busy its cluster is not idle.

    Attributes
    ----------
    interval
        Seconds between two checks; 0 if the timeout is disabled.
    """

    def __init__(self, seconds: float, kernels: ServerKernels) -> None:
        self._seconds = seconds
        self._kernels = kernels
        self.interval = min(30.0, max(0.2, seconds / 5)) if seconds else 0.0

    def check(self, cluster: KernelCluster) -> ClusterIdleError | None:
        """The error with which to close `cluster`, if it has been idle for longer than the timeout."""
        if not self._seconds:
            return None
        if self._kernels.is_busy(cluster.kernel_id):
            cluster.last_busy = time.monotonic()
        last_used = max(cluster.last_busy, self._kernels.last_cell(cluster.kernel_id))
        is_idle = time.monotonic() - last_used > self._seconds
        return ClusterIdleError(period=format_period(self._seconds)) if is_idle else None
