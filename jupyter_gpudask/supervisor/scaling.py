"""Scaling of a running cluster: to a number of workers, or as its work requires."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..errors import GpuUnavailableError, LimitError
from .engines.ssh import check_capacity

if TYPE_CHECKING:
    from ..machine.plan import Plan
    from .job_queue import JobQueue

_RETIRE_LIMIT = 5.0
_RETIRE_LOCALLY_LIMIT = 8.0  # a command is answered within 10


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
    """

    def __init__(self, cluster: Any, plan: Plan, limit: int | None, jobs: JobQueue | None) -> None:
        self._cluster, self._gpus, self._limit, self._jobs = cluster, len(plan.gpus), limit, jobs
        self._capacity: int | None = getattr(cluster, "capacity", None)
        self._adaptive: Any = None
        self._retiring: asyncio.Task[None] | None = None
        self.range: tuple[int, int] | None = None

    async def scale(self, workers: int) -> None:
        """Scale to `workers` workers, which ends `adapt`; new ones start later.

        Raises
        ------
        GpuUnavailableError
            The cluster does not hold that many GPUs.
        LimitError
            The administrator allows fewer.
        ClusterStartError
            The batch system refuses the jobs.
        """
        self._check(workers)
        self._stop_adapting()
        if self._jobs is not None or self._capacity is not None:
            await self._retire(len(self._cluster.scheduler.workers) - workers)
        else:
            await self._retire_last(workers)
        self._cluster.scale(workers)
        if self._jobs is not None:
            await self._jobs.submit()

    async def _retire_last(self, workers: int) -> None:
        """Move the results of the workers of this machine beyond the first `workers` to those, and give them up.

        Dask's `scale` means to do so, but passes their names for their addresses: their results would be computed
        again, and those of `Client.scatter` would be lost.
        """
        scheduler = self._cluster.scheduler
        up = {str(worker.name) for worker in scheduler.workers.values()}
        surplus = [name for name in self._cluster.worker_spec if str(name) in up][workers:]
        if surplus:
            with suppress(TimeoutError):  # what is left is computed again
                async with asyncio.timeout(_RETIRE_LOCALLY_LIMIT):
                    await scheduler.retire_workers(names=surplus)
        for name in surplus:
            self._cluster.worker_spec.pop(name, None)

    async def _retire(self, number: int) -> None:
        """Move the results of workers elsewhere that will be closed to the others."""
        if number <= 0:
            return
        scheduler = self._cluster.scheduler
        names = [str(name) for name in scheduler.workers_to_close(n=number, attribute="name")]
        if any("group" in spec for spec in self._cluster.worker_spec.values()):
            return  # a job or a host with several workers ends with all of them
        self._retiring = asyncio.create_task(self._retire_and_close(names))
        with suppress(TimeoutError):  # the task continues
            await asyncio.wait_for(asyncio.shield(self._retiring), _RETIRE_LIMIT)

    async def _retire_and_close(self, names: list[str]) -> None:
        await self._cluster.scheduler.retire_workers(names=names, close_workers=True, remove=True)
        await self._cluster.scale_down(names)

    def adapt(self, minimum: int, maximum: int) -> None:
        """Let Dask close workers that are idle and start them when there is work, within a range.

        Raises
        ------
        GpuUnavailableError, LimitError
            See `scale`.
        """
        self._check(maximum)
        self._stop_adapting()
        self._adaptive = self._cluster.adapt(minimum=minimum, maximum=maximum)
        self.range = minimum, maximum

    def _stop_adapting(self) -> None:
        if self._adaptive is not None:
            self._adaptive.stop()
        self._adaptive = self.range = None

    def _check(self, workers: int) -> None:
        check_workers(workers, self._gpus, self._limit)
        if self._capacity is not None:
            check_capacity(workers, self._capacity)


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
        raise GpuUnavailableError(
            f"{workers} workers need {workers} GPUs, and this cluster holds {gpus}.",
            f"Use at most {gpus}, or restart the cluster with more GPUs.",
        )


def check_limit(workers: int, limit: int | None) -> None:
    """Raise `LimitError` if a cluster may not have so many workers."""
    if limit is not None and workers > limit:
        raise LimitError(
            f"This server limits clusters to {limit} worker{'s' if limit > 1 else ''}; {workers} were requested.",
            "Use fewer GPUs or workers.",
        )
