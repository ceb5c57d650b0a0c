"""Close clusters: after their lifetime, without work, and to hand over their GPUs to a start that waits.

The server that holds a cluster decides here whether the cluster is idle, from its tasks, results and kernel and by the
server's own settings. A start of another user can only wait in the queue.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from weakref import WeakKeyDictionary

from ..errors import ClusterIdleError, ClusterLifetimeError, GpusHandedOverError
from ..machine.leases import LeaseFolder, Place, Waiting, clusters_to_ask
from ..quantities import format_period
from .cluster import KernelCluster, Notice
from .kernels import ServerKernels
from .settings import ServerSettings

logger = logging.getLogger(__name__)


_WARNING = 600.0
_LIFETIME_INTERVAL = 10.0


async def end_after(
    cluster: KernelCluster, seconds: float, close: Callable[[KernelCluster, ClusterLifetimeError], None]
) -> None:
    """Close a cluster that is ready once it is so old, and warn its user ten minutes before.

    `seconds`: the maximum lifetime; the warning is given at the earliest after half of it. `close`: closes a cluster
    with an error, in the background.
    """
    end = time.monotonic() + seconds
    warning = min(_WARNING, seconds / 2)
    while cluster.status == "ready" and (left := end - time.monotonic()) > 0:
        if left <= warning and cluster.closes_at is None:
            cluster.warn_of_end(time.time() + left)
        await asyncio.sleep(min(left if cluster.closes_at else left - warning, _LIFETIME_INTERVAL))
    if cluster.status == "ready":
        close(cluster, ClusterLifetimeError(period=format_period(seconds)))


def check_interval(seconds: float) -> float:
    """How often to look at clusters that may be idle for at most `seconds`; 0 if they may for ever."""
    return min(30.0, max(0.2, seconds / 5)) if seconds else 0.0


def idle_error(cluster: KernelCluster, kernels: ServerKernels, seconds: float) -> ClusterIdleError | None:
    """The error with which to close `cluster`, if it has been idle for longer than `seconds`, unless these are 0.

    While its kernel is busy a cluster is not idle.
    """
    if not seconds:
        return None
    if kernels.is_busy(*cluster.kernel_ids):
        cluster.last_busy = time.monotonic()
    last_used = max(cluster.last_busy, kernels.last_cell(*cluster.kernel_ids))
    is_idle = time.monotonic() - last_used > seconds
    return ClusterIdleError(period=format_period(seconds)) if is_idle else None


NOTICE_SECONDS = 60.0
"""How long the user of an idle cluster has to keep it."""

_INTERVAL = 1.0


class HandOver:
    """Publishes which clusters are idle, notifies the clusters that are asked for their GPUs, and closes them.

    - `kernels`: its kernels: while a kernel is busy its cluster is not idle.
    - `settings`: the administrator's; these are `hand_over_after`, `hand_over_results` and `max_gpus`.
    - `close`: closes a cluster with this error, in the background.

    - `notice_seconds`: how long a notice is shown before the cluster is closed.
    """

    def __init__(
        self,
        clusters: Mapping[str, KernelCluster],
        kernels: ServerKernels,
        settings: ServerSettings,
        close: Callable[[KernelCluster, GpusHandedOverError], None],
    ) -> None:
        self._clusters = clusters
        self._kernels = kernels
        self._close = close
        self._seconds: float = settings.hand_over_after
        self._gives_results: bool = settings.hand_over_results
        self._max_gpus: int | None = settings.max_gpus
        self.notice_seconds = NOTICE_SECONDS
        self._places: dict[KernelCluster, Place] = {}
        self._last_used: WeakKeyDictionary[KernelCluster, float] = WeakKeyDictionary()
        self._task: asyncio.Task[None] | None = None
        self._problem = ""

    def start(self) -> None:
        """Begin, if the administrator has set a time; to be called in the event loop."""
        if self._seconds and self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Give no more clusters over."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for cluster in list(self._places):
            self._leave(cluster)

    def keep(self, cluster: KernelCluster) -> None:
        """Keep a cluster: its idle time begins anew."""
        self._last_used[cluster] = time.monotonic()
        cluster.notify_about_gpus(None)
        self._leave(cluster)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL)
            try:
                await self._check()
            except Exception as error:  # one failure must not end this for good
                if str(error) != self._problem:
                    logger.warning("Idle clusters cannot be given over: %s", error, exc_info=error)
                self._problem = str(error)
            else:
                self._problem = ""

    async def _check(self) -> None:
        clusters = set(self._clusters.values())
        idle = {cluster for cluster in clusters if self._is_idle(cluster)}
        for cluster in set(self._places) - idle:
            self._leave(cluster)
        asked = await self._ask(idle) if idle else {}
        for cluster in clusters:
            if (waiting := asked.get(cluster)) is None:
                cluster.notify_about_gpus(None)
            else:
                await self._give_over(cluster, waiting)

    async def _ask(self, idle: set[KernelCluster]) -> dict[KernelCluster, Waiting]:
        """Who waits for the GPUs of which of these clusters."""
        folder = LeaseFolder()
        new = [cluster for cluster in idle if cluster not in self._places]
        gpus = [(self._gpus(cluster), self._idle_seconds(cluster)) for cluster in new]
        places, asked = await asyncio.to_thread(_publish_and_choose, folder, gpus, self._max_gpus)
        self._places |= dict(zip(new, places, strict=True))
        orders = {(each.since, each.device, each.inode): waiting for each, waiting in asked.items()}
        return {cluster: orders[place.order] for cluster, place in self._places.items() if place.order in orders}

    async def _give_over(self, cluster: KernelCluster, waiting: Waiting) -> None:
        """Give notice, or close the cluster if nobody has answered the notice."""
        notice = cluster.notice
        if notice is not None and time.monotonic() < notice.ends:
            return
        # Without an answer nobody knows what the cluster does and holds.
        if not await cluster.refresh(max_age=0.0) or not self._is_idle(cluster):
            return
        if notice is None:
            now, seconds = time.time(), self.notice_seconds
            cluster.notify_about_gpus(Notice(waiting.description, now + seconds, time.monotonic() + seconds))
        else:
            error = GpusHandedOverError(period=format_period(self._idle_seconds(cluster)), waiting=waiting.description)
            self._close(cluster, error)

    def _is_idle(self, cluster: KernelCluster) -> bool:
        """Whether a cluster with GPUs has not been used for longer than the setting."""
        if cluster.status != "ready" or not self._gpus(cluster) or cluster.state is None:
            return False
        has_results = cluster.state.result_bytes > 0 and not self._gives_results
        if has_results or self._kernels.is_busy(*cluster.kernel_ids):
            self._last_used[cluster] = time.monotonic()
        return self._idle_seconds(cluster) > self._seconds

    def _idle_seconds(self, cluster: KernelCluster) -> float:
        last_cell = self._kernels.last_cell(*cluster.kernel_ids)
        return time.monotonic() - max(cluster.last_busy, last_cell, self._last_used.get(cluster, 0.0))

    def _gpus(self, cluster: KernelCluster) -> tuple[str, ...]:
        return () if cluster.ready is None else tuple(gpu.uuid for gpu in cluster.ready.gpus)

    def _leave(self, cluster: KernelCluster) -> None:
        place = self._places.pop(cluster, None)
        if place is not None:
            place.leave()


def _publish_and_choose(
    folder: LeaseFolder, idle: list[tuple[tuple[str, ...], float]], max_gpus: int | None = None
) -> tuple[list[Place], dict[Waiting, Waiting]]:
    """Publish clusters that have become idle, by their GPUs and seconds; their places, and all that are asked."""
    places: list[Place] = []
    if idle:
        with folder.lock():
            try:
                for gpus, seconds in idle:
                    places.append(folder.idle.enter(gpus, since=time.time() - seconds))
            except OSError:  # nobody would leave them
                for place in places:
                    place.leave()
                raise
    line = folder.line.read()
    asked = clusters_to_ask(line, folder.read_public(), folder.idle.read(), max_gpus) if line else {}
    return places, asked
