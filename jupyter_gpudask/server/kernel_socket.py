"""The server's end of the socket by which kernels ask for their clusters."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from ..errors import ClusterExistsError, ClusterLostError, GpuDaskError, NoClusterError, ProtocolError
from ..protocol import Close, Closed, Failed, Refused, parse_command
from ..protocol.attach import Attach, parse_attach
from ..protocol.dispatch import answer
from ..protocol.transport import COMMAND_LIMIT, MessageStream
from ..protocol.unix_socket import bind_socket, peer_of
from .clusters.kernels import Interpreter

if TYPE_CHECKING:
    from pathlib import Path

    from ..protocol import ClusterState
    from .clusters.cluster import KernelCluster
    from .clusters.manager import ClusterManager
    from .metrics.broadcaster import Watch

logger = logging.getLogger(__name__)

_JOIN_LIMIT = 10.0


class KernelSocket:
    """Listens for the kernels.

    Parameters
    ----------
    manager
        Whose clusters they ask for.
    watch
        What knows the metrics of the GPUs.
    path
        Where the socket is.
    """

    def __init__(self, manager: ClusterManager, watch: Watch, path: Path) -> None:
        self._manager = manager
        self._watch = watch
        self._path = path
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen from now on, if there can be such a socket; without it kernels start clusters of their own."""
        try:
            bound = bind_socket(self._path)
        except OSError as error:
            logger.warning(
                "Kernels cannot ask for clusters: no socket can be made at %s: %s.", self._path, error.strerror
            )
            return
        self._server = await asyncio.start_unix_server(self._serve, sock=bound, limit=COMMAND_LIMIT)

    async def close(self) -> None:
        """Listen no more, and let go of every kernel."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            pid, uid = peer_of(writer.get_extra_info("socket"))
            if uid == os.getuid():
                await _Conversation(self._manager, self._watch, MessageStream(reader, writer)).run()
            else:
                logger.warning("Process %s of user %s was refused at the kernels' socket.", pid, uid)
        except (ConnectionError, TimeoutError):
            pass  # the kernel is gone, or nothing that speaks
        finally:
            self._serving.discard(task)
            writer.close()


class _Conversation:
    """With one kernel, about one cluster."""

    def __init__(self, manager: ClusterManager, watch: Watch, stream: MessageStream) -> None:
        self._manager = manager
        self._watch = watch
        self._stream = stream
        self._ordered = False
        self._told_ready = False
        self._over = False

    async def run(self) -> None:
        try:
            async with asyncio.timeout(_JOIN_LIMIT):
                join = await self._stream.receive(parse_attach)
            if join is None:
                return
            if join.check:
                self._manager.policy.spec(join.options or {})
                self._stream.send(Closed())
                await self._stream.flush()
                return
            cluster, self._ordered = self._find(join)
        except GpuDaskError as error:
            self._tell_failure(error)
            await self._stream.flush()
            return
        stop_observing = cluster.observe(self._tell_change)
        try:
            self._tell_change(cluster)
            while not self._over and await self._answer_next(cluster):
                pass
            if self._ordered and cluster.status == "starting":  # who asked for it was interrupted
                await self._manager.close(cluster.kernel_id)
        finally:
            stop_observing()

    def _find(self, join: Attach) -> tuple[KernelCluster, bool]:
        """The cluster of the kernel, and whether it was ordered now."""
        manager = self._manager
        if join.options is None:
            cluster = manager.get(join.kernel_id)
            if not cluster.alive:
                raise NoClusterError
            return cluster, False
        present = manager.clusters.get(join.kernel_id)
        if present is not None and present.alive:
            if manager.policy.updated_spec(present.spec, join.options) == present.spec:
                return present, False
            raise ClusterExistsError(
                "This kernel has a cluster with other options.",
                "Type: %gpudask restart with these options, or %gpudask stop first.",
            )
        interpreter = Interpreter(join.python, join.environment, join.path)
        return manager.create(join.kernel_id, manager.policy.spec(join.options), interpreter)

    async def _answer_next(self, cluster: KernelCluster) -> bool:
        """Carry out the next command; false if there are no more."""
        try:
            command = await self._stream.receive(parse_command)
        except ProtocolError as error:
            self._stream.send(Refused.from_error(error))
            return True
        if command is None:
            return False
        if isinstance(command, Close):
            self._over = True
            await self._manager.close(cluster.kernel_id)
            self._stream.send(Closed())
        elif (event := await answer(command, _ServedCluster(self._manager, self._watch, cluster))) is not None:
            self._stream.send(event)
        return True

    def _tell_change(self, cluster: KernelCluster) -> None:
        if self._over:
            return
        match cluster.status:
            case "starting":
                if cluster.progress is not None:
                    self._stream.send(cluster.progress)
            case "ready":
                if not self._told_ready and cluster.ready is not None:
                    self._told_ready = True
                    # The dashboard's port answers the server alone.
                    told = {"dashboard_port": None, "spec": cluster.spec, "found": not self._ordered}
                    self._stream.send(cluster.ready.model_copy(update=told))
            case _:
                end = cluster.end or ClusterLostError(
                    "The cluster was closed; what its workers held is lost.", "Type: %gpudask start"
                )
                self._tell_failure(end)
                self._over = True
                self._stream.close()

    def _tell_failure(self, error: GpuDaskError) -> None:
        self._stream.send(Failed.from_error(error))


class _ServedCluster:
    """A cluster of the server's, as its kernel commands it."""

    def __init__(self, manager: ClusterManager, watch: Watch, cluster: KernelCluster) -> None:
        self._manager = manager
        self._watch = watch
        self._cluster = cluster

    async def state(self) -> ClusterState:
        await self._manager.refresh(self._cluster.kernel_id)
        return await self._state()

    async def scale(self, workers: int) -> ClusterState:
        await self._manager.scale(self._cluster.kernel_id, workers)
        return await self._state()

    async def reset(self) -> ClusterState:
        await self._manager.empty(self._cluster)
        return await self._state()

    async def log(self, worker: str, lines: int) -> str:
        return (await self._manager.logs(self._cluster.kernel_id, lines)).get(worker, "")

    async def watch(self, interval: float) -> None:  # noqa: ARG002 - as commanded
        raise ProtocolError("The Jupyter server watches its clusters itself.")

    async def rename(self, holder: str) -> None:  # noqa: ARG002 - as commanded
        raise ProtocolError("The Jupyter server names its clusters itself.")

    async def _state(self) -> ClusterState:
        if self._cluster.state is None:
            raise ClusterLostError("The cluster does not answer.", "Type: %gpudask restart")
        return await self._watch.with_gpu_metrics(self._cluster.state)
