"""The kernel's cluster: at most one at a time, whose client is Dask's default."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ..errors import ClusterExistsError, ClusterLostError, GpuDaskError, NoClusterError, PresetNotFoundError
from .launch import EventLoopThread, RunningCluster, attach, import_path, launch, options_after, spec_on_this_machine

if TYPE_CHECKING:
    from ..launcher.cluster import ProgressCallback
    from ..protocol.messages import Action
    from ..protocol.spec import ClusterSpec
    from ..protocol.state import ClusterState


class Session:
    """Starts, stops and queries the kernel's cluster; all methods block."""

    def __init__(self) -> None:
        self._loop_thread: EventLoopThread | None = None
        self._cluster: RunningCluster | None = None
        self._loss: ClusterLostError | None = None
        self._options: dict[str, Any] | None = {}
        self._optimizes = True
        self._is_automatic = False
        self._lock = threading.RLock()
        self._ending: threading.Thread | None = None

    @property
    def cluster(self) -> RunningCluster | None:
        """The cluster, if there is one."""
        return self._cluster

    @property
    def is_unused(self) -> bool:
        """Whether there is no cluster, and none was lost."""
        return self._cluster is None and self._loss is None

    def require(self) -> RunningCluster:
        """The cluster; raises `NoClusterError`, or if it was lost, `ClusterLostError`."""
        return self._cluster or self._attach() or self.attached()

    def attached(self) -> RunningCluster:
        """The cluster to which this kernel is attached; raises as `require` does.

        Other threads use it: one that attached to a cluster during a start would leave a second client behind.
        """
        cluster = self._cluster
        if cluster is None:
            raise self._loss or NoClusterError
        return cluster

    def pop_loss(self) -> tuple[ClusterLostError, dict[str, Any]] | None:
        """Why the last cluster was lost, and its options; `None` when called again."""
        self.require_connection()
        loss, self._loss = self._loss, None
        return None if loss is None else (loss, self._options or {})

    def start(
        self, options: dict[str, Any], on_progress: ProgressCallback, while_waiting: Callable[[], None]
    ) -> tuple[RunningCluster, bool]:
        """Start a cluster, or return the running one if it has these options; and whether it is new.

        `options`: attributes of a `ClusterSpec`, only those that the user gave. Raises `SpecError` if an option has an
        invalid value. Raises `ClusterExistsError` if a cluster with other options is running; if these ask for GPUs
        that do not exist, `GpuUnavailableError` says so. Raises `ClusterStartError`, `GpuUnavailableError` or
        `GpuPackagesMissingError` if the cluster did not start.
        """
        from ..protocol.spec import ClusterSpec

        spec = ClusterSpec.parse(options)
        with self._lock, _missing_gpus_first(spec):
            running = None if self._cluster is None else self.reconnect()
            if running is not None and not running.is_owned:
                if options:
                    raise ClusterExistsError("is-connected", address=running.ready.address)
                return running, False
            if running is not None:
                given = {name: getattr(spec, name) for name in options if not _is_irrelevant(running, name, spec)}
                requested = running.spec.model_copy(update=given)
                if requested == running.spec:
                    return running, False
                if not running.is_server_owned:
                    raise _refusal(running.spec, requested)
            if self._ending is not None:  # its GPUs are free afterwards
                self._ending.join()
            # The server may already hold a cluster for this kernel; then it returns that one. It refuses other options,
            # unless nothing has used the cluster since its kernel was restarted.
            cluster = launch(self._loop, spec, on_progress, while_waiting, self._on_lost)
            if running is not None:
                self._leave(running if not cluster.ready.found else cluster)
                if cluster.ready.found:  # the server sees no difference
                    from distributed.client import _set_global_client

                    _set_global_client(running.client)
                    return running, False
            self._take(cluster)
            self._loss, self._options = None, options
            if cluster.ready.found:
                self._set_up_attached(cluster)
            return cluster, not cluster.ready.found

    def connect(self, arguments: dict[str, str], while_waiting: Callable[[], None]) -> RunningCluster:
        """Connect to a scheduler that somebody else started.

        Raises `ClusterExistsError` if the kernel has a cluster, or is connected to one. Raises `SpecError` or
        `ConnectError` if the connection is not possible; nothing is left at the scheduler.
        """
        from .joined_cluster import connect

        with self._lock:
            running = self._cluster or self._attach()
            if running is not None:
                raise ClusterExistsError(
                    "has-cluster" if running.is_owned else "is-connected", address=running.ready.address
                )
            cluster = connect(self._loop, arguments, while_waiting, self._on_lost)
            self._take(cluster)
            self._loss = self._options = None
            return cluster

    def disconnect(self) -> str:
        """Leave the cluster of somebody else, as it was; returns its address, or an empty text if there is none."""
        with self._lock:
            cluster = self._cluster
            if self._options is None:
                self._loss = None
            if cluster is None or cluster.is_owned:
                return ""
            self._end(cluster, f"This kernel was disconnected from {cluster.ready.address}.")
            return cluster.ready.address

    def require_owned(self, action: Action) -> None:
        """Raise an error if a cluster of somebody else is meant, or the connection to it was lost."""
        self.require_connection()
        if self._cluster is not None and not self._cluster.can(action):
            from ..protocol.messages import refusal

            raise refusal(self._cluster.ready.address, action)

    def require_connection(self) -> None:
        """Raise `ClusterLostError` if the connection to a cluster of somebody else was lost."""
        if self._cluster is not None and not self._cluster.is_owned:
            self.reconnect()  # notices a loss
        if self._options is None and self._loss is not None:
            raise self._loss

    def optimize(self, *, on: bool) -> None:
        """Optimize the graphs of arrays that the kernel's client submits from now on, or leave them to Dask alone."""
        with self._lock:
            self._optimizes = on
            if self._cluster is not None:
                self._cluster.client.optimizes = on

    def report_automatic(self, *, on: bool) -> None:
        """Report whether every cell runs as if ``%%gpudask`` stood above it; the notebook's toolbar shows it."""
        with self._lock:
            self._is_automatic = on
            if self._cluster is not None:
                self._cluster.notify(self._cluster.process.report_automatic, on=on)

    def restart_options(self, changes: dict[str, Any]) -> dict[str, Any]:
        """The options of the last cluster with `changes`; raises an error if a cluster could not start with them."""
        from .server_connection import check_options

        self.require_owned("restart")
        options = options_after(self._options or {}, changes)
        if self._cluster is None:
            spec_on_this_machine(options, None)
        else:
            self._loop.run(check_options(spec_on_this_machine(options, self._cluster.ready)))
        return options

    def stop(self) -> bool:
        """Close the cluster, also one that the Jupyter server is just starting; returns whether there was one."""
        with self._lock:
            cluster, self._loss = self._cluster, None
            if cluster is None:
                from .server_connection import close_cluster

                return self._loop.run(close_cluster())
            self._end(cluster, f"The cluster was stopped at {time.strftime('%H:%M')}; its results are lost.")
            return True

    def _end(self, cluster: RunningCluster, sentence: str) -> None:
        self._cluster = None
        self._loop.run(cluster.process.leave())
        self._close(cluster, sentence, 2)

    def _close(self, cluster: RunningCluster, sentence: str, timeout: float) -> None:
        try:
            cluster.disconnect(sentence, timeout)
        finally:
            self._loop.run(cluster.process.close())

    def _leave(self, cluster: RunningCluster) -> None:
        """End the connections to a cluster that the Jupyter server has replaced, or to which there is another one."""
        self._loop.run(cluster.process.detach())
        cluster.disconnect("The cluster was replaced by one with other options.", timeout=1)

    def detach(self) -> None:
        """Close the cluster, unless the Jupyter server holds it: the next kernel with this id attaches to it."""
        cluster = self._cluster
        if cluster is not None and cluster.is_server_owned:
            cluster.client.close(timeout=1)
        elif cluster is not None:
            self.stop()

    def state(self) -> ClusterState:
        """The current state of the cluster."""
        return self.require().state()

    def reconnect(self) -> RunningCluster | None:
        """The cluster, with a new client if the old one was closed; `None` if there is none or it is unreachable."""
        with self._lock:
            cluster = self._cluster or self._attach()
            if cluster is None or cluster.client.status == "running":
                return cluster
            if not cluster.is_owned:
                self._on_lost(ClusterLostError("connection-lost", address=cluster.ready.address))
                return None
            from ..client.connect import connect

            try:
                cluster.client = connect(cluster.ready, timeout=5)
                self._configure(cluster)
            except OSError:
                self.stop()
                self._loss = ClusterLostError("scheduler-silent")
                return None
            return cluster

    @property
    def _loop(self) -> EventLoopThread:
        if self._loop_thread is None:
            self._loop_thread = EventLoopThread()
        return self._loop_thread

    def _attach(self) -> RunningCluster | None:
        cluster = attach(self._loop, self._on_lost)
        if cluster is not None:
            self._take(cluster)
            self._loss = None
            self._set_up_attached(cluster)
        return cluster

    def _take(self, cluster: RunningCluster) -> None:
        """Use a cluster, with the settings of this session."""
        self._cluster = cluster
        self._configure(cluster)
        if self._is_automatic:
            cluster.notify(cluster.process.report_automatic, on=True)

    def _configure(self, cluster: RunningCluster) -> None:
        cluster.client.optimizes = self._optimizes
        cluster.client.start_timeout = cluster.spec.start_timeout

    def _set_up_attached(self, cluster: RunningCluster) -> None:
        """Give a cluster that another kernel or the server started this kernel's import path, and keep its options."""
        from ..client.connect import import_from

        import_from(cluster.client, import_path())
        self._options = cluster.spec.model_dump(exclude_defaults=True)

    def _on_lost(self, loss: ClusterLostError) -> None:
        cluster, self._cluster, self._loss = self._cluster, None, loss
        if cluster is not None:
            # A cell that waits for a result fails now, and not when the client stops trying to reconnect.
            self._ending = threading.Thread(target=self._close, args=(cluster, loss.reason, 1), daemon=True)
            self._ending.start()


