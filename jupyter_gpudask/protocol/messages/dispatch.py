"""Dispatch of commands: the supervisor and, for kernels, the Jupyter server carry them out through `answer`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from ...errors import GpuDaskError, ProtocolError
from .. import Adapt, LogText, Refused, Release, Rename, Reset, Scale, SendLogs, SendState, StateReport, Watch

if TYPE_CHECKING:
    from .. import Answer, ClusterState, Command

logger = logging.getLogger(__name__)


class CommandHandler(Protocol):
    """Carries out the commands about one cluster; it refuses a command by raising a `GpuDaskError`."""

    async def state(self) -> ClusterState:
        """The current state."""

    async def scale(self, workers: int) -> ClusterState:
        """Scale to `workers` workers."""

    async def adapt(self, minimum: int, maximum: int) -> ClusterState:
        """Scale as the work requires, within a range."""

    async def reset(self) -> ClusterState:
        """Forget every result, task, actor and name."""

    async def release(self) -> ClusterState:
        """Release the finished results that clients hold."""

    async def log(self, worker: str, lines: int) -> str:
        """The last lines of a worker's log."""

    async def watch(self, interval: float) -> None:
        """Report the state every `interval` seconds."""

    async def rename(self, holder: str) -> None:
        """Change the name under which the GPUs are held."""


async def answer(command: Command, handler: CommandHandler) -> Answer | None:
    """Carry out `command`, which is neither the first nor the last one.

    Returns
    -------
    Answer or None
        The event to send; a `Refused` for every error, after which the cluster keeps running.
    """
    try:
        return await _carry_out(command, handler)
    except GpuDaskError as error:
        return Refused.from_error(error, command.id)
    except Exception as error:  # whatever Dask or the system raises
        logger.exception("The command %s failed", command.type)
        return Refused(answers=command.id, reason=f"{type(error).__name__}: {error}.")


async def _carry_out(command: Command, handler: CommandHandler) -> Answer | None:
    match command:
        case SendLogs(worker=worker, lines=lines):
            return LogText(answers=command.id, worker=worker, text=await handler.log(worker, lines))
        case Watch(interval=interval):
            await handler.watch(interval)
            return None
        case Rename(holder=holder):
            await handler.rename(holder)
            return None
        case SendState():
            state = await handler.state()
        case Scale(workers=workers):
            state = await handler.scale(workers)
        case Adapt(minimum=minimum, maximum=maximum):
            state = await handler.adapt(minimum, maximum)
        case Reset():
            state = await handler.reset()
        case Release():
            state = await handler.release()
        case _:
            raise ProtocolError("The start command can be sent only once.")
    return StateReport(answers=command.id, state=state)
