"""The verbs of a kernel's cluster at the Jupyter server, whether the kernel or a browser asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import ClusterLostError
from ...protocol import VERBS, ClusterVerbs

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ...protocol import ClusterState, Command
    from ..metrics.monitor import Monitor
    from .cluster import KernelCluster
    from .manager import ClusterManager


class ServerVerbs(ClusterVerbs):
    """Applies the administrator's limits, and forwards what the supervisor answers."""

    def __init__(self, manager: ClusterManager, monitor: Monitor, kernel_id: str = "") -> None:
        self._manager, self._monitor, self._kernel_id = manager, monitor, kernel_id

    def call(self, command: Command) -> Awaitable[Any]:
        """Forward a command that the REST interface has, too."""
        is_operation = command.type in VERBS and VERBS[command.type].operation
        return self._change(command) if is_operation else super().call(command)

    async def state(self) -> ClusterState:
        """The current state, with the metrics of GPUs."""
        cluster = self._manager.get_shown(self._kernel_id)
        await cluster.refresh()
        return await self._state(cluster)

    async def worker_log(self, worker: str, lines: int = 50) -> str:
        """The last lines of the log of a worker or of the supervisor."""
        return (await self._manager.get(self._kernel_id).logs(lines)).get(worker, "")

    async def keep(self) -> str:
        """Keep the GPUs; who waits for them."""
        cluster = self._owned("keep")
        wanted_by = "" if cluster.notice is None else cluster.notice.user
        self._manager.keep(self._kernel_id)
        return wanted_by

    async def _change(self, command: Command) -> ClusterState:
        cluster = self._owned(command.type)
        for name in {"workers", "maximum"} & command.arguments.keys():
            self._manager.policy.check_workers(command.arguments[name])
        await cluster.change(command)
        return await self._state(cluster)

    def _owned(self, action: str) -> KernelCluster:
        cluster = self._manager.get_shown(self._kernel_id)
        cluster.check_possible(action)
        return cluster

    async def _state(self, cluster: KernelCluster) -> ClusterState:
        if cluster.state is None:
            raise ClusterLostError("no-state")
        return await self._monitor.with_gpu_metrics(cluster.state)
