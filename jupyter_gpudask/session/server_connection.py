"""Attach to the cluster that the Jupyter server holds for this kernel, or start one: there, or in the kernel itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..errors import ClusterLostError, ClusterStartError, GpuDaskError, NoClusterError
from ..launcher.cluster_process import ClusterProcess
from ..launcher.connection import ClusterConnection, LostCallback, ProgressCallback
from ..machine.unix_socket import connect_socket, socket_path
from ..protocol import Close, Closed, ClusterSpec, Failed, Keep, Kept, ReportAutomatic, ReportCell, parse_event
from ..protocol.messages.attach import Attach
from ..protocol.messages.transport import COMMAND_LIMIT, EVENT_LIMIT, MessageStream

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from ..protocol import Joined

_CLOSE_TIMEOUT = 7.0
_RESPONSE_TIMEOUT = 10.0


class ServerCluster(ClusterConnection):
    """A cluster that the Jupyter server holds for this kernel; created by `attach`."""

    _loop: asyncio.AbstractEventLoop

    @classmethod
    async def attach(
        cls,
        connection: socket.socket,
        request: Attach,
        *,
        on_progress: ProgressCallback | None = None,
        on_lost: LostCallback | None = None,
    ) -> Self:
        """Request the cluster from the server and wait until it is up.

        Parameters
        ----------
        connection
            Connected to the server's socket.
        request
            The kernel, and the options of the cluster to start if there is none.
        on_progress
            Called for each worker that is up.
        on_lost
            Called if the cluster is lost.

        Raises
        ------
        NoClusterError
            There is no cluster, and the request has no options to start one.
        GpuDaskError
            The cluster did not start. Its processes have been stopped, as when this coroutine is cancelled.
        """
        stream = await MessageStream.from_socket(connection, limit=EVENT_LIMIT)
        cluster = cls(ClusterSpec.parse({}), stream)
        cluster._loop = asyncio.get_running_loop()
        try:
            stream.send(request)
            cluster.ready = await cluster._wait_until_ready(on_progress)
        except BaseException:
            stream.close()
            raise
        assert cluster.ready.spec is not None
        cluster.spec = cluster.ready.spec
        cluster._begin_reading(on_lost)
        return cluster

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        return self.ready.pid

    def log(self, lines: int = 200) -> str:
        """The last lines of the supervisor's log; must not be called in the thread of the event loop."""
        return asyncio.run_coroutine_threadsafe(self.worker_log("supervisor", lines), self._loop).result(
            _RESPONSE_TIMEOUT
        )

    async def report_automatic(self, *, on: bool) -> None:
        """Report to the server whether every cell runs as if ``%%gpudask`` stood above it."""
        with contextlib.suppress(ClusterLostError):  # which the next use of the cluster reports
            self._send(ReportAutomatic(on=on))

    async def report_cell(self, fallback_blocks: int) -> None:
        """Report to the server that a cell has ended."""
        with contextlib.suppress(ClusterLostError):
            self._send(ReportCell(fallback_blocks=fallback_blocks))

    async def keep(self) -> str:
        """Answer the notice of the server that somebody waits for the GPUs of the idle cluster; who waits."""
        return (await self._ask(Keep(), Kept)).wanted_by

    async def close(self) -> None:
        """Ask the server to close the cluster, and wait until it has; one that has failed is closed by the server."""
        if self._failure is not None:
            await self.detach()
            return
        self._closing = True
        try:
            with contextlib.suppress(OSError, TimeoutError, ClusterLostError):
                self._send(Close())
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    while not self._ended:
                        await asyncio.sleep(0.02)
        finally:
            await self.detach()

    async def detach(self) -> None:
        """End the connection; the server keeps the cluster, whose end is not reported any more."""
        self._closing = True
        if self._reading is not None:
            self._reading.cancel()
        self._stream.close()

    async def _after_end(self) -> None:
        self._stream.close()

    async def _ended_before_ready(self) -> GpuDaskError:
        return ClusterStartError("server-shut-down")


def kernel_id() -> str:
    """The id of this kernel; empty if no Jupyter server started this process."""
    server = _server()
    return "" if server is None else server[0]


def has_server() -> bool:
    """Whether a Jupyter server with the extension started this kernel."""
    server = _server()
    return server is not None and server[1].exists()


