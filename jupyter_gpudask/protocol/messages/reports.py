"""Reports of a cluster's state, as the verb `watch` asks for them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ...errors import ClusterLostError
from .events import StateReport
from .verbs import ClusterVerbs

if TYPE_CHECKING:
    from ..cluster.state import ClusterState
    from .transport import MessageStream

logger = logging.getLogger(__name__)

_MAX_BACKLOG = 2**20


class Reporter(ClusterVerbs):
    """Answers commands about a cluster that come on a stream, on which it also sends reports of the state."""

    _stream: MessageStream
    _watching: asyncio.Task[None] | None = None

    async def watch(self, interval: float = 1.0) -> None:
        """Report the state every `interval` seconds; 0 stops the reports."""
        if self._watching is not None:
            self._watching.cancel()
        self._watching = asyncio.create_task(self._report_every(interval)) if interval else None

    async def state_to_report(self) -> ClusterState | None:
        """The state; `None` if there is nothing to report."""
        return await self.state()

    async def _report_every(self, interval: float) -> None:
        """Report until this is cancelled; a parent that does not keep up misses reports."""
        problem = ""
        while True:
            if self._stream.backlog <= _MAX_BACKLOG:
                try:
                    state = await self.state_to_report()
                except ClusterLostError:  # reported elsewhere, if the cluster stays lost
                    state = None
                except Exception as error:  # one failure must not end the reports for good
                    state = None
                    if str(error) != problem:
                        logger.warning("The state of the cluster cannot be reported: %s", error, exc_info=error)
                    problem = str(error)
                if state is not None:
                    problem = ""
                    self._stream.send(StateReport(state=state))
            await asyncio.sleep(interval)
