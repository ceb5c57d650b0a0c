"""The supervisor's process: ``python -m jupyter_gpudask.supervisor``."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from ..machine.lifeline import end_session, watch_parent
from ..protocol.transport import Channel, take_stdio
from .engines import warm_up
from .supervisor import Supervisor


async def _supervise(command_fd: int, event_fd: int) -> None:
    channel = await Channel.open(command_fd, event_fd)
    await Supervisor(channel, on_start=watch_parent).run()


def main() -> int:
    """Run one cluster until it is told to close, its stdin ends, or its parent dies."""
    command_fd, event_fd = take_stdio()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    if "--standby" in sys.argv:
        watch_parent(os.getppid())
        warm_up()
    try:
        asyncio.run(_supervise(command_fd, event_fd))
    finally:
        end_session()
    return 0


if __name__ == "__main__":
    sys.exit(main())
