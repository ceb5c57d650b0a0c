"""Close or reset clusters when their kernels are restarted, shut down or die."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from jupyter_server.utils import ensure_async

from ..errors import ClusterLostError, GpuDaskError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .cluster import KernelCluster
    from .manager import ClusterManager

logger = logging.getLogger(__name__)

_POLL_INTERVAL = 2.0
_KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"


class KernelEventListener:
    """Listens to the server's kernel events.

    Jupyter Server emits an event for each action on a kernel, including the restart after a crash. When a kernel dies
    and is not restarted there is no event: the kernel manager then calls the callbacks registered for ``dead``.
    """

    def __init__(self, manager: ClusterManager, kernel_manager: Any, event_logger: Any) -> None:
        self._manager = manager
        self._kernels = kernel_manager
        self._event_logger = event_logger
        self._on_action: Mapping[str, Callable[[str], None]] = {
            "start": self._on_start,
            "restart": self._on_restart,
            "shutdown": self._on_end,
        }
        event_logger.add_listener(schema_id=_KERNEL_ACTIONS, listener=self._listen)
        for kernel_id in kernel_manager.list_kernel_ids():  # those that are already running
            self._on_start(kernel_id)

    def stop(self) -> None:
        """Remove the listener."""
        self._event_logger.remove_listener(schema_id=_KERNEL_ACTIONS, listener=self._listen)

    async def _listen(self, logger: Any, schema_id: str, data: Mapping[str, Any]) -> None:  # noqa: ARG002 - as called
        on_action = self._on_action.get(data["action"])
        if on_action is not None and data.get("status") == "success" and data.get("kernel_id"):
            on_action(data["kernel_id"])

    def _on_start(self, kernel_id: str) -> None:
        if kernel_id in self._kernels:
            if self._manager.needs_idle_times:
                self._manager.kernels.watch(kernel_id)
            if getattr(self._kernels.get_kernel(kernel_id), "autorestart", True):
                self._kernels.add_restart_callback(kernel_id, lambda: self._on_end(kernel_id), "dead")
            else:
                self._manager.spawn(self._poll(kernel_id))

    async def _poll(self, kernel_id: str) -> None:
        """Wait for the death of a kernel with `autorestart` disabled, for which no callback is called."""
        dead = 0
        while kernel_id in self._kernels:
            dead = 0 if await ensure_async(self._kernels.get_kernel(kernel_id).is_alive()) else dead + 1
            if dead == 2:  # a single time may be a restart in progress
                self._on_end(kernel_id)
            await asyncio.sleep(_POLL_INTERVAL)

    def _on_restart(self, kernel_id: str) -> None:
        """Apply the restart policy, after the old kernel process has ended."""
        manager = self._manager
        if manager.needs_idle_times:
            manager.kernels.watch(kernel_id)
        cluster = manager.clusters.get(kernel_id)
        if cluster is None or not cluster.alive:
            return
        if manager.policy.settings.restart_policy == "stop":
            error = ClusterLostError("kernel-restarted")
            manager.spawn(manager.close(kernel_id, error))
        elif manager.policy.settings.restart_policy == "renew":
            manager.restart(kernel_id, {}).unused = True
        else:
            cluster.unused = True
            if cluster.status == "ready":
                manager.spawn(self._reset(cluster))

    async def _reset(self, cluster: KernelCluster) -> None:
        kernel_id = cluster.kernel_id
        try:
            await cluster.reset()
        except GpuDaskError as error:
            if self._manager.clusters.get(kernel_id) is cluster and cluster.alive:
                logger.warning("The cluster of kernel %s could not be reset, and is restarted: %s", kernel_id, error)
                self._manager.restart(kernel_id, {}).unused = True

    def _on_end(self, kernel_id: str) -> None:
        """Close the cluster of a kernel that has ended."""
        self._manager.kernels.forget(kernel_id)
        if kernel_id in self._manager.clusters:
            self._manager.spawn(self._manager.close(kernel_id, reason="kernel ended"))
