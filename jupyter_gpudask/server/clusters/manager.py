"""The clusters of a server's kernels, at most one each; knows nothing of web frameworks."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ...errors import (
    ClusterExistsError,
    ClusterLostError,
    ClusterStartError,
    GpuDaskError,
    KernelNotFoundError,
    LimitError,
    NoClusterError,
)
from ...machine.gpu_choice import check_replacement
from .background_tasks import Tasks
from .cluster import KernelCluster
from .idle_timeout import IdleWatch
from .standby import Standby

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Mapping

    from ...launcher.cluster_process import ClusterProcess
    from ...protocol import ClusterSpec
    from .kernels import Interpreter, Kernels
    from .policy import Policy

logger = logging.getLogger(__name__)

_LOG_LINES = 200


class ClusterManager:
    """Starts, follows and ends the clusters; one lock for each kernel keeps their starts and ends in order.

    Parameters
    ----------
    kernels
        The kernels that can have clusters.
    policy
        What the administrator allows.

    Attributes
    ----------
    clusters
        The last cluster of each kernel that has or had one, by kernel id.
    standby
        What makes the next start quick.
    """

    def __init__(self, kernels: Kernels, policy: Policy) -> None:
        self.kernels = kernels
        self.policy = policy
        self.clusters: dict[str, KernelCluster] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._starts: dict[KernelCluster, asyncio.Task[None]] = {}
        self._closes: dict[KernelCluster, asyncio.Task[None]] = {}
        self._others = Tasks()
        self.standby = Standby(kernels, policy.settings.standby)
        self._idle = IdleWatch(policy.settings.idle_timeout, kernels)
        self._interval = self._idle.interval

    def get(self, kernel_id: str) -> KernelCluster:
        """The cluster of a kernel.

        Raises
        ------
        NoClusterError
            It has none.
        """
        if kernel_id not in self.clusters:
            raise NoClusterError
        return self.clusters[kernel_id]

    def create(
        self, kernel_id: str, spec: ClusterSpec, interpreter: Interpreter | None = None
    ) -> tuple[KernelCluster, bool]:
        """Order a cluster; it is starting when this returns.

        Parameters
        ----------
        kernel_id
            Whose it will be.
        spec
            What it will be.
        interpreter
            What runs it; by default what runs the kernel.

        Returns
        -------
        (KernelCluster, bool)
            The cluster, and whether it is new: one that is like it already may be there.

        Raises
        ------
        KernelNotFoundError
            There is no such kernel.
        ClusterExistsError
            It has a cluster with another spec.
        LimitError
            There are as many clusters as are allowed.
        """
        if kernel_id not in self.kernels:
            raise KernelNotFoundError(kernel_id)
        present = self.clusters.get(kernel_id)
        if present is not None and present.alive:
            if present.spec == spec:
                return present, False
            raise ClusterExistsError("This kernel has a cluster with other options.", "Restart it with these options.")
        limit, others = self.policy.settings.max_clusters, set(self.clusters) - {kernel_id}
        if (
            limit is not None
            and sum(self.clusters[other].status not in ("closed", "failed") for other in others) >= limit
        ):
            raise LimitError(f"This server allows {limit} clusters at a time.", "Stop one first.")
        cluster = KernelCluster(kernel_id, spec, self._changed)
        self.clusters[kernel_id] = cluster
        self._starts[cluster] = task = asyncio.create_task(self._start(cluster, interpreter))
        task.add_done_callback(lambda _: self._starts.pop(cluster, None))
        return cluster, True

    async def close(self, kernel_id: str, why: GpuDaskError | None = None) -> None:
        """Close the cluster of a kernel, and wait until it is gone; `why` is kept for whoever asks for it later.

        Raises
        ------
        NoClusterError
            It has none.
        """
        cluster = self.get(kernel_id)
        await self._closing(cluster, why)
        if why is None and self.clusters.get(kernel_id) is cluster:
            del self.clusters[kernel_id]

    async def check_restart(self, kernel_id: str, options: Mapping[str, Any]) -> None:
        """See that a cluster which differs by `options` could start in place of that of a kernel, if this one is up.

        Raises
        ------
        NoClusterError, SpecError, LimitError, GpuHeldError, GpuUnavailableError
            It could not; the one that is up goes on.
        """
        old = self.get(kernel_id)
        spec = self.policy.updated_spec(old.spec, options)
        if old.ready is not None and old.interpreter is not None:
            await asyncio.to_thread(check_replacement, spec, old.ready.pid, old.interpreter.environment)

    def restart(self, kernel_id: str, options: Mapping[str, Any]) -> KernelCluster:
        """Close the cluster of a kernel and order one that differs from it by `options`.

        Raises
        ------
        NoClusterError, SpecError, LimitError
            There is none, or the new one cannot be; the old one goes on.
        """
        old = self.get(kernel_id)
        if kernel_id not in self.kernels:
            raise KernelNotFoundError(kernel_id)
        spec = self.policy.updated_spec(old.spec, options)
        self._closing(old, ClusterLostError("The cluster was restarted; what its workers held is lost."))
        return self.create(kernel_id, spec, old.interpreter)[0]

    async def scale(self, kernel_id: str, workers: int) -> None:
        """Have `workers` workers.

        Raises
        ------
        NoClusterError, LimitError, GpuDaskError
            It is not ready, or cannot have so many.
        """
        self.policy.check_workers(workers)
        cluster = self.get(kernel_id)
        cluster.state = await self._process(cluster).scale(workers)

    async def empty(self, cluster: KernelCluster) -> None:
        """Forget what it computed and keeps; the workers stay.

        Raises
        ------
        ClusterLostError
            It is not ready, or does not answer.
        """
        cluster.state = await self._process(cluster).reset()

    async def logs(self, kernel_id: str, lines: int = _LOG_LINES) -> dict[str, str]:
        """The last lines of the logs of a kernel's cluster, by the name of the worker."""
        return await self.get(kernel_id).logs(lines)

    async def refresh(self, kernel_id: str) -> KernelCluster:
        """The cluster with its state of now, as far as it tells."""
        cluster = self.get(kernel_id)
        await cluster.refresh()
        return cluster

    def watch(self, interval: float) -> None:
        """Have every cluster report every `interval` seconds; 0 for no more often than the idle timeout needs."""
        self._interval = interval or self._idle.interval
        for cluster in self.clusters.values():
            cluster.watch(self._interval)

    def rename(self, notebooks: Mapping[str, tuple[str, ...]]) -> None:
        """Have every cluster go by the names that its notebooks have now."""
        for kernel_id, cluster in self.clusters.items():
            cluster.rename(self._holder(kernel_id, notebooks))

    async def close_all(self) -> None:
        """Close everything; the server ends."""
        for cluster in list(self.clusters.values()):
            self._closing(cluster, None)
        await asyncio.gather(*self._closes.values(), return_exceptions=True)
        self._others.cancel()
        await self.standby.close()
        self.clusters.clear()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work` beside everything else; what goes wrong is logged."""
        self._others.spawn(work)

    def _holder(self, kernel_id: str, notebooks: Mapping[str, tuple[str, ...]]) -> str:
        return ", ".join(notebooks.get(kernel_id, (f"kernel {self.kernels.name(kernel_id)}",)))

    def _lock(self, kernel_id: str) -> asyncio.Lock:
        return self._locks.setdefault(kernel_id, asyncio.Lock())

    async def _start(self, cluster: KernelCluster, interpreter: Interpreter | None) -> None:
        kernel_id = cluster.kernel_id
        async with self._lock(kernel_id):
            try:
                notebooks = await self.kernels.notebooks()
                self.rename(notebooks)  # those that hold what it may want, for a refusal names them
                await cluster.start(
                    _given(interpreter) if interpreter is not None else self.kernels.interpreter(kernel_id),
                    holder=self._holder(kernel_id, notebooks),
                    cluster_class=self.policy.cluster_class(cluster.spec.profile),
                    standby=self.standby,
                    max_workers=self.policy.settings.max_workers,
                )
            except Exception as error:  # what nobody foresaw must not leave it starting for ever
                logger.exception("The cluster of kernel %s did not start", kernel_id)
                cluster.fail(ClusterStartError(f"It did not start: {type(error).__name__}: {error}."))
            cluster.watch(self._interval)  # which may have changed while it started
        self.spawn(self.standby.prepare(kernel_id))

    def _closing(self, cluster: KernelCluster, why: GpuDaskError | None) -> Awaitable[None]:
        if cluster not in self._closes:
            if cluster.status not in ("failed", "closed"):
                cluster.mark_closing(why)
            if (start := self._starts.get(cluster)) is not None:
                start.cancel()
            self._closes[cluster] = task = asyncio.create_task(self._close(cluster))
            task.add_done_callback(lambda _: self._closes.pop(cluster, None))
        return asyncio.shield(self._closes[cluster])

    async def _close(self, cluster: KernelCluster) -> None:
        async with self._lock(cluster.kernel_id):
            await cluster.close()

    def _process(self, cluster: KernelCluster) -> ClusterProcess:
        if cluster.process is None:
            raise ClusterLostError(f"The cluster is {cluster.status}.", "Wait until it is ready, or restart it.")
        return cluster.process

    def _changed(self, cluster: KernelCluster) -> None:
        if self.clusters.get(cluster.kernel_id) is not cluster:
            return
        if cluster.status == "ready" and (why := self._idle.verdict(cluster)) is not None:
            self.spawn(self.close(cluster.kernel_id, why))


async def _given(interpreter: Interpreter) -> Interpreter:
    return interpreter
