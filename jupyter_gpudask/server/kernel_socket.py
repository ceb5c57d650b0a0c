"""The Unix socket on which kernels request their clusters and control them, and the verbs at the Jupyter server.

A kernel sends one of the `KernelRequest`, and then the commands that a supervisor understands.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import ClusterLostError, GpuDaskError, NoClusterError, ProtocolError
from ..launcher.cluster import ClusterConnection
from ..machine.gpus import are_selected
from ..machine.unix_socket import bind_socket, peer_of
from ..protocol.messages import (
    AttachOrStart,
    CheckOptions,
    Closed,
    Connect,
    Failed,
    Find,
    Ready,
    Refused,
    parse_request,
)
from ..protocol.spec import ClusterSpec, other_options
from ..protocol.state import CellRun, ClusterState
from ..protocol.transport import COMMAND_LIMIT, MessageStream
from ..protocol.verbs import VERBS, ClusterVerbs, Command, EndReason, answer, parse_command
from .cluster import KernelCluster
from .manager import ClusterManager
from .monitor import DASHBOARD_PATH, Monitor

logger = logging.getLogger(__name__)


class ServerVerbs(ClusterVerbs):
    """Applies the administrator's limits, and forwards what the supervisor answers."""

    def __init__(self, manager: ClusterManager, monitor: Monitor, kernel_id: str = "") -> None:
        self._manager, self._monitor, self._kernel_id = manager, monitor, kernel_id

    def call(self, command: Command) -> Awaitable[Any]:
        """Forward a command that the REST interface has, too."""
        is_operation = command.type in VERBS and VERBS[command.type].operation
        return self._change(command) if is_operation else super().call(command)

    async def state(self) -> ClusterState:
        """The current state, with the metrics of GPUs."""
        cluster = self._manager.get_shown(self._kernel_id)
        await cluster.refresh()
        return await self._state(cluster)

    async def worker_log(self, worker: str, lines: int = 50) -> str:
        """The last lines of the log of a worker or of the supervisor."""
        return (await self._manager.get(self._kernel_id).logs(lines)).get(worker, "")

    async def keep(self) -> str:
        """Keep the GPUs; who waits for them."""
        cluster = self._require_owned("keep")
        wanted_by = "" if cluster.notice is None else cluster.notice.user
        self._manager.hand_over.keep(cluster)
        return wanted_by

    async def restart(self, spec: dict[str, Any] | None = None) -> None:
        """Restart the cluster, with some options replaced."""
        self._require_owned("restart")
        await self._manager.check_restart(self._kernel_id, spec or {})
        self._manager.restart(self._kernel_id, spec or {})

    async def _change(self, command: Command) -> ClusterState:
        cluster = self._require_owned(command.type)
        for name in {"workers", "maximum"} & command.arguments.keys():
            self._manager.policy.check_workers(command.arguments[name])
        await cluster.change(command)
        return await self._state(cluster)

    def _require_owned(self, action: str) -> KernelCluster:
        cluster = self._manager.get_shown(self._kernel_id)
        cluster.check_possible(action)
        return cluster

    async def _state(self, cluster: KernelCluster) -> ClusterState:
        if cluster.state is None:
            raise ClusterLostError("no-state")
        return await self._monitor.with_gpu_metrics(cluster.state)


OnCell: TypeAlias = "Callable[[KernelCluster, CellRun], Awaitable[None]]"

_REQUEST_TIMEOUT = 10.0


