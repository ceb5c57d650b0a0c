"""Entry point of the supervisor's process: ``python -m jupyter_gpudask.supervisor``."""

from __future__ import annotations

import asyncio
import os
import select
import traceback
from typing import NoReturn

from ..machine.lifeline import end_session, watch_parent
from .fork_server import Preparation


def main() -> None:
    """Run one cluster until the parent closes it, stdin ends, or the parent dies."""
    command_fd, event_fd = _take_stdio()
    watch_parent(os.getppid())
    if _has_hung_up(command_fd):  # the parent has ended before that
        return
    preparation = Preparation()
    preparation.prepare_gpu_workers()
    asyncio.run(_run(command_fd, event_fd, preparation))


async def _run(command_fd: int, event_fd: int, preparation: Preparation) -> NoReturn:
    """Run the supervisor, and exit at once: to finalize the interpreter with Dask takes seconds on a busy machine."""
    status = 1
    try:
        # Imported here, because the fork server imports other modules meanwhile.
        from ..protocol.transport import COMMAND_LIMIT, MessageStream
        from .supervisor import Supervisor

        stream = await MessageStream.from_pipes(command_fd, event_fd, limit=COMMAND_LIMIT)
        await Supervisor(stream, preparation).run()
        status = 0
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    finally:
        end_session()
        preparation.close()
        os._exit(status)


def _has_hung_up(pipe: int) -> bool:
    """Whether nobody can write to a pipe any more."""
    poll = select.poll()
    poll.register(pipe, 0)
    return bool(poll.poll(0))


def _take_stdio() -> tuple[int, int]:
    """Reserve stdin and stdout for messages.

    Other code in this process and in workers reads from ``/dev/null`` and prints to stderr instead.

    Returns file descriptors to read commands from and to write events to; child processes do not inherit them.
    """
    command_fd, event_fd = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return command_fd, event_fd


if __name__ == "__main__":
    main()
