"""The idle timeout: close clusters that had no work for too long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...errors import ClusterIdleError
from ...quantities import format_period

if TYPE_CHECKING:
    from .cluster import KernelCluster
    from .kernels import Kernels


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

    def __init__(self, seconds: float, kernels: Kernels) -> None:
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
