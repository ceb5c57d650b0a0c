"""Scale a running cluster: to a number of workers, or adaptively."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any

from ...errors import GpuDaskError, GpuUnavailableError, LimitError, ScaleError
from ..engines import worker_names
from ..engines.ssh import check_capacity

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ...machine.plan import Plan
    from ..jobs.job_queue import JobQueue

logger = logging.getLogger(__name__)

_ANSWER_LIMIT = 8.0  # a command is answered within 10


class Scaling:
    """Scales one cluster.

    Parameters
    ----------
    cluster
        The Dask cluster.
    plan
        Its plan; a cluster on GPUs of this machine has at most one worker for each.
    limit
        The largest number of workers that the administrator allows; `None` for no limit.
    jobs
        Its jobs, if its workers are jobs of a batch system.

    Attributes
    ----------
    range
        The smallest and the largest number of workers while the cluster is adaptive; else `None`.
    leaving
        The number of workers that are up until their results have been moved to the others.
    """

    def __init__(self, cluster: Any, plan: Plan, limit: int | None, jobs: JobQueue | None) -> None:
        self._cluster, self._gpus, self._limit, self._jobs = cluster, len(plan.gpus), limit, jobs
        self._capacity: int | None = getattr(cluster, "capacity", None)
        self._adaptive: Any = None
        self._scaling: asyncio.Task[None] | None = None
        self.range: tuple[int, int] | None = None
        self.leaving = 0

    async def scale(self, workers: int) -> None:
        """Scale to `workers` workers, which ends `adapt`; new ones start later.

        The others close when their results have been moved, which may take longer than this method.

        Raises
        ------
        GpuUnavailableError
            The cluster does not hold that many GPUs.
        LimitError
            The administrator allows fewer.
        ClusterStartError
            The batch system refuses the jobs.
        ScaleError
            What workers hold cannot be moved to others, or an earlier `scale` is still moving it.
        """
        self._check(workers)
        deadline = asyncio.get_running_loop().time() + _ANSWER_LIMIT
        await self._wait_for_earlier(deadline)
        self._stop_adapting()
        self._scaling = asyncio.create_task(self._scale(workers))
        if await _is_done_by(deadline, self._scaling):
            self._scaling.result()
        else:
            self._scaling.add_done_callback(_log_failure)

    async def adapt(self, minimum: int, maximum: int) -> None:
        """Let Dask close workers that are idle and start them when there is work, within a range.

        Raises
        ------
        GpuUnavailableError, LimitError, ScaleError
            See `scale`.
        """
        self._check(maximum)
        await self._wait_for_earlier(asyncio.get_running_loop().time() + _ANSWER_LIMIT)
        self._stop_adapting()
        self._adaptive = self._cluster.adapt(minimum=minimum, maximum=maximum)
        self.range = minimum, maximum

    def close(self) -> None:
        """Stop to move results and to follow the work, before the cluster closes."""
        self._stop_adapting()
        if self._scaling is not None:
            self._scaling.cancel()

    async def _wait_for_earlier(self, deadline: float) -> None:
        if self._scaling is not None and not await _is_done_by(deadline, self._scaling):
            raise ScaleError("still-scaling")

    async def _scale(self, workers: int) -> None:
        surplus = self._surplus(workers)
        staying = await self._retire(surplus)
        for name in surplus:
            if name not in staying:
                self._cluster.worker_spec.pop(name, None)
        # Dask's own choice of workers closes none: so many are left.
        self._cluster.scale(max(workers, len(self._cluster.plan)))
        if self._jobs is not None:
            await self._jobs.submit()
        if staying:
            raise ScaleError("workers-stay", workers=sum(len(self._names(name)) for name in staying))

    def _surplus(self, workers: int) -> list[Hashable]:
        """The entries of Dask's specification to close: each is a worker, or a job or a host with several.

        First those that are not up, then those that are idle, hold least, and were added last.
        """
        entries = list(self._cluster.worker_spec)
        if not entries:
            return []
        up = {str(worker.name): worker for worker in self._cluster.scheduler.workers.values()}

        def loss(entry: Hashable) -> tuple[Any, ...]:
            states = [up[name] for name in self._names(entry) if name in up]
            return (
                bool(states),
                any(state.actors for state in states),
                any(state.long_running for state in states),
                any(state.processing for state in states),
                sum(state.nbytes for state in states),
                -entries.index(entry),
            )

        kept = math.ceil(workers / len(self._names(entries[0])))
        return sorted(entries, key=loss)[: max(0, len(entries) - kept)]

    async def _retire(self, entries: list[Hashable]) -> list[Hashable]:
        """Move the results of the workers of `entries` to the others; those whose results cannot be moved.

        Dask's `scale` means to do so, but passes the names of the entries for the addresses of workers: their results
        would be computed again, and those of `Client.scatter` would be lost.
        """
        scheduler = self._cluster.scheduler
        names = {name for entry in entries for name in self._names(entry)}
        self.leaving = len(names)
        try:
            await scheduler.retire_workers(names=list(names))
        finally:
            self.leaving = 0
        up = {str(worker.name) for worker in scheduler.workers.values()}
        return [entry for entry in entries if not up.isdisjoint(self._names(entry))]

    def _names(self, entry: Hashable) -> list[str]:
        return worker_names(self._cluster, entry)

    def _stop_adapting(self) -> None:
        if self._adaptive is not None:
            self._adaptive.stop()
        self._adaptive = self.range = None

    def _check(self, workers: int) -> None:
        check_workers(workers, self._gpus, self._limit)
        if self._capacity is not None:
            check_capacity(workers, self._capacity)


async def _is_done_by(deadline: float, task: asyncio.Task[None]) -> bool:
    await asyncio.wait([task], timeout=max(0, deadline - asyncio.get_running_loop().time()))
    return task.done()


def _log_failure(scaling: asyncio.Task[None]) -> None:
    """Log why workers were not closed or started, after the command was answered."""
    if not scaling.cancelled() and (error := scaling.exception()) is not None:
        logger.warning("%s", error, exc_info=None if isinstance(error, GpuDaskError) else error)


def check_workers(workers: int, gpus: int, limit: int | None) -> None:
    """Check whether a cluster that holds so many GPUs of this machine can have so many workers.

    Raises
    ------
    LimitError
        The administrator allows fewer than `workers`.
    GpuUnavailableError
        The cluster has GPUs, but fewer.
    """
    check_limit(workers, limit)
    if gpus and workers > gpus:
        raise GpuUnavailableError("too-few-held", workers=workers, gpus=gpus)


def check_limit(workers: int, limit: int | None) -> None:
    """Raise `LimitError` if a cluster may not have so many workers."""
    if limit is not None and workers > limit:
        raise LimitError("too-many-workers", limit=limit, workers=workers)
