"""What becomes of a cluster when something becomes of its kernel."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from jupyter_server.utils import ensure_async

from ...errors import ClusterLostError, GpuDaskError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .cluster import KernelCluster
    from .manager import ClusterManager

logger = logging.getLogger(__name__)

_LOOK_INTERVAL = 2.0
_KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"


class KernelFollower:
    """Tells the manager what becomes of kernels.

    Jupyter Server emits an event for what is done to a kernel, the restart after a crash included. A kernel that dies
    for good emits none: it calls those who have asked for that.

    Parameters
    ----------
    manager
        Whom to tell.
    kernel_manager, event_logger
        The server's.
    """

    def __init__(self, manager: ClusterManager, kernel_manager: Any, event_logger: Any) -> None:
        self._manager = manager
        self._kernels = kernel_manager
        self._event_logger = event_logger
        self._on_action: Mapping[str, Callable[[str], None]] = {
            "start": self._follow,
            "restart": self._restarted,
            "shutdown": self._ended,
        }
        event_logger.add_listener(schema_id=_KERNEL_ACTIONS, listener=self._listen)
        for kernel_id in kernel_manager.list_kernel_ids():  # those that were there before us
            self._follow(kernel_id)

    def stop(self) -> None:
        """Listen no more."""
        self._event_logger.remove_listener(schema_id=_KERNEL_ACTIONS, listener=self._listen)

    async def _listen(self, logger: Any, schema_id: str, data: Mapping[str, Any]) -> None:  # noqa: ARG002 - as called
        on_action = self._on_action.get(data["action"])
        if on_action is not None and data.get("status") == "success" and data.get("kernel_id"):
            on_action(data["kernel_id"])

    def _follow(self, kernel_id: str) -> None:
        if kernel_id in self._kernels:
            if getattr(self._kernels.get_kernel(kernel_id), "autorestart", True):
                self._kernels.add_restart_callback(kernel_id, lambda: self._ended(kernel_id), "dead")
            else:
                self._manager.spawn(self._look_after(kernel_id))
            self._manager.spawn(self._manager.standby.prepare(kernel_id))

    async def _look_after(self, kernel_id: str) -> None:
        """Follow a kernel that nobody restarts when it dies, and of whose death nobody is told."""
        dead = 0
        while kernel_id in self._kernels:
            dead = 0 if await ensure_async(self._kernels.get_kernel(kernel_id).is_alive()) else dead + 1
            if dead == 2:  # once can be in the middle of a restart
                self._ended(kernel_id)
            await asyncio.sleep(_LOOK_INTERVAL)

    def _restarted(self, kernel_id: str) -> None:
        """Do with the cluster what the policy says, now that nothing of the old kernel is left."""
        manager = self._manager
        cluster = manager.clusters.get(kernel_id)
        if cluster is None or not cluster.alive:
            return
        if manager.policy.settings.restart_policy == "stop":
            why = ClusterLostError("The cluster was closed when its kernel was restarted.", "Type: %gpudask start")
            manager.spawn(manager.close(kernel_id, why))
        elif manager.policy.settings.restart_policy == "renew":
            manager.restart(kernel_id, {})
        elif cluster.status == "ready":
            manager.spawn(self._empty(cluster))

    async def _empty(self, cluster: KernelCluster) -> None:
        kernel_id = cluster.kernel_id
        try:
            await self._manager.empty(cluster)
        except GpuDaskError as error:
            if self._manager.clusters.get(kernel_id) is cluster and cluster.alive:
                logger.warning("The cluster of kernel %s cannot be emptied, and is restarted: %s", kernel_id, error)
                self._manager.restart(kernel_id, {})

    def _ended(self, kernel_id: str) -> None:
        """Close the cluster, and forget it."""
        if kernel_id in self._manager.clusters:
            self._manager.spawn(self._manager.close(kernel_id))
