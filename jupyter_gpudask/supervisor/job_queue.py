"""The jobs of a cluster whose workers run in a batch system: submit, follow and cancel them."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ClusterLostError, ClusterStartError
from ..machine.directories import tail
from ..protocol.state import describe_jobs
from .batch_system import BatchSystem, run_command
from .configured import first_line
from .engines import worker_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol import JobState

# The job was given up by the batch system, and not by a person or by an error of its own.
_RENEWED = frozenset({"BOOT_FAIL", "NODE_FAIL", "PREEMPTED", "TIMEOUT"})
_KEPT = 20
_INTERVAL = 1.0
_SUBMIT_LIMIT = 4.0
_CANCEL_LIMIT = 1.5
_LOG_LINES = 30


class JobQueue:
    """The jobs of a cluster of dask-jobqueue."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._system = BatchSystem(cluster.job_cls.__name__.removesuffix("Job"))
        self._were_up: set[str] = set()
        self._ended: deque[JobState] = deque(maxlen=_KEPT)

    def states(self) -> tuple[JobState, ...]:
        """The newest jobs that have ended, and those whose workers are not up, as the batch system last said."""
        return (*self._ended, *map(self._state, self._missing()))

    async def wait_for_first_worker(
        self, opening: asyncio.Task[None], *, limit: float, on_progress: Callable[[int, tuple[str, ...]], None]
    ) -> None:
        """Wait until all jobs are submitted and one worker is up; the others may wait for hours.

        - `opening`: the task that submits the jobs; cancelled in the end.
        - `limit`: seconds to wait.
        - `on_progress`: called with the number of workers that are up and with sentences on the jobs, whenever these
          change.

        Raises `ClusterStartError` if the batch system refuses the jobs or does not answer, they end, or all of them
        still wait.
        """
        try:
            async with asyncio.timeout(limit):
                await self._wait(opening, on_progress)
        except TimeoutError:
            waiting = "; ".join(state.description for state in self.states())
            raise ClusterStartError(
                "no-worker",
                limit=limit,
                waiting=waiting or f"{self._system.name} has not accepted the jobs",
                log=self._newest_log(),
            ) from None
        finally:
            opening.cancel()

    async def watch(self) -> None:
        """Look after the jobs of the running cluster.

        A job that the batch system has given up, such as for its time limit, is submitted again if its workers were
        up. One that was cancelled or has failed is not.

        Raises `ClusterLostError` if no job is left.
        """
        while self._cluster.worker_spec:  # before `adapt` submits jobs in place of those that were all cancelled
            await asyncio.sleep(_INTERVAL)
            up = self._names_up()
            self._were_up.update(
                job.job_id for name, job in self._cluster.workers.items() if up.intersection(self._workers_of(name))
            )
            if self._missing():
                await self._refresh()
                await self._replace_ended()
        ended = "; ".join(state.description for state in self._ended)
        raise ClusterLostError("no-job", jobs=ended, log=self._newest_log())

    async def submit(self) -> None:
        """Submit and cancel jobs as the cluster needs; raises `ClusterStartError` if the batch system refuses."""
        with suppress(TimeoutError):  # Dask continues to submit
            try:
                await asyncio.wait_for(asyncio.shield(self._cluster._correct_state()), _SUBMIT_LIMIT)  # noqa: SLF001
            except (RuntimeError, OSError) as error:
                self._forget_refused()
                raise self._refused(error) from None

    async def cancel(self) -> None:
        """Cancel all jobs with one command."""
        if ids := self._ids():
            await run_command((*shlex.split(self._cluster.job_cls.cancel_command), *ids), _CANCEL_LIMIT)

    def cancel_blocking(self) -> None:
        """Cancel the jobs that are left when the event loop does not run any more."""
        if ids := self._ids():
            with suppress(OSError, subprocess.SubprocessError):
                command = [*shlex.split(self._cluster.job_cls.cancel_command), *ids]
                subprocess.run(command, capture_output=True, timeout=_CANCEL_LIMIT, check=False)  # noqa: S603

    def log(self, name: str, lines: int) -> str:
        """The last lines of the log of a job, by its id or by the name of one of its workers."""
        ids = [job.job_id for job_name, job in self._cluster.workers.items() if name in self._workers_of(job_name)]
        number = re.compile(rf"(?<!\d){re.escape(next(iter(ids), None) or name)}(?!\d)")
        # Dask keeps both nowhere else.
        folder, cluster_name = Path(self._cluster._job_kwargs["log_directory"]), self._cluster._name  # noqa: SLF001
        # In the logs of LSF the id comes after the name of the worker, which has a number, too.
        worker = re.compile(rf"^{re.escape(cluster_name)}-\d+-")
        # Hidden files are the credentials, whose names end at random.
        files = sorted(path for path in folder.glob("[!.]*") if number.search(worker.sub("", path.name)))
        return "\n".join(filter(None, (tail(path, lines) for path in files)))

    async def _wait(self, opening: asyncio.Task[None], on_progress: Callable[[int, tuple[str, ...]], None]) -> None:
        known: tuple[int, tuple[str, ...]] = (0, ())
        asked = 0.0
        loop = asyncio.get_running_loop()
        while True:
            if opening.done() and (error := opening.exception()):
                raise self._refused(error)
            ready = len(self._names_up())
            progress = ready, describe_jobs(self.states())
            if progress != known:
                known = progress
                on_progress(*progress)
            if opening.done():
                if ready:
                    return
                if loop.time() - asked > _INTERVAL:
                    await self._refresh()
                    asked = loop.time()
                states = self.states()
                if states and all(state.has_ended for state in states):
                    raise ClusterStartError(
                        "jobs-ended", jobs="; ".join(state.description for state in states), log=self._newest_log()
                    )
            await asyncio.sleep(0.05)

    async def _refresh(self) -> None:
        await self._system.refresh({job.job_id for _, job in self._cluster.workers.items() if job.job_id})

    async def _replace_ended(self) -> None:
        lost = [state for state in map(self._state, self._missing()) if state.has_ended]
        for state in lost:
            del self._cluster.workers[state.worker]
            self._ended.append(state)
            if state.status not in _RENEWED or state.id not in self._were_up:
                self._cluster.worker_spec.pop(state.worker, None)
        if lost and self._cluster.worker_spec:
            with suppress(ClusterStartError):  # a refused job is forgotten
                await self.submit()

    def _missing(self) -> list[tuple[str, str]]:
        """The names and ids of the jobs that have no worker."""
        up = self._names_up()
        jobs = ((name, job.job_id) for name, job in self._cluster.workers.items() if job.job_id)
        return [(name, id_) for name, id_ in jobs if not up.intersection(self._workers_of(name))]

    def _state(self, job: tuple[str, str]) -> JobState:
        name, id_ = job
        return self._system.state(id_, name)

    def _names_up(self) -> set[str]:
        scheduler = self._cluster.scheduler
        return set() if scheduler is None else {str(worker.name) for worker in scheduler.workers.values()}

    def _workers_of(self, name: str) -> list[str]:
        return worker_names(self._cluster, name)

    def _ids(self) -> list[str]:
        # Only this private set of Dask has the jobs that are just being submitted.
        return [job.job_id for job in list(self._cluster._created) if job.job_id]  # noqa: SLF001

    def _newest_log(self) -> str:
        ids = [state.id for state in self.states()]
        text = self.log(ids[-1], _LOG_LINES) if ids else ""
        return f"Log of job {ids[-1]}:\n{text}" if text else ""

    def _forget_refused(self) -> None:
        for name in [name for name, job in self._cluster.workers.items() if not job.job_id]:
            del self._cluster.workers[name]
            self._cluster.worker_spec.pop(name, None)

    def _refused(self, error: BaseException) -> ClusterStartError:
        if isinstance(error, FileNotFoundError) and error.filename:
            return ClusterStartError("no-batch-system", program=error.filename, system=self._system.name)
        said = str(error).partition("stderr:\n")[2]
        if not said:  # no command has failed
            said = f"{type(error).__name__}: {first_line(error)}"
            return ClusterStartError("class-failed", class_=type(self._cluster).__name__, error=said)
        lines = [re.sub(r"^\w+: (error: )?", "", line).strip(" .") for line in said.splitlines()]
        return ClusterStartError("job-refused", system=self._system.name, error="; ".join(filter(None, lines)))