async def attach_cluster(on_lost: LostCallback) -> ServerCluster | None:
    """Attach to the cluster that the server holds for this kernel, and wait until it is up; `None` if there is none."""
    connected = _connect()
    if connected is None:
        return None
    connection, kernel_id = connected
    try:
        return await ServerCluster.attach(connection, _request(kernel_id), on_lost=on_lost)
    except NoClusterError:
        return None


async def close_cluster() -> bool:
    """Close the cluster that the server holds for this kernel, also while it is starting; whether there was one."""
    connected = _connect()
    if connected is None:
        return False
    connection, kernel_id = connected
    stream = await MessageStream.from_socket(connection, limit=EVENT_LIMIT)
    try:
        stream.send(_request(kernel_id))
        stream.send(Close())
        async with asyncio.timeout(_CLOSE_TIMEOUT):
            while (event := await stream.receive(parse_event)) is not None:
                if isinstance(event, Failed):
                    raise event.to_error()
                if isinstance(event, Closed):
                    return True
    except NoClusterError:
        return False
    except TimeoutError:  # the server is still closing it
        return True
    finally:
        stream.close()
    return False  # the server has hung up without reading further, as there is none


async def start_cluster(
    spec: ClusterSpec,
    *,
    path: Sequence[str],
    settings: dict[str, Any],
    on_progress: ProgressCallback,
    on_lost: LostCallback | None,
) -> ServerCluster | ClusterProcess:
    """Start a cluster in the Jupyter server, if there is one with the extension; else as a child of this process.

    Parameters
    ----------
    spec, path, settings, on_progress
        See `ClusterProcess.start`.
    on_lost
        Called if the cluster is lost; `None` for a temporary cluster, which is always a child of this process.
    """
    connected = _connect() if on_lost is not None else None
    if connected is None:
        holder = Path(os.environ.get("JPY_SESSION_NAME", "")).name
        return await ClusterProcess.start(
            spec, path=path, settings=settings, holder=holder, on_progress=on_progress, on_lost=on_lost
        )
    connection, kernel_id = connected
    update = {"options": _options(spec), "path": tuple(path), "settings": settings}
    request = _request(kernel_id).model_copy(update=update)
    return await ServerCluster.attach(connection, request, on_progress=on_progress, on_lost=on_lost)


async def connect_panel(joined: Joined) -> MessageStream | None:
    """A stream on which the server sends commands about a cluster of somebody else; `None` without a server.

    Parameters
    ----------
    joined
        The connection of this kernel to the cluster.
    """
    connected = _connect()
    if connected is None:
        return None
    connection, kernel_id = connected
    stream = await MessageStream.from_socket(connection, limit=COMMAND_LIMIT)
    stream.send(Attach(kernel_id=kernel_id, joined=joined, python=sys.executable, environment={}))
    return stream


async def check_options(spec: ClusterSpec) -> None:
    """Ask the Jupyter server, if there is one, whether it would restart the cluster with these options.

    Raises
    ------
    LimitError, ProfileNotFoundError, SpecError
        It would not.
    """
    connected = _connect()
    if connected is None:
        return
    connection, kernel_id = connected
    stream = await MessageStream.from_socket(connection, limit=EVENT_LIMIT)
    try:
        request = _request(kernel_id).model_copy(update={"options": _options(spec), "check": True})
        stream.send(request)
        async with asyncio.timeout(_RESPONSE_TIMEOUT):
            event = await stream.receive(parse_event)
    finally:
        stream.close()
    if isinstance(event, Failed):
        raise event.to_error()


def _request(kernel_id: str) -> Attach:
    return Attach(kernel_id=kernel_id, python=sys.executable, environment=dict(os.environ))


def _options(spec: ClusterSpec) -> dict[str, object]:
    return spec.model_dump(exclude_unset=True, exclude={"dashboard"})  # the server shows the dashboard itself


def _connect() -> tuple[socket.socket, str] | None:
    """A connection to the server's socket and the id of this kernel; `None` without a server."""
    server = _server()
    connection = None if server is None else connect_socket(server[1])
    return None if server is None or connection is None else (connection, server[0])


def _server() -> tuple[str, Path] | None:
    """The id of this kernel and the socket of its server; `None` if no Jupyter server started this process."""
    application = sys.modules.get("ipykernel.kernelapp")
    server = os.environ.get("JPY_PARENT_PID", "")
    if application is None or not server.isdecimal() or not application.IPKernelApp.initialized():
        return None
    file = Path(application.IPKernelApp.instance().abs_connection_file)
    return file.stem.removeprefix("kernel-"), socket_path(file.parent, int(server))