class KernelSocket:
    """Listens for connections of kernels.

    - `monitor`: reads the GPUs, whose metrics are merged into the states that kernels request.
    - `base_url`: the base URL of the server, with a slash at the end.
    - `on_cell`: called for each cell that has ended, with its cluster.
    """

    def __init__(
        self,
        manager: ClusterManager,
        monitor: Monitor,
        path: Path,
        base_url: str = "/",
        *,
        on_cell: OnCell | None = None,
    ) -> None:
        self.manager, self.monitor, self.base_url, self.on_cell = manager, monitor, base_url, on_cell
        self._path = path
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Create the socket and listen; if that fails, kernels start their clusters themselves."""
        try:
            bound = bind_socket(self._path)
        except OSError as error:
            logger.warning(
                "Kernels cannot request clusters: the socket %s cannot be created: %s.", self._path, error.strerror
            )
            return
        self._server = await asyncio.start_unix_server(self._serve, sock=bound, limit=COMMAND_LIMIT)

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            pid, uid = peer_of(writer.get_extra_info("socket"))
            if uid == os.getuid():
                stream = MessageStream(reader, writer)
                await _KernelConnection(self, stream).run()
            else:
                logger.warning("The kernels' socket refused process %s of user %s.", pid, uid)
        except (ConnectionError, TimeoutError):
            pass  # the kernel has ended, or the peer sent nothing
        except asyncio.CancelledError:
            pass  # by `close`; before Python 3.13, asyncio logs the cancellation of such a task as an error
        finally:
            self._connections.discard(task)
            writer.close()


class _KernelConnection(ServerVerbs):
    """The connection of one kernel, for its cluster."""

    _cluster: KernelCluster

    def __init__(self, socket: KernelSocket, stream: MessageStream) -> None:
        super().__init__(socket.manager, socket.monitor)
        self._socket = socket
        self._stream = stream
        self._created = False
        self._ready_sent = False
        self._closed = False
        self._has_reported_automatic = False

    async def report_automatic(self, on: bool) -> None:
        self._cluster.automatic, self._has_reported_automatic = on, True

    async def report_cell(self, cell: CellRun) -> None:
        self._cluster.unused = False
        self._cluster.add_cell(cell)
        await self._record(cell)

    async def _record(self, cell: CellRun | None) -> None:
        if self._socket.on_cell is not None and cell is not None and cell.seconds is not None:
            await self._socket.on_cell(self._cluster, cell)

    async def close(self, reason: EndReason = "stopped") -> None:
        self._closed = True
        self._cluster.end_cell()  # it has not failed: it closes the cluster
        await self._manager.close(self._kernel_id, reason=reason)
        self._stream.send(Closed())

    async def run(self) -> None:
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT):
                request = await self._stream.receive(parse_request)
            match request:
                case None:
                    return
                case Connect():
                    connection = ClusterConnection(ClusterSpec.parse({"engine": request.joined.engine}), self._stream)
                    connection.ready = request.joined
                    await self._manager.show_joined(request.kernel_id, connection)
                    return
                case CheckOptions() | Find():
                    self._stream.send(self._answer_of(request))
                    await self._stream.flush()
                    return
                case AttachOrStart():
                    cluster, self._created = await self._find_or_start(request)
                case _:
                    cluster = self._manager.get(request.kernel_id)
                    if not cluster.alive:
                        raise NoClusterError
        except GpuDaskError as error:
            self._stream.send(Failed.from_error(error))
            await self._stream.flush()
            return
        self._cluster, self._kernel_id = cluster, cluster.kernel_id
        stop_observing = cluster.observe(self._on_change)
        try:
            self._on_change(cluster)
            while not self._closed and await self._answer_next():
                pass
            if self._created and cluster.status == "starting":  # the user interrupted the start
                await self._manager.close(cluster.kernel_id)
        finally:
            stop_observing()
            await self._record(cluster.end_cell())  # the kernel or the cluster has ended
            if self._has_reported_automatic:
                cluster.automatic = False

    def _answer_of(self, request: CheckOptions | Find) -> Closed | Ready:
        if isinstance(request, Find):
            return self._manager.shared(request.name)
        self._manager.policy.spec(request.options)
        return Closed()

    async def _find_or_start(self, request: AttachOrStart) -> tuple[KernelCluster, bool]:
        """The cluster of the kernel, and whether it was created now."""
        manager, interpreter = self._manager, request.interpreter
        existing = manager.clusters.get(request.kernel_id)
        if existing is None or not existing.alive:
            return manager.create(request.kernel_id, manager.policy.spec(request.options), interpreter)
        spec = manager.policy.updated_spec(existing.spec, request.options)
        if existing.ready is not None and are_selected(existing.ready.gpus, spec.gpus):
            spec = spec.model_copy(update={"gpus": existing.spec.gpus})
        has_options = spec == existing.spec
        has_settings = existing.interpreter is None or existing.interpreter.settings == interpreter.settings
        if has_options and has_settings:
            return existing, False
        if await existing.is_unused():
            return await manager.replace_unused(existing, manager.policy.spec(request.options), interpreter), True
        if not has_options:
            raise other_options(existing.spec, spec)
        return existing, False

    async def _answer_next(self) -> bool:
        """Carry out the next command; `False` if the kernel has disconnected."""
        try:
            command = await self._stream.receive(parse_command)
        except ProtocolError as error:
            self._stream.send(Refused.from_error(error))
            return True
        if command is None:
            return False
        if (event := await answer(command, self)) is not None:
            self._stream.send(event)
        return True

    def _on_change(self, cluster: KernelCluster) -> None:
        if self._closed:
            return
        match cluster.status:
            case "starting":
                if cluster.progress is not None:
                    self._stream.send(cluster.progress)
            case "ready":
                if not self._ready_sent and cluster.ready is not None:
                    self._ready_sent = True
                    # The dashboard only accepts requests of the server's proxy.
                    settings = self._manager.policy.settings
                    dashboard = f"{self._socket.base_url}{DASHBOARD_PATH}/{cluster.kernel_id}/status"
                    update = {
                        "dashboard_port": None,
                        "dashboard_path": dashboard if cluster.ready.dashboard_port else "",
                        "spec": cluster.spec,
                        "found": not self._created,
                        "price_per_gpu_hour": settings.price_per_gpu_hour,
                        "currency": settings.currency,
                    }
                    self._stream.send(cluster.ready.model_copy(update=update))
            case _:
                self._stream.send(Failed.from_error(cluster.error or ClusterLostError("closed")))
                self._closed = True
                self._stream.close()
