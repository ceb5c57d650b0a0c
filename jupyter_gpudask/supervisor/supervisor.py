"""The supervisor: it starts one Dask cluster, executes the commands of its parent, and closes the cluster."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING, Any

import dask.config

from ..errors import ClusterStartError, GpuDaskError, ProtocolError
from ..machine.lifeline import end_session, on_forced_exit
from ..protocol.messages import Closed, Failed, Refused, check_protocol
from ..protocol.state import ClusterState
from ..protocol.transport import MessageStream, Reporter
from ..protocol.verbs import VERBS, Command, Start, answer, carry_out, parse_command

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ..machine.directories import ClusterDirectory
    from .dask_cluster import DaskCluster
    from .fork_server import Preparation
    from .remote_cluster import RemoteCluster
    from .supervised import Status

logger = logging.getLogger(__name__)

_ORPHAN_GRACE = 1.25
_LEAVE_LIMIT = 3.0
_CLOSE_GRACE = 4.0


class Supervisor(Reporter):
    """Runs one cluster, and carries out commands about it."""

    def __init__(self, stream: MessageStream, preparation: Preparation) -> None:
        self._stream = stream
        self._preparation = preparation
        self._directory: ClusterDirectory
        self._cluster: DaskCluster | RemoteCluster
        self._status: Status = "starting"
        self._over = asyncio.Event()
        self._end_reason = "parent ended"

    async def run(self) -> None:
        """Run from the first command until the cluster is closed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._over.set)
        first = await self._first_command()
        if first is None:
            return
        dask.config.update(dask.config.config, first.settings)
        try:
            self._directory = self._preparation.take_directory()
        except OSError as error:
            self._fail(ClusterStartError("no-directory", error=error))
            return
        self._cluster = _cluster_of(first, self._directory, self._preparation)
        on_forced_exit(self._clean_up)
        is_asked_to_close = False
        starting = asyncio.create_task(self._start())
        listening = asyncio.create_task(self._listen())
        ending = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait({starting, listening, ending}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and starting.result():
                closing = asyncio.create_task(self._cluster.wait_for_end())
                await asyncio.wait({listening, ending, closing}, return_when=asyncio.FIRST_COMPLETED)
                if closing.done() and isinstance(loss := closing.exception(), GpuDaskError):
                    self._fail(loss)
                    await self._cluster.wait_for_clients(_LEAVE_LIMIT)
                closing.cancel()
            is_asked_to_close = listening.done() and listening.result()
        finally:
            for task in (starting, listening, ending, self._watching):
                if task is not None:
                    task.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await self._end(is_asked_to_close=is_asked_to_close)

    async def _first_command(self) -> Start | None:
        """The request for a cluster; `None` without one, or if a signal comes first."""
        receiving = asyncio.create_task(self._stream.receive(parse_command))
        ending = asyncio.create_task(self._over.wait())
        await asyncio.wait({receiving, ending}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if not receiving.done():
            receiving.cancel()
            return None
        try:
            command = receiving.result()
            if command is None:
                return None
            if not isinstance(command, Start):
                self._fail(ProtocolError("start-first", command=command.type))
                return None
            sender = "Jupyter server" if command.kernel_id else "running kernel"
            check_protocol(command.protocol, receiver="kernel", sender=sender)
        except ProtocolError as error:
            self._fail(error)
            return None
        return command

    def _fail(self, error: GpuDaskError) -> None:
        self._end_reason = "failed"
        self._stream.send(Failed.from_error(error))

    async def _start(self) -> bool:
        try:
            self._stream.send(await self._cluster.open(self._stream.send))
        except GpuDaskError as error:
            self._fail(error)
        except Exception as error:  # whatever Dask or a driver raises is reported to the parent
            logger.exception("The cluster did not start")
            self._fail(ClusterStartError("not-started", error=f"{type(error).__name__}: {error}"))
        else:
            self._status = "ready"
            return True
        return False

    async def _listen(self) -> bool:
        """Carry out commands, one after the other, until the last one (true) or the end of stdin (false).

        These two do not wait for a command that takes long, such as a question to a scheduler that does not respond:
        the parent would kill this process before the cluster is closed, and what runs elsewhere would go on.
        """
        commands: asyncio.Queue[Command | Refused] = asyncio.Queue()
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(self._answer(commands))
            is_asked_to_close = await self._receive(commands)
            answering.cancel()
        return is_asked_to_close

    async def _receive(self, commands: asyncio.Queue[Command | Refused]) -> bool:
        while True:
            try:
                command = await self._stream.receive(parse_command)
            except GpuDaskError as error:
                commands.put_nowait(Refused.from_error(error))
                continue
            if command is None:
                return False
            if command.type == "close":
                self._end_reason = command.arguments["reason"]
                return True
            commands.put_nowait(command)

    async def _answer(self, commands: asyncio.Queue[Command | Refused]) -> None:
        while True:
            command = await commands.get()
            event = command if isinstance(command, Refused) else await answer(command, self)
            if event is not None:
                self._stream.send(event)

    def call(self, command: Command) -> Awaitable[Any]:
        """Carry out a command that changes the cluster, which gives its state."""
        is_of_cluster = hasattr(self._cluster, VERBS[command.type].name)
        return self._change(command) if is_of_cluster else super().call(command)

    async def _change(self, command: Command) -> ClusterState:
        self._check_ready()
        await carry_out(command, self._cluster)
        return await self.state()

    async def state(self) -> ClusterState:
        """The current state of the cluster."""
        self._check_ready()
        return await self._cluster.state(self._status)

    async def worker_log(self, worker: str, lines: int = 50) -> str:
        """The last lines of a worker's log."""
        return await self._cluster.worker_log(worker, lines)

    async def rename(self, holder: str) -> None:
        """Change the name under which the GPUs are reserved."""
        await asyncio.to_thread(self._cluster.rename, holder)

    async def keep(self) -> str:
        """Nobody waits: only a Jupyter server asks an idle cluster for its GPUs."""
        return ""

    async def state_to_report(self) -> ClusterState | None:
        """The state, once the cluster is ready."""
        return await self.state() if self._status == "ready" else None

    def _check_ready(self) -> None:
        if self._status == "starting":
            raise ProtocolError("still-starting")

    async def _end(self, *, is_asked_to_close: bool) -> None:
        is_ready, self._status = self._status == "ready", "closing"
        grace = _CLOSE_GRACE if is_asked_to_close else _ORPHAN_GRACE
        try:
            if is_asked_to_close and is_ready:
                await self._cluster.close(grace)
            else:
                await self._cluster.abandon(grace)
        except (Exception, asyncio.CancelledError):  # the latter if Dask awaits a task of a start that was cancelled
            logger.exception("The cluster did not close in time; its processes are killed")
        # Nannies, which run in this event loop, start no other workers meanwhile.
        end_session()
        self._clean_up()  # now that no process uses the GPUs of the lease any more
        self._stream.send(Closed())
        await self._stream.flush()

    def _clean_up(self) -> None:
        self._cluster.end(self._end_reason)
        self._directory.remove()


def _cluster_of(request: Start, directory: ClusterDirectory, preparation: Preparation) -> DaskCluster | RemoteCluster:
    fork_server = preparation.take_fork_server(request, directory)
    # Imported here, because it takes seconds, in which the fork server imports what workers need.
    from .dask_cluster import DaskCluster
    from .engines import has_remote_scheduler
    from .remote_cluster import RemoteCluster

    # After the import of distributed, which otherwise leaves its log to this handler, whose lines have no time.
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    class_ = request.cluster_class
    if class_ is not None and has_remote_scheduler(class_):
        return RemoteCluster(request, class_)
    return DaskCluster(request, directory, fork_server)
