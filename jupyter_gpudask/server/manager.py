"""The clusters of a server: at most one for each kernel, and shared ones; independent of the web framework."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from jupyter_server.utils import ensure_async

from ..errors import (
    ClusterIdleError,
    ClusterLifetimeError,
    ClusterLostError,
    ClusterStartError,
    ConnectError,
    GpuDaskError,
    GpusHandedOverError,
    KernelNotFoundError,
    LimitError,
    NoClusterError,
    SpecError,
)
from ..launcher.cluster import ClusterConnection
from ..machine.plan import check_replacement
from ..protocol.messages import Interpreter, Ready
from ..protocol.rest import Status, shared_id, shared_name
from ..protocol.spec import ClusterSpec, other_options
from ..protocol.verbs import EndReason
from .cluster import KernelCluster
from .kernels import ServerKernels
from .lifetime import HandOver, check_interval, end_after, idle_error
from .settings import Policy

logger = logging.getLogger(__name__)

_JUST_BUSY = 3.0
"""For how many seconds after its end a cell counts: it may have submitted tasks that no state shows yet."""

_END_REASONS: Mapping[type[GpuDaskError | None], EndReason] = {
    ClusterIdleError: "idle",
    GpusHandedOverError: "handed over",
    ClusterLifetimeError: "lifetime",
}


class ClusterManager:
    """Starts and closes clusters; a lock for each kernel keeps these operations in order.

    - `clusters`: the most recent cluster of each kernel that has or had one, by kernel id, and the shared clusters, by
      an id of `shared_id`.
    - `joined`: the clusters of somebody else to which kernels are connected, by kernel id; they are shown and never
      changed.
    - `hand_over`: gives the GPUs of idle clusters to starts that wait.
    """

    def __init__(self, kernels: ServerKernels, policy: Policy) -> None:
        self.kernels, self.policy, settings = kernels, policy, policy.settings
        self._idle_timeout = timeout = settings.idle_timeout
        self.clusters: dict[str, KernelCluster] = {}
        self.joined: dict[str, KernelCluster] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._starts: dict[KernelCluster, asyncio.Task[None]] = {}
        self._closes: dict[KernelCluster, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self.hand_over = HandOver(self.clusters, kernels, settings, self.close_in_background)
        self._own_interval = min(filter(None, map(check_interval, (timeout, settings.hand_over_after))), default=0.0)
        self._interval = self._own_interval
        self._observers: list[Callable[[KernelCluster], None]] = []
        self._statuses: WeakKeyDictionary[KernelCluster, Status] = WeakKeyDictionary()

    @property
    def needs_idle_times(self) -> bool:
        """Whether the administrator has set a time after which idle clusters are closed or handed over."""
        return self._own_interval > 0

    def observe(self, observer: Callable[[KernelCluster], None]) -> Callable[[], None]:
        """Call `observer` with each cluster whose status has changed, until the returned function is called."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def get(self, kernel_id: str) -> KernelCluster:
        """The cluster of a kernel; raises `NoClusterError` if the kernel has no cluster."""
        if kernel_id not in self.clusters:
            raise NoClusterError
        return self.clusters[kernel_id]

    def shown(self) -> dict[str, KernelCluster]:
        """The clusters of all kernels, by kernel id: the one to which a kernel is connected, or else its own."""
        return {**self.clusters, **self.joined}

    def get_shown(self, kernel_id: str) -> KernelCluster:
        """The cluster of a kernel, also one that somebody else started; raises `NoClusterError` if it has none."""
        return self.joined.get(kernel_id) or self.get(kernel_id)

    def shared(self, kernel_id: str) -> Ready:
        """Where a shared cluster is; raises `ConnectError` if there is none that is ready."""
        cluster = self.clusters.get(kernel_id)
        if cluster is None or not cluster.name or cluster.ready is None:
            raise ConnectError("no-shared-cluster", name=kernel_id)
        return cluster.ready

    def is_busy(self, cluster: KernelCluster) -> bool:
        """Whether the kernel of a cluster runs a cell, or did so a moment ago, or there are unfinished tasks."""
        if cluster.status != "ready":
            return False
        has_tasks = cluster.state is not None and cluster.state.tasks_unfinished > 0
        since = time.monotonic() - self.kernels.last_cell(*cluster.kernel_ids)
        return has_tasks or self.kernels.is_busy(*cluster.kernel_ids) or since < _JUST_BUSY

    async def show_joined(self, kernel_id: str, connection: ClusterConnection) -> None:
        """Show the cluster to which a kernel is connected, until that ends."""
        cluster = KernelCluster(kernel_id, connection.spec, lambda _: None, connection)
        address = connection.ready.address
        ready = ((each, each.ready) for each in self.clusters.values() if each.name)
        cluster.shared = next((each for each, there in ready if there and there.address == address), None)
        if cluster.shared is not None:
            cluster.shared.users.add(kernel_id)
        self.joined[kernel_id] = cluster
        cluster.request_states(self._interval)
        try:
            await connection.follow()
        finally:
            if self.joined.get(kernel_id) is cluster:
                del self.joined[kernel_id]
                if cluster.shared is not None:
                    cluster.shared.users.discard(kernel_id)
            await cluster.close()

    def create(
        self, kernel_id: str, spec: ClusterSpec, interpreter: Interpreter | None = None
    ) -> tuple[KernelCluster, bool]:
        """Start a cluster in the background.

        - `kernel_id`: its kernel, or the id of a shared cluster.
        - `interpreter`: the interpreter to run the supervisor with; by default that of the kernel's process, or of the
          default kernelspec for a shared cluster.

        Returns the cluster, and whether it is new: a cluster with the same spec that is starting or ready is returned.
        Raises `KernelNotFoundError` if there is no such kernel. Raises `ClusterExistsError` if the kernel has a cluster
        with another spec. Raises `SpecError` if a shared cluster would use UCX. Raises `LimitError` if the server has
        the maximum number of clusters.
        """
        self._check_owner(kernel_id)
        if shared_name(kernel_id) and spec.protocol == "ucx":
            raise SpecError("shared-without-ucx")
        existing = self.clusters.get(kernel_id)
        if existing is not None and existing.alive:
            if existing.spec == spec:
                return existing, False
            raise other_options(existing.spec, spec)
        limit, others = self.policy.settings.max_clusters, set(self.clusters) - {kernel_id}
        if (
            limit is not None
            and sum(self.clusters[other].status not in ("closed", "failed") for other in others) >= limit
        ):
            raise LimitError("too-many-clusters", limit=limit)
        cluster = KernelCluster(kernel_id, spec, self._on_change)
        self.clusters[kernel_id] = cluster
        self._starts[cluster] = task = asyncio.create_task(self._start(cluster, interpreter))
        task.add_done_callback(lambda _: self._starts.pop(cluster, None))
        return cluster, True

    async def close(
        self, kernel_id: str, error: GpuDaskError | None = None, *, reason: EndReason | None = None
    ) -> None:
        """Close the cluster of a kernel and wait until no process of it is left.

        A cluster that is closed with an `error` stays in `clusters`, so that the user learns the reason. The record of
        the use of GPUs has `reason`, by default that of the error.

        Raises `NoClusterError` if the kernel has no cluster.
        """
        cluster = self.get(kernel_id)
        await self._start_to_close(cluster, error, reason)
        if error is None and self.clusters.get(kernel_id) is cluster:
            del self.clusters[kernel_id]

    def close_in_background(self, cluster: KernelCluster, error: GpuDaskError) -> None:
        """Close this cluster with an error, without waiting for it, and not another one that its kernel has got."""
        self._start_to_close(cluster, error)

    async def check_restart(self, kernel_id: str, options: Mapping[str, Any]) -> None:
        """Raise an error if the cluster of a kernel cannot be restarted with `options`; it keeps running."""
        old = self.get(kernel_id)
        await self._check_replacement(old, self.policy.updated_spec(old.spec, options))

    async def _check_replacement(self, old: KernelCluster, spec: ClusterSpec) -> None:
        if old.ready is not None and old.interpreter is not None:
            limit = self.policy.settings.max_gpus
            environment = old.interpreter.environment
            check = partial(check_replacement, spec, old.ready.pid, environment, limit, kernel_id=old.kernel_id)
            await asyncio.to_thread(check)

    def restart(self, kernel_id: str, options: Mapping[str, Any]) -> KernelCluster:
        """Close the cluster of a kernel and start a new one, with `options` replaced, unless that raises an error."""
        old = self.get(kernel_id)
        self._check_owner(kernel_id)
        spec = self.policy.updated_spec(old.spec, options)
        return self._replace(old, spec, old.interpreter)

    def _check_owner(self, kernel_id: str) -> None:
        if kernel_id not in self.kernels and not shared_name(kernel_id):
            raise KernelNotFoundError(kernel=kernel_id)

    async def start(self, kernel_id: str, spec: ClusterSpec) -> KernelCluster:
        """As `create`, but a cluster with another spec that is unused is replaced; without an id, a new shared one."""
        kernel_id = kernel_id or next(each for each in map(shared_id, count(1)) if each not in self.clusters)
        old = self.clusters.get(kernel_id)
        if old is not None and old.alive and old.spec != spec and await old.is_unused():
            return await self.replace_unused(old, spec)
        return self.create(kernel_id, spec)[0]

    async def replace_unused(
        self, old: KernelCluster, spec: ClusterSpec, interpreter: Interpreter | None = None
    ) -> KernelCluster:
        """Close a cluster that is unused, and start one with another spec; raises the same errors as `start`."""
        await self._check_replacement(old, spec)
        return self._replace(old, spec, interpreter)

    def _replace(self, old: KernelCluster, spec: ClusterSpec, interpreter: Interpreter | None) -> KernelCluster:
        self._start_to_close(old, ClusterLostError("restarted"))
        return self.create(old.kernel_id, spec, interpreter)[0]

    def request_states(self, interval: float) -> None:
        """Have every cluster report its state every `interval` seconds; 0 for as often as idle times need it."""
        self._interval = interval or self._own_interval
        for cluster in (*self.clusters.values(), *self.joined.values()):
            cluster.request_states(self._interval)

    def rename(self, notebooks: Mapping[str, tuple[str, ...]]) -> None:
        """Update the holder of each cluster's GPU lease to the current paths of its notebooks."""
        for kernel_id, cluster in self.clusters.items():
            cluster.rename(self._holder(kernel_id, notebooks))

    async def close_all(self) -> None:
        """Close all clusters, when the server shuts down."""
        await self.hand_over.stop()
        for cluster in list(self.clusters.values()):
            self._start_to_close(cluster, None, "server ended")
        await asyncio.gather(*self._closes.values(), return_exceptions=True)
        for task in self._background:
            task.cancel()
        self.clusters.clear()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run `coroutine` in the background; exceptions are logged."""
        task = asyncio.create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._on_end_of_task)

    def _on_end_of_task(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s", error, exc_info=error)

    def _holder(self, kernel_id: str, notebooks: Mapping[str, tuple[str, ...]]) -> str:
        default = shared_name(kernel_id) or f"kernel {self.kernels.name(kernel_id)}"
        return ", ".join(notebooks.get(kernel_id, (default,)))

    def _lock(self, kernel_id: str) -> asyncio.Lock:
        return self._locks.setdefault(kernel_id, asyncio.Lock())

    async def _start(self, cluster: KernelCluster, interpreter: Interpreter | None) -> None:
        kernel_id = cluster.kernel_id
        async with self._lock(kernel_id):
            try:
                notebooks = await self.kernels.notebooks()
                self.rename(notebooks)  # an error about GPUs in use names their holders
                if interpreter is None and cluster.name:
                    interpreter = await self.kernels.default_interpreter()
                await cluster.start(
                    interpreter or await self.kernels.interpreter(kernel_id),
                    holder=self._holder(kernel_id, notebooks),
                    cluster_class=self.policy.cluster_class(cluster.spec.preset),
                    max_workers=self.policy.settings.max_workers,
                    max_gpus=self.policy.settings.max_gpus,
                )
            except GpuDaskError as error:
                cluster.fail(error)
            except Exception as error:  # an unforeseen error must not leave the status at `starting`
                logger.exception("The cluster of kernel %s did not start", kernel_id)
                cluster.fail(ClusterStartError("not-started", error=f"{type(error).__name__}: {error}"))
            cluster.request_states(self._interval)  # the interval may have changed during the start
        if seconds := self.policy.settings.max_lifetime:
            self.spawn(end_after(cluster, seconds, self.close_in_background))

    def _start_to_close(
        self, cluster: KernelCluster, error: GpuDaskError | None, reason: EndReason | None = None
    ) -> Awaitable[None]:
        """Begin to close `cluster`, unless that has begun; awaiting the result waits for the end."""
        if cluster not in self._closes:
            if cluster.status not in ("failed", "closed"):
                cluster.mark_closing(error)
            if (start := self._starts.get(cluster)) is not None:
                start.cancel()
            reason = reason or _END_REASONS.get(type(error), "stopped")
            self._closes[cluster] = task = asyncio.create_task(self._close(cluster, reason))
            task.add_done_callback(lambda _: self._closes.pop(cluster, None))
        return asyncio.shield(self._closes[cluster])

    async def _close(self, cluster: KernelCluster, reason: EndReason) -> None:
        async with self._lock(cluster.kernel_id):
            await cluster.close(reason)

    def _on_change(self, cluster: KernelCluster) -> None:
        if cluster.has_processes:  # before the next cluster of the kernel starts
            self._start_to_close(cluster, None)
        if self._statuses.get(cluster) != cluster.status:
            self._statuses[cluster] = cluster.status
            for observer in self._observers:
                observer(cluster)
        if self.clusters.get(cluster.kernel_id) is not cluster:
            return
        if cluster.status == "ready" and (error := idle_error(cluster, self.kernels, self._idle_timeout)) is not None:
            self.close_in_background(cluster, error)


_POLL_INTERVAL = 2.0
_KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"


class KernelEventListener:
    """Listens to the server's kernel events.

    Jupyter Server emits an event for each action on a kernel, including the restart after a crash. When a kernel dies
    and is not restarted there is no event: the kernel manager then calls the callbacks registered for ``dead``.
    """

    def __init__(self, manager: ClusterManager, kernel_manager: Any, event_logger: Any) -> None:
        self._manager = manager
        self._kernels = kernel_manager
        self._event_logger = event_logger
        self._on_action: Mapping[str, Callable[[str], None]] = {
            "start": self._on_start,
            "restart": self._on_restart,
            "shutdown": self._on_end,
        }
        event_logger.add_listener(schema_id=_KERNEL_ACTIONS, listener=self._listen)
        for kernel_id in kernel_manager.list_kernel_ids():  # those that are already running
            self._on_start(kernel_id)

    def stop(self) -> None:
        """Remove the listener."""
        self._event_logger.remove_listener(schema_id=_KERNEL_ACTIONS, listener=self._listen)

    async def _listen(self, logger: Any, schema_id: str, data: Mapping[str, Any]) -> None:  # noqa: ARG002 - as called
        on_action = self._on_action.get(data["action"])
        if on_action is not None and data.get("status") == "success" and data.get("kernel_id"):
            on_action(data["kernel_id"])

    def _on_start(self, kernel_id: str) -> None:
        if kernel_id in self._kernels:
            if self._manager.needs_idle_times:
                self._manager.kernels.watch(kernel_id)
            if getattr(self._kernels.get_kernel(kernel_id), "autorestart", True):
                self._kernels.add_restart_callback(kernel_id, lambda: self._on_end(kernel_id), "dead")
            else:
                self._manager.spawn(self._poll(kernel_id))

    async def _poll(self, kernel_id: str) -> None:
        """Wait for the death of a kernel with `autorestart` disabled, for which no callback is called."""
        dead = 0
        while kernel_id in self._kernels:
            dead = 0 if await ensure_async(self._kernels.get_kernel(kernel_id).is_alive()) else dead + 1
            if dead == 2:  # a single time may be a restart in progress
                self._on_end(kernel_id)
            await asyncio.sleep(_POLL_INTERVAL)

    def _on_restart(self, kernel_id: str) -> None:
        """Apply the restart policy, after the old kernel process has ended."""
        manager = self._manager
        if manager.needs_idle_times:
            manager.kernels.watch(kernel_id)
        cluster = manager.clusters.get(kernel_id)
        if cluster is None or not cluster.alive:
            return
        if manager.policy.settings.restart_policy == "stop":
            error = ClusterLostError("kernel-restarted")
            manager.spawn(manager.close(kernel_id, error))
        elif manager.policy.settings.restart_policy == "renew":
            manager.restart(kernel_id, {}).unused = True
        else:
            cluster.unused = True
            if cluster.status == "ready":
                manager.spawn(self._reset(cluster))

    async def _reset(self, cluster: KernelCluster) -> None:
        kernel_id = cluster.kernel_id
        try:
            await cluster.reset()
        except GpuDaskError as error:
            if self._manager.clusters.get(kernel_id) is cluster and cluster.alive:
                logger.warning("The cluster of kernel %s could not be reset, and is restarted: %s", kernel_id, error)
                self._manager.restart(kernel_id, {}).unused = True

    def _on_end(self, kernel_id: str) -> None:
        self._manager.kernels.forget(kernel_id)
        if kernel_id in self._manager.clusters:
            self._manager.spawn(self._manager.close(kernel_id, reason="kernel ended"))
