"""Clusters that somebody else started and to which kernels of this server are connected; the panel shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...launcher.connection import ClusterConnection
from ...protocol import ClusterSpec
from .cluster import KernelCluster
from .dashboard_address import dashboard_origin

if TYPE_CHECKING:
    from ...protocol import ClusterState, Joined
    from ...protocol.messages.transport import MessageStream
    from .cluster import ChangeCallback


class JoinedConnection(ClusterConnection):
    """The connection to a kernel, which answers read-only commands as a supervisor does.

    Parameters
    ----------
    ready
        What the kernel reports of the cluster.
    stream
        The kernel's connection to the socket of the server.
    """

    ready: Joined

    def __init__(self, ready: Joined, stream: MessageStream) -> None:
        super().__init__(ClusterSpec.parse({"engine": ready.engine}), stream)
        self.ready = ready

    async def run(self) -> None:
        """Receive what the kernel sends, until it disconnects or has left the cluster."""
        self._begin_reading(None)
        assert self._reading is not None
        try:
            await self._reading
        finally:
            self._reading.cancel()


class JoinedCluster(KernelCluster):
    """The cluster to which a kernel is connected.

    Parameters
    ----------
    kernel_id
        The kernel.
    connection
        The connection to the kernel.
    on_change
        Called after every change of the state of the workers.

    Attributes
    ----------
    dashboard
        Scheme, host and port of Dask's dashboard; `None` if it is off.
    """

    def __init__(self, kernel_id: str, connection: JoinedConnection, on_change: ChangeCallback) -> None:
        super().__init__(kernel_id, connection.spec, on_change)
        self.status = "ready"
        self.joined = connection.ready.address
        self.connection = connection
        self.dashboard = dashboard_origin(connection.ready.dashboard)

    @property
    def ready(self) -> Joined:
        """What the kernel reported when it had connected."""
        return self.connection.ready

    @property
    def has_dashboard(self) -> bool:
        """Whether the kernel reported the address of a dashboard."""
        return self.dashboard is not None

    def request_states(self, interval: float) -> None:
        """Have the kernel report the state of the workers every `interval` seconds; 0 stops the reports."""
        self.connection.watch(interval, self._on_state)

    async def logs(self, lines: int = 200) -> dict[str, str]:
        """The last lines that the scheduler, as ``supervisor``, and the workers keep in memory, by name."""
        names = ("supervisor", *(await self._read_state()).logged)
        return {name: await self.connection.worker_log(name, lines) for name in names}

    async def _read_state(self) -> ClusterState:
        return await self.connection.state()
