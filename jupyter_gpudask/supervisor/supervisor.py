"""The supervisor: starts one Dask cluster, reports on it, and closes it, as its parent commands."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING

from ..errors import ClusterStartError, GpuDaskError, ProtocolError
from ..machine.directories import ClusterDirectory, tail, worker_log
from ..machine.lifeline import before_forced_end, end_session
from ..protocol import PROTOCOL_VERSION, Close, Closed, Failed, Refused, Start, StateReport
from ..protocol.dispatch import answer
from .hosted_cluster import HostedCluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol import ClusterState
    from ..protocol.transport import Channel
    from .metrics import Status

logger = logging.getLogger(__name__)

_ORPHAN_GRACE = 1.5
_CLOSE_GRACE = 4.0


class Supervisor:
    """Runs one cluster.

    Parameters
    ----------
    channel
        The pipes to the parent.
    on_start
        Called once with the parent's pid, before anything is started.
    """

    def __init__(self, channel: Channel, on_start: Callable[[int], None]) -> None:
        self._channel = channel
        self._on_start = on_start
        self._directory: ClusterDirectory
        self._cluster: HostedCluster
        self._status: Status = "starting"
        self._watching: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Live from the first command to the close."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._over.set)
        first = await self._first_command()
        if first is None:
            return
        self._on_start(first.parent)
        if first.environment is not None:
            os.environ.clear()
            os.environ.update(first.environment)
        try:
            self._directory = ClusterDirectory()
        except OSError as error:
            reason = f"No folder for the cluster can be made: {error}."
            self._fail(ClusterStartError(reason, "Free some space there, or set TMPDIR to another folder."))
            return
        self._cluster = HostedCluster(first, self._directory)
        before_forced_end(self._leave_nothing)
        grace = _ORPHAN_GRACE
        starting = asyncio.create_task(self._start())
        listening = asyncio.create_task(self._listen())
        ending = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait({starting, listening, ending}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and starting.result():
                closing = asyncio.create_task(self._cluster.finished())  # by a client's `shutdown`
                await asyncio.wait({listening, ending, closing}, return_when=asyncio.FIRST_COMPLETED)
                closing.cancel()
            if listening.done() and listening.result():
                grace = _CLOSE_GRACE
        finally:
            for task in (starting, listening, ending, self._watching):
                if task is not None:
                    task.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await self._close(grace)

    async def _first_command(self) -> Start | None:
        try:
            command = await self._channel.receive()
        except ProtocolError as error:
            self._fail(error)
            return None
        if command is None:
            return None
        if not isinstance(command, Start):
            self._fail(ProtocolError(f"The first command is start, not {command.type}."))
            return None
        if command.protocol != PROTOCOL_VERSION:
            reason = f"The supervisor speaks protocol {PROTOCOL_VERSION}, its parent {command.protocol}."
            self._fail(ProtocolError(reason, "Restart the kernel and the Jupyter server."))
            return None
        return command

    def _fail(self, error: GpuDaskError) -> None:
        log = getattr(error, "log", "")
        self._channel.send(Failed(kind=type(error).__name__, reason=error.reason, fix=error.fix, log=log))

    async def _start(self) -> bool:
        try:
            self._channel.send(await self._cluster.open(self._channel.send))
        except GpuDaskError as error:
            self._fail(error)
        except Exception as error:  # whatever Dask or a driver raises: the parent must hear of it
            logger.exception("The cluster did not start")
            self._fail(ClusterStartError(f"The cluster did not start: {type(error).__name__}: {error}."))
        else:
            self._status = "ready"
            return True
        return False

    async def _listen(self) -> bool:
        """Carry out commands until the close (true) or the end of stdin (false)."""
        while True:
            try:
                command = await self._channel.receive()
                if command is None or isinstance(command, Close):
                    return command is not None
            except GpuDaskError as error:
                self._channel.send(Refused(reason=error.reason, fix=error.fix))
                continue
            event = await answer(command, self)
            if event is not None:
                self._channel.send(event)

    async def state(self) -> ClusterState:
        """What the workers do now."""
        self._check_ready()
        return await self._cluster.state(self._status)

    async def scale(self, workers: int) -> ClusterState:
        """Have `workers` workers from now on."""
        self._check_ready()
        self._cluster.scale(workers)
        return await self.state()

    async def empty(self) -> ClusterState:
        """Forget what the cluster computed and keeps."""
        self._check_ready()
        await self._cluster.empty()
        return await self.state()

    async def log(self, worker: str, lines: int) -> str:
        """The last lines of the log of the worker of that name."""
        return tail(worker_log(self._directory.logs, worker), lines)

    async def rename(self, holder: str) -> None:
        """From now on `holder` holds the GPUs."""
        await asyncio.to_thread(self._cluster.rename, holder)

    async def watch(self, interval: float) -> None:
        """Report the state every `interval` seconds; 0 ends that."""
        if self._watching is not None:
            self._watching.cancel()
        self._watching = asyncio.create_task(self._report_every(interval)) if interval else None

    def _check_ready(self) -> None:
        if self._status == "starting":
            raise ProtocolError("The cluster is still starting.")

    async def _report_every(self, interval: float) -> None:
        while True:
            if self._status == "ready":
                self._channel.send(StateReport(state=await self.state()))
            await asyncio.sleep(interval)

    async def _close(self, grace: float) -> None:
        self._status = "closing"
        try:
            await self._cluster.close(grace)
        except Exception:
            logger.exception("The cluster did not close in %s s; its processes are killed", grace)
        await asyncio.to_thread(end_session)  # no lease may be given up before its GPU is
        self._leave_nothing()
        self._channel.send(Closed())
        await self._channel.flush()

    def _leave_nothing(self) -> None:
        self._cluster.release()
        self._directory.remove()
