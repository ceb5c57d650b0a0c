"""Scaling of a running cluster: to a number of workers, or as its work requires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import GpuUnavailableError, LimitError

if TYPE_CHECKING:
    from ..machine.plan import Plan
    from .job_queue import JobQueue


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
        self._adaptive: Any = None
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
        self._cluster.scale(workers)
        if self._jobs is not None:
            await self._jobs.submit()

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
        check_limit(workers, self._limit)
        if self._gpus and workers > self._gpus:
            raise GpuUnavailableError(
                f"{workers} workers need {workers} GPUs, and this cluster holds {self._gpus}.",
                f"Use at most {self._gpus}, or restart the cluster with more GPUs.",
            )


def check_limit(workers: int, limit: int | None) -> None:
    """Raise `LimitError` if a cluster may not have so many workers."""
    if limit is not None and workers > limit:
        raise LimitError(
            f"This server limits clusters to {limit} worker{'s' if limit > 1 else ''}; {workers} were requested.",
            "Use fewer GPUs or workers.",
        )
