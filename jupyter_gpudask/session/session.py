"""The kernel's cluster: at most one, started and stopped from here, with the client that is Dask's default."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
import time
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import ClusterExistsError, ClusterLostError, ClusterStartError, NoClusterError
from .background_imports import Preparation
from .event_loop import LoopThread
from .running_cluster import RunningCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..launcher.cluster_process import ClusterProcess, ProgressCallback
    from ..protocol import ClusterSpec, ClusterState, Progress
    from .attach import ServerCluster


class Session:
    """Starts, stops and asks the kernel's cluster; every method blocks."""

    def __init__(self) -> None:
        self._loop_thread: LoopThread | None = None
        self._cluster: RunningCluster | None = None
        self._lost: ClusterLostError | None = None
        self._options: dict[str, Any] = {}
        self._lock = threading.RLock()

    @property
    def cluster(self) -> RunningCluster | None:
        """The cluster, if there is one."""
        return self._cluster

    @property
    def is_untouched(self) -> bool:
        """Whether it has no cluster, and has lost none."""
        return self._cluster is None and self._lost is None

    def require(self) -> RunningCluster:
        """The cluster.

        Raises
        ------
        NoClusterError
            There is none.
        ClusterLostError
            There was one, and it ended by itself.
        """
        cluster = self._cluster or self._adopt()
        if cluster is not None:
            return cluster
        if self._lost is not None:
            raise self._lost
        raise NoClusterError

    def take_loss(self) -> tuple[ClusterLostError, dict[str, Any]] | None:
        """How the last cluster was lost, and the options that it had, once."""
        lost, self._lost = self._lost, None
        return None if lost is None else (lost, self._options)

    def start(
        self, options: dict[str, Any], on_progress: ProgressCallback, meanwhile: Callable[[], None]
    ) -> tuple[RunningCluster, bool]:
        """Start a cluster, unless one runs to which `options` apply already.

        Parameters
        ----------
        options
            Attributes of a `ClusterSpec`, those that the user gave.
        on_progress
            Called in another thread whenever another worker is up.
        meanwhile
            Called in this thread while it waits.

        Returns
        -------
        (RunningCluster, bool)
            The cluster, and whether it is new.

        Raises
        ------
        SpecError
            An option has a value that is not allowed.
        ClusterExistsError
            A cluster with other options is running.
        ClusterStartError, GpuUnavailableError, GpuPackagesMissingError
            It did not come up.
        """
        from ..protocol import ClusterSpec

        spec = ClusterSpec.parse(options)
        with self._lock:
            running = None if self._cluster is None else self.reconnect()
            if running is not None:
                given = {name: getattr(spec, name) for name in options if not _is_decided_by_server(running, name)}
                if running.spec.model_copy(update=given) == running.spec:
                    return running, False
                raise ClusterExistsError(
                    "This kernel has a cluster with other options.",
                    "Type: %gpudask restart with these options, or %gpudask stop first.",
                )
            # If the server has one for this kernel already, that is what it gives.
            cluster = self._cluster = self._launch(spec, on_progress, meanwhile, self._forget_lost_cluster)
            self._lost, self._options = None, options
            if cluster.ready.found:
                self._take_over(cluster)
            return cluster, not cluster.ready.found

    @contextmanager
    def aside(self, spec: ClusterSpec) -> Iterator[RunningCluster]:
        """Another cluster beside that of the kernel, for a while; its client is not Dask's default."""
        cluster = self._launch(spec, lambda _: None, lambda: None, None)
        try:
            yield cluster
        finally:
            cluster.client.close(timeout=2)
            self._loop.run(cluster.process.close())

    def options_of_restart(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options of the last cluster, changed by `options`, and checked as far as can be while it still runs.

        Raises
        ------
        SpecError, GpuUnavailableError, GpuPackagesMissingError, GpuHeldError, LimitError, ProfileNotFoundError
            A cluster with these options could not start; the one that runs goes on.
        """
        from ..machine.gpu_choice import check_replacement
        from ..machine.plan import make_plan
        from ..protocol import ClusterSpec

        before = {} if "profile" in options else self._options
        if "gpus" in options or "engine" in options:  # from the stand-in to GPUs, or the other way
            before = {name: value for name, value in before.items() if name not in ("engine", "gpus", "workers")}
        options = before | options
        spec = ClusterSpec.parse(options)
        if not spec.profile:  # else it is the server that knows
            make_plan(spec)
        if self._cluster is not None:
            check_replacement(spec, self._cluster.ready.pid)
            self._check_with_server(spec)
        return options

    def _check_with_server(self, spec: ClusterSpec) -> None:
        from .attach import check_order

        self._loop.run(check_order(spec))

    def stop(self) -> bool:
        """Close the cluster; whether there was one."""
        with self._lock:
            cluster = self._cluster or self._adopt()
            self._cluster = self._lost = None
            if cluster is None:
                return False
            try:
                cluster.disconnect(
                    f"The cluster was stopped at {time.strftime('%H:%M')}; what its workers held is lost.", timeout=2
                )
            finally:
                self._loop.run(cluster.process.close())
            return True

    def leave(self) -> None:
        """Close the cluster, unless it belongs to the Jupyter server, where the next kernel of this id will find it."""
        from .attach import ServerCluster

        cluster = self._cluster
        if cluster is not None and isinstance(cluster.process, ServerCluster):
            cluster.client.close(timeout=1)
        elif cluster is not None:
            self.stop()

    def state(self) -> ClusterState:
        """What the cluster is doing now."""
        return self._loop.run(self.require().process.state())

    def scale(self, workers: int) -> ClusterState:
        """Have `workers` workers, and wait until they are there.

        Raises
        ------
        GpuDaskError
            It cannot have so many, or they do not come.
        """
        process = self.require().process

        async def scale() -> ClusterState:
            state = await process.scale(workers)
            async with asyncio.timeout(process.spec.start_timeout):
                while len(state.workers) != workers:
                    await asyncio.sleep(0.1)
                    state = await process.state()
            return state

        try:
            return self._loop.run(scale())
        except TimeoutError:
            raise ClusterStartError(f"There are not {workers} workers yet.", "Look at: %gpudask status") from None

    def log(self, lines: int) -> dict[str, str]:
        """The last lines of the supervisor's and of each worker's log, by name."""
        process = self.require().process
        logs = {"supervisor": process.log(lines)}
        for worker in self.state().workers:
            logs[worker.name] = self._loop.run(process.worker_log(worker.name, lines))
        return logs

    @property
    def _loop(self) -> LoopThread:
        if self._loop_thread is None:
            self._loop_thread = LoopThread()
        return self._loop_thread

    def _launch(
        self,
        spec: ClusterSpec,
        on_progress: ProgressCallback,
        meanwhile: Callable[[], None],
        on_lost: Callable[[ClusterLostError], None] | None,
    ) -> RunningCluster:
        from .attach import start_cluster

        started: list[ServerCluster | ClusterProcess] = []
        path = _import_path()
        preparation = Preparation(spec)

        def hear(progress: Progress) -> None:
            preparation.learn(progress)
            on_progress(progress)

        async def start() -> None:
            started.append(await start_cluster(spec, path=path, on_progress=hear, on_lost=on_lost))

        try:
            self._loop.run(start(), meanwhile)
            preparation.learn(started[0].ready)
            preparation.wait(meanwhile)
            from ..client.connect import connect

            return RunningCluster(started[0], connect(started[0].ready, set_as_default=on_lost is not None))
        except BaseException:
            preparation.abandon()
            for process in started:
                self._loop.run(process.close())
            raise

    def _adopt(self) -> RunningCluster | None:
        """The cluster that the Jupyter server has for this kernel, if it has one."""
        from .attach import has_server, join_cluster

        if not has_server():
            return None
        joined = self._loop.run(join_cluster(self._forget_lost_cluster))
        if joined is None:
            return None
        preparation = Preparation(joined.spec)
        preparation.learn(joined.ready)
        preparation.wait(lambda: None)
        from ..client.connect import connect

        cluster = self._cluster = RunningCluster(joined, connect(joined.ready))
        self._lost = None
        self._take_over(cluster)
        return cluster

    def _take_over(self, cluster: RunningCluster) -> None:
        """Have a cluster that this kernel did not start do as if it had."""
        from ..client.connect import import_from

        import_from(cluster.client, _import_path())
        self._options = cluster.spec.model_dump(exclude_defaults=True)

    def reconnect(self) -> RunningCluster | None:
        """The cluster, with a client that works; `None` if it can no longer be reached, and so has been closed."""
        with self._lock:
            cluster = self._cluster or self._adopt()
            if cluster is None or cluster.client.status == "running":
                return cluster
            from ..client.connect import connect

            try:
                cluster.client = connect(cluster.ready, timeout=5)
            except OSError:
                self.stop()
                self._lost = ClusterLostError(
                    "The cluster's scheduler does not answer; what its workers held is lost.", "Type: %gpudask restart"
                )
                return None
            return cluster

    def _forget_lost_cluster(self, loss: ClusterLostError) -> None:
        cluster, self._cluster, self._lost = self._cluster, None, loss
        if cluster is not None:
            # So that a cell that waits for a result is told now, and not when the client gives up reconnecting.
            threading.Thread(target=cluster.disconnect, args=(loss.reason, 1), daemon=True).start()


def _is_decided_by_server(cluster: RunningCluster, option: str) -> bool:
    return option == "dashboard" and cluster.ready.spec is not None  # which is in its panel


def _import_path() -> list[str]:
    """Where this kernel imports from."""
    return [os.path.abspath(folder) for folder in sys.path]  # noqa: PTH100 - of a text, which may be empty


@cache
def process_session() -> Session:
    """The session of this process, for its notebook and for its scripts."""
    session = Session()
    atexit.register(session.leave)
    return session
