"""Clusters without work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...errors import ClusterIdleError

if TYPE_CHECKING:
    from .cluster import KernelCluster
    from .kernels import Kernels


class IdleWatch:
    """Says which clusters have had no work for too long.

    Parameters
    ----------
    timeout
        Seconds that are allowed; 0 for any time.
    kernels
        A kernel that is busy is at work, whatever its cluster does.

    Attributes
    ----------
    interval
        How many seconds apart a cluster must be looked at; 0 for never.
    """

    def __init__(self, timeout: float, kernels: Kernels) -> None:
        self._timeout = timeout
        self._kernels = kernels
        self.interval = min(30.0, max(0.2, timeout / 5)) if timeout else 0.0

    def verdict(self, cluster: KernelCluster) -> ClusterIdleError | None:
        """Why it is to be closed, if it is."""
        if not self._timeout:
            return None
        if self._kernels.is_busy(cluster.kernel_id):
            cluster.busy_at = time.monotonic()
        is_over = time.monotonic() - cluster.busy_at > self._timeout
        return ClusterIdleError(self._timeout) if is_over else None
