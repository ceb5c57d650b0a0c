"""Reports of a cluster's state, as the command `Watch` asks for them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ...errors import ClusterLostError
from .events import StateReport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..cluster.state import ClusterState
    from .transport import MessageStream

logger = logging.getLogger(__name__)

_MAX_BACKLOG = 2**20


async def report_every(
    interval: float, stream: MessageStream, read: Callable[[], Awaitable[ClusterState | None]]
) -> None:
    """Send the state of a cluster every `interval` seconds, until this is cancelled.

    Parameters
    ----------
    interval
        Seconds between two reports.
    stream
        To whoever watches; one that does not keep up misses reports.
    read
        Reads the state; `None` if there is nothing to report.
    """
    problem = ""
    while True:
        if stream.backlog <= _MAX_BACKLOG:
            try:
                state = await read()
            except ClusterLostError:  # reported elsewhere, if the cluster stays lost
                state = None
            except Exception as error:  # one failure must not end the reports for good
                state = None
                if str(error) != problem:
                    logger.warning("The state of the cluster cannot be reported: %s", error, exc_info=error)
                problem = str(error)
            if state is not None:
                problem = ""
                stream.send(StateReport(state=state))
        await asyncio.sleep(interval)
