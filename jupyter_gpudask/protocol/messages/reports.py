"""Reports of a cluster's state, as the command `Watch` asks for them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from ...errors import ClusterLostError
from .events import StateReport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..cluster.state import ClusterState
    from .transport import MessageStream

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
    while True:
        if stream.backlog <= _MAX_BACKLOG:
            with suppress(ClusterLostError):  # which is reported elsewhere, if the cluster stays lost
                state = await read()
                if state is not None:
                    stream.send(StateReport(state=state))
        await asyncio.sleep(interval)
