"""Where this kernel's cluster lives: with the Jupyter server that started the kernel, or with the kernel itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ..errors import ClusterLostError, ClusterStartError, GpuDaskError, NoClusterError
from ..launcher.cluster_process import ClusterProcess
from ..launcher.connection import ClusterConnection, LostCallback, ProgressCallback
from ..protocol import Close, ClusterSpec, Failed, parse_event
from ..protocol.attach import Attach
from ..protocol.transport import EVENT_LIMIT, MessageStream
from ..protocol.unix_socket import connect_socket, socket_path

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

_CLOSE_LIMIT = 7.0
_LOG_LIMIT = 10.0


class ServerCluster(ClusterConnection):
    """A cluster that the Jupyter server holds for this kernel; made by `join`."""

    _loop: asyncio.AbstractEventLoop

    @classmethod
    async def join(
        cls,
        connection: socket.socket,
        order: Attach,
        *,
        on_progress: ProgressCallback | None = None,
        on_lost: LostCallback | None = None,
    ) -> Self:
        """Ask the server at the other end of `connection` for the cluster, and wait until it is up.

        Raises
        ------
        NoClusterError
            There is none, and none was ordered.
        GpuDaskError
            It did not come up. Nothing is left behind, as when this is cancelled.
        """
        stream = await MessageStream.from_socket(connection, limit=EVENT_LIMIT)
        cluster = cls(ClusterSpec.parse({}), stream)
        cluster._loop = asyncio.get_running_loop()
        try:
            stream.send(order)
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
        """The last lines that the supervisor logged; for other threads than that of the loop."""
        return asyncio.run_coroutine_threadsafe(self.worker_log("supervisor", lines), self._loop).result(_LOG_LIMIT)

    async def close(self) -> None:
        """Have the server close the cluster."""
        self._closing = True
        try:
            with contextlib.suppress(OSError, TimeoutError, ClusterLostError):
                self._send(Close())
                async with asyncio.timeout(_CLOSE_LIMIT):
                    while not self._ended:
                        await asyncio.sleep(0.02)
        finally:
            if self._reading is not None:
                self._reading.cancel()
            self._stream.close()

    async def _after_end(self) -> None:
        self._stream.close()

    async def _ended_before_ready(self) -> GpuDaskError:
        return ClusterStartError("The Jupyter server ended while the cluster started.")


def has_server() -> bool:
    """Whether this kernel was started by a Jupyter server that holds clusters."""
    place = _place()
    return place is not None and place[1].exists()


async def join_cluster(on_lost: LostCallback) -> ServerCluster | None:
    """The cluster that the server has for this kernel, if it has one; waits until it is up."""
    place = _place()
    connection = None if place is None else connect_socket(place[1])
    if place is None or connection is None:
        return None
    try:
        return await ServerCluster.join(connection, _join(place[0]), on_lost=on_lost)
    except NoClusterError:
        return None


async def start_cluster(
    spec: ClusterSpec, *, path: Sequence[str], on_progress: ProgressCallback, on_lost: LostCallback | None
) -> ServerCluster | ClusterProcess:
    """Start this kernel's cluster where it belongs; see `ClusterProcess.start`.

    One of whose loss nobody is told is for a while, beside the kernel's own, and belongs to the kernel's process.
    """
    place = _place() if on_lost is not None else None
    connection = None if place is None else connect_socket(place[1])
    if place is None or connection is None:
        holder = Path(os.environ.get("JPY_SESSION_NAME", "")).name
        return await ClusterProcess.start(spec, path=path, holder=holder, on_progress=on_progress, on_lost=on_lost)
    options = spec.model_dump(exclude_unset=True, exclude={"dashboard"})  # which that server shows
    order = _join(place[0]).model_copy(update={"options": options, "path": tuple(path)})
    return await ServerCluster.join(connection, order, on_progress=on_progress, on_lost=on_lost)


async def check_order(spec: ClusterSpec) -> None:
    """Ask the Jupyter server, where there is one, whether it allows this cluster in place of the one that it holds.

    Raises
    ------
    LimitError, ProfileNotFoundError, SpecError
        It does not.
    """
    place = _place()
    connection = None if place is None else connect_socket(place[1])
    if place is None or connection is None:
        return
    stream = await MessageStream.from_socket(connection, limit=EVENT_LIMIT)
    try:
        options = spec.model_dump(exclude_unset=True, exclude={"dashboard"})
        order = _join(place[0]).model_copy(update={"options": options, "check": True})
        stream.send(order)
        async with asyncio.timeout(_LOG_LIMIT):
            event = await stream.receive(parse_event)
    finally:
        stream.close()
    if isinstance(event, Failed):
        raise event.to_error()


def _join(kernel_id: str) -> Attach:
    return Attach(kernel_id=kernel_id, python=sys.executable, environment=dict(os.environ))


def _place() -> tuple[str, Path] | None:
    """The id of this kernel, and the socket of its server; `None` for what is no kernel of a server."""
    application = sys.modules.get("ipykernel.kernelapp")
    server = os.environ.get("JPY_PARENT_PID", "")
    if application is None or not server.isdecimal() or not application.IPKernelApp.initialized():
        return None
    file = Path(application.IPKernelApp.instance().abs_connection_file)
    return file.stem.removeprefix("kernel-"), socket_path(file.parent, int(server))