def _is_irrelevant(cluster: RunningCluster, option: str, spec: ClusterSpec) -> bool:
    """Whether a cluster that is running need not have been started with this option."""
    if option == "gpus":
        from ..machine.gpus import are_selected

        return are_selected(cluster.ready.gpus, spec.gpus)
    return option == "wait" or (option == "dashboard" and cluster.is_server_owned)  # its panel shows the dashboard


@contextmanager
def _missing_gpus_first(spec: ClusterSpec) -> Iterator[None]:
    """If a cluster is running, say that requested GPUs do not exist before saying that it is running."""
    try:
        yield
    except ClusterExistsError:
        if spec.gpus not in ("all", "free"):
            from ..machine.gpus import require_gpus, select_gpus

            select_gpus(spec.gpus, require_gpus())
        raise


@cache
def process_session() -> Session:
    """The session of this process, which its notebook and its scripts share."""
    session = Session()
    atexit.register(session.detach)
    # A fork has no thread that could close the cluster, and the cluster is its parent's.
    os.register_at_fork(after_in_child=partial(atexit.unregister, session.detach))
    return session


def _refusal(running: ClusterSpec, requested: ClusterSpec) -> GpuDaskError:
    """Why a kernel without a server cannot have this cluster beside the running one: it has no presets either."""
    from ..protocol.spec import other_options

    if requested.preset:
        return PresetNotFoundError("no-presets", name=repr(requested.preset))
    return other_options(running, requested)
