"""Report a cluster that somebody else started to the kernel's Jupyter server, which shows it in the panel."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from ...errors import ProtocolError
from ...protocol import parse_command
from ...protocol.messages.dispatch import answer
from ...protocol.messages.reports import report_every
from ..server_connection import connect_panel

if TYPE_CHECKING:
    from ...protocol import ClusterState, Joined
    from ...protocol.messages.transport import MessageStream

logger = logging.getLogger(__name__)

_SCHEDULER = "supervisor"  # as the server calls the log of the process in which the scheduler runs


class ReportedCluster(Protocol):
    """What is reported of a cluster: its connection, its state, and the logs of its scheduler and workers."""

    joined: Joined

    async def state(self) -> ClusterState:
        """Its current state."""

    async def scheduler_log(self, lines: int) -> str:
        """The last lines of the scheduler's log."""

    async def worker_log(self, worker: str, lines: int) -> str:
        """The last lines of the log of a worker."""


class PanelReports:
    """Reports the state and the logs of a cluster to the server; and refuses to change it.

    Parameters
    ----------
    cluster
        The cluster.
    """

    def __init__(self, cluster: ReportedCluster) -> None:
        self._cluster = cluster
        self._stream: MessageStream
        self._watching: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Answer the server until it ends, or this is cancelled; without a server, do nothing."""
        try:
            stream = await connect_panel(self._cluster.joined)
            if stream is None:
                return
            self._stream = stream
            try:
                while (command := await stream.receive(parse_command)) is not None:
                    if (event := await answer(command, self)) is not None:
                        stream.send(event)
            finally:
                await self.watch(0)
                stream.close()
        except (OSError, ProtocolError) as error:
            logger.warning("The panel does not show the cluster at %s: %s", self._cluster.joined.address, error)

    async def state(self) -> ClusterState:
        """The current state."""
        return await self._cluster.state()

    async def log(self, worker: str, lines: int) -> str:
        """The last lines that a worker, or the scheduler, keeps in memory."""
        if worker == _SCHEDULER:
            return await self._cluster.scheduler_log(lines)
        return await self._cluster.worker_log(worker, lines)

    async def watch(self, interval: float) -> None:
        """Report the state every `interval` seconds; 0 stops the reports."""
        if self._watching is not None:
            self._watching.cancel()
        reports = report_every(interval, self._stream, self.state) if interval else None
        self._watching = None if reports is None else asyncio.create_task(reports)
