"""Why a cluster has fewer workers than requested: lost hosts, and jobs of a batch system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_JOBS = 6


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class LostHost(_Model):
    """A host that does not respond any more.

    Attributes
    ----------
    host
        The host, as the scheduler reached it.
    workers
        The names of the workers that it had.
    time
        When its last worker was given up, in seconds since the epoch.
    """

    host: str
    workers: tuple[str, ...]
    time: float

    @property
    def description(self) -> str:
        """The host in words: ``host 10.0.0.3 does not respond; its worker 10.0.0.3-0 is lost``."""
        many = len(self.workers) > 1
        lost = f"its {len(self.workers)} workers are lost" if many else f"its worker {self.workers[0]} is lost"
        return f"host {self.host} does not respond; {lost}"


class JobState(_Model):
    """A job of a batch system, or a pod of Kubernetes, for workers which are not up.

    Attributes
    ----------
    id
        Its id in the batch system.
    worker
        The name of its worker in Dask, or what the names of its workers begin with.
    system
        The name of the batch system, such as ``SLURM``.
    status
        Its state in the words of the batch system, such as ``PENDING``; empty if that is not known.
    reason
        Why it waits, in these words, such as ``Resources``.
    position
        Its place among the jobs of its partition that wait for resources or for jobs of higher priority, by priority
        from 1; `None` if it does not wait for these, or if that is not known.
    has_ended
        Whether it has ended, so that its workers will not be up.
    unit
        What the system calls it: ``job`` or ``pod``.
    """

    id: str
    worker: str
    system: str
    status: str = ""
    reason: str = ""
    position: int | None = None
    has_ended: bool = False
    unit: str = "job"

    @property
    def description(self) -> str:
        """The job in words, such as ``job 12 is pending in SLURM: Resources, position 3``."""
        if self.has_ended:
            if not self.status:
                return f"{self.unit} {self.id} is not in the queue of {self.system} any more"
            return f"{self.unit} {self.id} {_ENDINGS.get(self.status, 'ended')} in {self.system} ({self.status})"
        facts = [] if self.reason in ("", "None") else [self.reason]
        facts += [] if self.position is None else [f"position {self.position}"]
        return f"{self.unit} {self.id} is {self.status.lower() or 'submitted'} in {self.system}" + (
            f": {', '.join(facts)}" if facts else ""
        )


_ENDINGS = {
    "BOOT_FAIL": "ended because its node did not start",
    "CANCELLED": "was cancelled",
    "DEADLINE": "reached its deadline",
    "FAILED": "failed",
    "NODE_FAIL": "ended because its node failed",
    "OUT_OF_MEMORY": "exceeded its memory",
    "PREEMPTED": "made room for another job",
    "TIMEOUT": "reached its time limit",
}


def _of_worker(job: JobState) -> str:
    return "" if job.worker == job.id else f" (worker {job.worker})"


def describe_jobs(jobs: Sequence[JobState]) -> tuple[str, ...]:
    """Sentences on jobs of a batch system, at most 6."""
    shown = jobs if len(jobs) <= _MAX_JOBS else jobs[: _MAX_JOBS - 1]
    sentences = [f"{job.unit.capitalize()}{job.description[len(job.unit) :]}{_of_worker(job)}." for job in shown]
    if len(jobs) > len(shown):
        sentences.append(f"And {len(jobs) - len(shown)} more {jobs[0].unit}s without a worker.")
    return tuple(sentences)
