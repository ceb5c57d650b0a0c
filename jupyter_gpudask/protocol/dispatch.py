"""What answers a command about a cluster, be it of the supervisor or, for a kernel, of the Jupyter server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from ..errors import GpuDaskError, ProtocolError
from . import Empty, LogText, Refused, Rename, Scale, SendLogs, SendState, StateReport, Watch

if TYPE_CHECKING:
    from . import Answer, ClusterState, Command

logger = logging.getLogger(__name__)


class CommandedCluster(Protocol):
    """A cluster that commands are about; what it cannot do it refuses by a `GpuDaskError`."""

    async def state(self) -> ClusterState:
        """What it is doing now."""

    async def scale(self, workers: int) -> ClusterState:
        """Have so many workers."""

    async def empty(self) -> ClusterState:
        """Forget what it computed and keeps."""

    async def log(self, worker: str, lines: int) -> str:
        """The last lines of a worker's log."""

    async def watch(self, interval: float) -> None:
        """Report the state every `interval` seconds."""

    async def rename(self, holder: str) -> None:
        """From now on `holder` holds its GPUs."""


async def answer(command: Command, cluster: CommandedCluster) -> Answer | None:
    """Carry out `command`, other than the first and the last.

    Returns
    -------
    Answer or None
        What to send; whatever goes wrong is a `Refused`, and the cluster goes on.
    """
    try:
        return await _carry_out(command, cluster)
    except GpuDaskError as error:
        return Refused(answers=command.id, reason=error.reason, fix=error.fix)
    except Exception as error:  # whatever Dask or the system raises
        logger.exception("The command %s failed", command.type)
        return Refused(answers=command.id, reason=f"{type(error).__name__}: {error}.")


async def _carry_out(command: Command, cluster: CommandedCluster) -> Answer | None:
    match command:
        case SendState():
            return StateReport(answers=command.id, state=await cluster.state())
        case Scale(workers=workers):
            return StateReport(answers=command.id, state=await cluster.scale(workers))
        case Empty():
            return StateReport(answers=command.id, state=await cluster.empty())
        case SendLogs(worker=worker, lines=lines):
            return LogText(answers=command.id, worker=worker, text=await cluster.log(worker, lines))
        case Watch(interval=interval):
            await cluster.watch(interval)
        case Rename(holder=holder):
            await cluster.rename(holder)
        case _:
            raise ProtocolError("A cluster is started once.")
    return None
