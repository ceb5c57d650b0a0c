"""Report a cluster that somebody else started to the kernel's Jupyter server, which shows it in the panel."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ...errors import ProtocolError
from ...protocol import ClusterVerbs, parse_command
from ...protocol.transport import Reporter
from ...protocol.verbs import answer, carry_out
from ..server_connection import request_stream

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ...protocol import Command, Joined

logger = logging.getLogger(__name__)


class PanelReports(Reporter):
    """Reports the state and the logs of a cluster to the server; the cluster refuses to be changed."""

    def __init__(self, cluster: ClusterVerbs) -> None:
        self._cluster = cluster

    def call(self, command: Command) -> Awaitable[Any]:
        """Carry out a command on the cluster."""
        return carry_out(command, self._cluster)

    async def run(self, joined: Joined) -> None:
        """Answer the server until it ends, or this is cancelled; without a server, do nothing."""
        try:
            stream = await request_stream(joined=joined, environment={})
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
            logger.warning("The panel does not show the cluster at %s: %s", joined.address, error)
