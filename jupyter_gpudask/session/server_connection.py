"""Attach to the cluster that the Jupyter server holds for this kernel, or start one: there, or in the kernel itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from ..errors import ClusterLostError, ClusterStartError, GpuDaskError, NoClusterError
from ..launcher.cluster import ClusterConnection, ClusterProcess, LostCallback, ProgressCallback
from ..machine.unix_socket import connect_socket, socket_path
from ..protocol.messages import Attach, AttachOrStart, CheckOptions, Closed, Failed, Interpreter, Request, parse_event
from ..protocol.spec import ClusterSpec
from ..protocol.transport import EVENT_LIMIT, MessageStream
from ..protocol.verbs import VERBS, EndReason

_CLOSE_TIMEOUT = 7.0
_RESPONSE_TIMEOUT = 10.0


class ServerCluster(ClusterConnection):
    """A cluster that the Jupyter server holds for this kernel; created by `attach`."""

    @classmethod
    async def attach(
        cls,
        stream: MessageStream,
        *,
        on_progress: ProgressCallback | None = None,
        on_lost: LostCallback | None = None,
    ) -> Self:
        """Wait until the cluster is up that was requested on a stream; see `ClusterProcess.start`.

        Raises `GpuDaskError` if the cluster did not start. Its processes have been stopped, as when this coroutine is
        cancelled.
        """
        cluster = cls(ClusterSpec.parse({}), stream)
        try:
            cluster.ready = await cluster._wait_until_ready(on_progress)
        except BaseException:
            stream.close()
            raise
        assert cluster.ready.spec is not None
        cluster.spec = cluster.ready.spec
        cluster._begin_reading(on_lost)
        return cluster

    async def close(self, reason: EndReason = "stopped") -> None:
        """Ask the server to close the cluster, and wait until it has; one that has failed is closed by the server."""
        if self._failure is not None:
            await self.detach()
            return
        self._closing = True
        try:
            with contextlib.suppress(OSError, TimeoutError, ClusterLostError):
                self._send(VERBS["close"].command.model_validate({"reason": reason}))
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    while not self._ended:
                        await asyncio.sleep(0.02)
        finally:
            await self.detach()

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
    stream = await request_stream(Attach)
    try:
        return None if stream is None else await ServerCluster.attach(stream, on_lost=on_lost)
    except NoClusterError:
        return None


async def close_cluster() -> bool:
    """Close the cluster that the server holds for this kernel, also while it is starting; whether there was one."""
    stream = await request_stream(Attach)
    if stream is None:
        return False
    with contextlib.closing(stream):
        stream.send(VERBS["close"].command.model_validate({}))
        try:
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

    `on_lost`: called if the cluster is lost; `None` for a temporary cluster, which is always a child of this process.
    """
    if on_lost is not None:
        interpreter = Interpreter(
            python=sys.executable, environment=dict(os.environ), path=tuple(path), settings=settings
        )
        stream = await request_stream(AttachOrStart, options=_options(spec), interpreter=interpreter)
        if stream is not None:
            return await ServerCluster.attach(stream, on_progress=on_progress, on_lost=on_lost)
    holder = Path(os.environ.get("JPY_SESSION_NAME", "")).name
    return await ClusterProcess.start(
        spec, path=path, settings=settings, holder=holder, on_progress=on_progress, on_lost=on_lost
    )


async def check_options(spec: ClusterSpec) -> None:
    """Raise the error with which the Jupyter server, if there is one, would refuse to restart the cluster so."""
    stream = await request_stream(CheckOptions, options=_options(spec))
    if stream is None:
        return
    with contextlib.closing(stream):
        async with asyncio.timeout(_RESPONSE_TIMEOUT):
            event = await stream.receive(parse_event)
    if isinstance(event, Failed):
        raise event.to_error()


async def request_stream(kind: type[Request], **fields: Any) -> MessageStream | None:
    """Send a request of this kind to the server of this kernel; `None` without a server."""
    server = _server()
    connection = None if server is None else connect_socket(server[1])
    if server is None or connection is None:
        return None
    stream = await MessageStream.from_socket(connection, limit=EVENT_LIMIT)
    stream.send(kind(kernel_id=server[0], **fields))
    return stream


def _options(spec: ClusterSpec) -> dict[str, object]:
    return spec.model_dump(exclude_unset=True, exclude={"dashboard"})  # the server shows the dashboard itself


def _server() -> tuple[str, Path] | None:
    """The id of this kernel and the socket of its server; `None` if no Jupyter server started this process."""
    application = sys.modules.get("ipykernel.kernelapp")
    server = os.environ.get("JPY_PARENT_PID", "")
    if application is None or not server.isdecimal() or not application.IPKernelApp.initialized():
        return None
    file = Path(application.IPKernelApp.instance().abs_connection_file)
    return file.stem.removeprefix("kernel-"), socket_path(file.parent, int(server))
