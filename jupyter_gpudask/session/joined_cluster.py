"""Connect the kernel to a cluster that somebody else started, which is controlled only through this kernel's client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any, TypeVar

import dask.config

from ..client.connect import (
    connect_joined,
    leave_cluster,
    read_addresses,
    read_state,
    security_of,
    versions_of,
    versions_on_workers,
    worker_log,
    workers_without_gpu,
)
from ..client.kernel_client import KernelClient
from ..errors import BackendUnavailableError, ClusterLostError, ConnectError, ProtocolError
from ..launcher.cluster import Cluster, LostCallback
from ..protocol.engines import engine_with
from ..protocol.messages import (
    Connect,
    Failed,
    Find,
    Progress,
    Ready,
    gateway_dashboard,
    joined_limits,
    parse_event,
    refusal,
)
from ..protocol.rest import shared_name
from ..protocol.spec import ClusterSpec
from ..protocol.state import ClusterState
from ..protocol.transport import Reporter
from ..protocol.verbs import SUPERVISOR, ClusterVerbs, Command, answer, carry_out, parse_command
from .joined_target import Identity, Target, check_scheduler, locate, parse_target, refused_operation
from .launch import BackgroundImports, EventLoopThread, RunningCluster
from .server_connection import request_stream

logger = logging.getLogger(__name__)
_RESPONSE_TIMEOUT = 10.0
_IMPORT_TIMEOUT = 60.0
_LEAVE_TIMEOUT = 5.0
_POLL_INTERVAL = 0.2
_T = TypeVar("_T")


def connect(
    loop: EventLoopThread, arguments: dict[str, str], while_waiting: Callable[[], None], on_lost: LostCallback
) -> RunningCluster:
    """Connect to a scheduler; see `jupyter_gpudask.session.session.Session.connect`."""
    target = parse_target(**arguments)
    if target.gateway_cluster:
        target = loop.run(locate(target), while_waiting)
    elif target.is_shared:
        target = loop.run(_find_shared(target), while_waiting)
    identity = loop.run(check_scheduler(target), while_waiting)
    client = _connect_client(target)
    cluster = JoinedCluster(client, _describe(target, identity, client))
    try:
        imports = BackgroundImports(cluster.spec)
        workers = loop.run(cluster.state()).workers
        uuids = tuple(worker.gpu_uuid for worker in workers if worker.gpu_uuid)  # those of other machines do not count
        imports.on_progress(Progress(engine=cluster.ready.engine, gpus=uuids, ready=len(workers), total=len(workers)))
        imports.wait(while_waiting)
        loop.run(cluster.follow(on_lost))
    except BaseException:
        loop.run(cluster.leave())
        client.close(timeout=2)
        raise
    return RunningCluster(loop, cluster, client)


async def _find_shared(target: Target) -> Target:
    """Ask the Jupyter server where a shared cluster is; raises `ConnectError` if it has none that is ready."""
    stream = await request_stream(Find, name=target.address)
    if stream is None:
        raise ConnectError("no-shared-cluster", name=target.address)
    with closing(stream):
        async with asyncio.timeout(_RESPONSE_TIMEOUT):
            event = await stream.receive(parse_event)
    if isinstance(event, Failed):
        raise event.to_error()
    if not isinstance(event, Ready):
        raise ConnectError("no-shared-cluster", name=target.address)
    security = None if event.credentials is None else security_of(event.credentials)
    name = shared_name(target.address)
    return replace(target, address=event.address, security=security, source="the Jupyter server", name=name)


def _connect_client(target: Target) -> KernelClient:
    try:
        return connect_joined(target.address, target.security, target.timeout)
    except Exception as error:  # noqa: BLE001 - whatever Dask or a worker raises
        reason = f"{type(error).__name__}: {error}".rstrip(".")
        raise refused_operation(target, error) or ConnectError(
            "not-accepted", address=target.address, error=reason
        ) from None


def _describe(target: Target, identity: Identity, client: KernelClient) -> Ready:
    on_gpus, token = client.is_on_gpus, client.dashboard_token
    dashboard = _dashboard(target, identity.services.get("dashboard"), token)
    limits = joined_limits(target.address)
    if not dashboard:
        is_gateway = bool(target.gateway_cluster)
        limits["dashboard"] = (
            gateway_dashboard(target.dashboard) if is_gateway else f"{target.address} has no dashboard."
        )
    return Ready(
        engine=engine_with(gpus=on_gpus),
        cpu_reason="" if on_gpus else f"The workers of {target.name or target.address} have no GPU.",
        address=target.address,
        credentials=None,
        dashboard_port=None,
        dashboard_token=token if dashboard else "",
        dashboard=dashboard,
        limits=limits,
        workers=len(identity.workers),
        pid=0,
        name=target.name,
    )


def _dashboard(target: Target, port: object, token: str = "") -> str:
    """The address of the dashboard, at the host of the scheduler; empty without the port that it reported.

    That of dask-gateway can be reached by the Gateway's proxy only. One at a Unix socket is on this machine, and off
    without a token.
    """
    if not isinstance(port, int) or target.gateway_cluster:
        return ""
    if target.is_socket:
        return f"http://127.0.0.1:{port}/status" if token else ""
    # Dask's clients decide so, too.
    scheme = "https" if dask.config.get("distributed.scheduler.dashboard.tls.cert", None) else "http"
    host, _ = target.host_and_port
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/status"


class JoinedCluster(Cluster):
    """A cluster that somebody else started, as `RunningCluster` uses it."""

    def __init__(self, client: KernelClient, ready: Ready) -> None:
        self.client, self.ready = client, ready
        self.spec = ClusterSpec.parse({"engine": ready.engine})
        self._checked: set[tuple[str, str]] = set()
        self._leaving = False
        self._watching: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether the client is connected."""
        return self.client.status == "running"

    async def state(self) -> ClusterState:
        """The current state of the cluster; its counts of tasks are those of this kernel."""
        state = await self._ask(read_state(self.client, self.spec.start_timeout))
        return state.model_copy(update={"engine": self.ready.engine})  # before the first heartbeat with a GPU, too

    def call(self, command: Command) -> Awaitable[Any]:
        """Refuse a command that changes the cluster; reports are ignored: servers show those of their clusters only."""
        if command.type in self.ready.limits:
            raise refusal(self.ready.address, command.type)
        return super().call(command)

    async def check_libraries(self, names: Sequence[str]) -> None:
        """Check that the workers can compute what the kernel sends; workers that were checked are not asked again."""
        here = {name: found for name, found in (await asyncio.to_thread(versions_of, names)).items() if found}
        workers = await self._ask(read_addresses(self.client))
        new = [address for address in workers.values() if any((address, name) not in self._checked for name in here)]
        if not new:
            return
        found = await self._ask(versions_on_workers(self.client, list(here), new), _IMPORT_TIMEOUT)
        silent = [address for address in new if address not in found]
        if silent:
            raise BackendUnavailableError("worker-silent", worker=silent[0])
        without = await self._ask(workers_without_gpu(self.client, new))
        if without:
            raise BackendUnavailableError("worker-without-gpu", worker=without[0])
        for address, versions in found.items():
            for name, version in here.items():
                if versions[name] != version:
                    raise BackendUnavailableError(
                        "worker-version",
                        name=name,
                        here=version,
                        worker=address,
                        there=f"has {name} {versions[name]}" if versions[name] else f"cannot import {name}",
                    )
            self._checked |= {(address, name) for name in here}

    async def worker_log(self, worker: str, lines: int = 50) -> str:
        """The last lines of the log of a worker, or of the scheduler; empty without such a worker."""
        if worker == SUPERVISOR:
            return await self._ask(worker_log(self.client, "", lines))
        address = (await self._ask(read_addresses(self.client))).get(worker)
        return "" if address is None else await self._ask(worker_log(self.client, address, lines))

    async def leave(self) -> None:
        """Remove the plugins and release the results of this kernel, and stop watching the connection."""
        self._leaving = True
        for task in (self._watching, self._reporting):
            if task is not None:
                task.cancel()
        if self.running:
            with suppress(ClusterLostError):
                await self._ask(leave_cluster(self.client), _LEAVE_TIMEOUT)

    async def follow(self, on_lost: LostCallback) -> None:
        """From now on, call `on_lost` once if the connection ends before `leave`, and show the cluster in the panel."""
        self._reporting = asyncio.create_task(PanelReports(self).run(self.ready))
        self._watching = asyncio.create_task(self._watch(on_lost))

    async def _watch(self, on_lost: LostCallback) -> None:
        while self.running:
            await asyncio.sleep(_POLL_INTERVAL)
        if self._reporting is not None:
            self._reporting.cancel()
        if not self._leaving:
            on_lost(ClusterLostError("connection-lost", address=self.ready.address))

    async def _ask(self, question: Coroutine[Any, Any, _T], limit: float = _RESPONSE_TIMEOUT) -> _T:
        """Run `question` in the event loop of the client, for at most `limit` seconds."""
        loop: Any = self.client.loop
        try:
            async with asyncio.timeout(limit):
                return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(question, loop.asyncio_loop))
        except TimeoutError:
            raise ClusterLostError("joined-silent", address=self.ready.address, limit=limit) from None
        except (Exception, asyncio.CancelledError) as error:
            if self.running and not isinstance(error, OSError):
                raise
            raise ClusterLostError("connection-lost", address=self.ready.address) from None


class PanelReports(Reporter):
    """Reports the state and the logs of a cluster to the server; the cluster refuses to be changed."""

    def __init__(self, cluster: ClusterVerbs) -> None:
        self._cluster = cluster

    def call(self, command: Command) -> Awaitable[Any]:
        """Carry out a command on the cluster."""
        return carry_out(command, self._cluster)

    async def run(self, joined: Ready) -> None:
        """Answer the server until it ends, or this is cancelled; without a server, do nothing."""
        try:
            stream = await request_stream(Connect, joined=joined)
            if stream is None:
                return
            self._stream = stream
            try:
                while (command := await stream.receive(parse_command)) is not None:
                    if (event := await answer(command, self)) is not None:
                        stream.send(event)
            finally:
                await self.watch(0)
                stream.close()
        except (OSError, ProtocolError) as error:
            logger.warning("The panel does not show the cluster at %s: %s", joined.address, error)
