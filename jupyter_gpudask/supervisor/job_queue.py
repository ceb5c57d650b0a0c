"""Jobs of a batch system: their states, why they wait, and how a cluster of them submits, follows and cancels them."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shlex
import subprocess
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ClusterLostError, ClusterStartError
from ..machine.directories import tail
from ..protocol.state import JobState, describe_jobs
from .engines import first_line, worker_names

# Each prints the ids and reasons of the pending jobs of all users in a partition, those of higher priority first.
_PENDING = {"SLURM": ("squeue", "--noheader", "--states=PENDING", "--sort=-p,i", "--format=%i|%r", "--partition")}
# A job that is pending for another reason, such as a dependency or a limit, does not stand in line.
_IN_LINE = frozenset({"Priority", "Resources"})
_ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
        *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
        *("DONE", "EXIT"),  # of LSF
    }
)
_QUERY_LIMIT = 5.0
_POSITION_INTERVAL = 10.0
_LISTED_WITHIN = 30.0


@dataclass(frozen=True)
class ListedJob:
    """A job in the list.

    - `status`: its state in the words of the batch system, or in those that the letters of PBS and of Grid Engine stand
      for.
    - `reason`: why it waits; empty if that is not said.
    """

    status: str
    partition: str
    reason: str


@dataclass(frozen=True)
class Query:
    """A command that lists the jobs of the user, and a function that reads its output: the jobs by id."""

    command: tuple[str, ...]
    read: Callable[[str], dict[str, ListedJob]]


def query_of_jobs(system: str) -> Query | None:
    """The query of ``SLURM``, ``LSF``, ``PBS`` or ``SGE``; `None` for other batch systems."""
    match system:
        case "SLURM":  # squeue(1)
            return Query(("squeue", "--noheader", "--states=all", "--me", "--format=%i|%T|%P|%r"), read_fields)
        case "LSF":  # bjobs(1): -a lists jobs that have ended recently, too
            fields = "jobid stat queue pend_reason delimiter='|'"
            return Query(("bjobs", "-noheader", "-a", "-o", fields), read_fields)
        case "PBS":  # qstat(1B)
            return Query(("qstat", "-u", _user()), read_pbs)
        case "SGE":  # qstat(1)
            return Query(("qstat", "-u", _user()), read_sge)
        case _:
            return None


def read_fields(answer: str) -> dict[str, ListedJob]:
    """Lines of the id, the state, the queue and the reason, divided by ``|``."""
    rows = (line.strip().split("|", 3) for line in answer.splitlines() if line.count("|") >= 3)
    return {
        id_: ListedJob(_LSF_STATES.get(status, status), queue, "" if reason == "-" else reason)
        for id_, status, queue, reason in rows
    }


def read_pbs(answer: str) -> dict[str, ListedJob]:
    """Lines as ``12.server ann workq name 4711 1 1 300mb 00:30 R 00:01``; the id in Dask is the number."""
    rows = (line.split() for line in answer.splitlines() if line[:1].isdigit())
    jobs = {row[0].partition(".")[0]: (row[9], row[2]) for row in rows if len(row) > 9}
    return {id_: ListedJob(_PBS_STATES.get(letter, letter), queue, "") for id_, (letter, queue) in jobs.items()}


def read_sge(answer: str) -> dict[str, ListedJob]:
    """Lines as ``12 0.55500 name ann qw 11/23/2026 23:00:00 1``; a job that runs has its queue before the last word."""
    rows = (line.split() for line in answer.splitlines() if line.strip()[:1].isdigit())
    jobs = {row[0]: row[4] for row in rows if len(row) > 4}
    states = {id_: [state for letter, state in _SGE_STATES.items() if letter in said] for id_, said in jobs.items()}
    return {id_: ListedJob(next(iter(states[id_]), said), "", "") for id_, said in jobs.items()}


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user of a container, without a name
        return str(os.getuid())


_LSF_STATES = {"PEND": "PENDING", "RUN": "RUNNING", "PSUSP": "SUSPENDED", "USUSP": "SUSPENDED", "SSUSP": "SUSPENDED"}
_PBS_STATES = (
    {"E": "EXITING", "H": "HELD", "M": "MOVED", "Q": "QUEUED", "T": "MOVING", "W": "WAITING"}
    | dict.fromkeys("BR", "RUNNING")
    | dict.fromkeys("CFX", "COMPLETED")
    | dict.fromkeys("SU", "SUSPENDED")
)
# The first of these letters decides: Eqw, dr, hqw, Rs.
_SGE_STATES = {"E": "FAULTY", "d": "BEING DELETED", "h": "HELD", "s": "SUSPENDED", "S": "SUSPENDED", "T": "SUSPENDED"}
_SGE_STATES |= {"q": "QUEUED", "t": "STARTING", "r": "RUNNING"}


class BatchSystem:
    """A batch system, and the last answers to its queries.

    - `name`: its name, such as ``SLURM``; one without a query is not asked.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._listed: dict[str, ListedJob] = {}
        self._gone: set[str] = set()
        self._missing_since: dict[str, float] = {}
        self._positions: dict[str, int] = {}
        self._positions_read = -_POSITION_INTERVAL

    async def refresh(self, ids: set[str]) -> None:
        """Ask for the states of jobs, and for the places of those that wait every 10 seconds.

        Without an answer the states stay, and the places are not known.
        """
        query = query_of_jobs(self.name)
        answer = None if query is None else await run_command(query.command, _QUERY_LIMIT)
        if query is None or answer is None:
            return
        before, now = self._listed, time.monotonic()
        self._listed = query.read(answer)
        # Some batch systems list a job seconds after they have accepted it.
        self._missing_since = {id_: self._missing_since.get(id_, now) for id_ in ids - self._listed.keys()}
        self._gone = {
            id_
            for id_, since in self._missing_since.items()
            if id_ in before or id_ in self._gone or now - since > _LISTED_WITHIN
        }
        await self._read_positions(ids)

    async def _read_positions(self, ids: set[str]) -> None:
        listed = [self._listed[id_] for id_ in ids & self._listed.keys()]
        partitions = {job.partition for job in listed if job.reason in _IN_LINE}
        if self.name not in _PENDING or not partitions or time.monotonic() - self._positions_read < _POSITION_INTERVAL:
            return
        self._positions = {}
        for partition in partitions:
            answer = await run_command((*_PENDING[self.name], partition), _QUERY_LIMIT)
            rows = (line.partition("|") for line in (answer or "").splitlines())
            in_line = [id_ for id_, _, reason in rows if reason in _IN_LINE]
            self._positions |= {id_: place for place, id_ in enumerate(in_line, start=1) if id_ in ids}
        self._positions_read = time.monotonic()

    def state(self, id_: str, worker: str) -> JobState:
        """The state of a job that runs a worker, or the first of several workers."""
        listed = self._listed.get(id_, ListedJob("", "", ""))
        return JobState(
            id=id_,
            worker=worker,
            system=self.name,
            status=listed.status,
            reason=listed.reason,
            position=self._positions.get(id_) if listed.reason in _IN_LINE else None,
            has_ended=listed.status in _ENDED or id_ in self._gone,
        )


async def run_command(command: tuple[str, ...], limit: float) -> str | None:
    """The output of a program; `None` if it fails or takes longer than `limit` seconds."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
    except OSError:
        return None
    try:
        output, _ = await asyncio.wait_for(process.communicate(), limit)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
    return output.decode(errors="replace") if process.returncode == 0 else None


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
        return (*self._ended, *self._missing_jobs())

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
            self._were_up |= {id_ for name, id_ in self._jobs() if up.intersection(worker_names(self._cluster, name))}
            if self._missing_jobs():
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
                for name in [name for name, job in self._cluster.workers.items() if not job.job_id]:
                    del self._cluster.workers[name]
                    self._cluster.worker_spec.pop(name, None)
                raise self._describe_refusal(error) from None

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
        ids = [id_ for job, id_ in self._jobs() if name in worker_names(self._cluster, job)]
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
                raise self._describe_refusal(error)
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
        await self._system.refresh({id_ for _, id_ in self._jobs()})

    async def _replace_ended(self) -> None:
        lost = [state for state in self._missing_jobs() if state.has_ended]
        for state in lost:
            del self._cluster.workers[state.worker]
            self._ended.append(state)
            if state.status not in _RENEWED or state.id not in self._were_up:
                self._cluster.worker_spec.pop(state.worker, None)
        if lost and self._cluster.worker_spec:
            with suppress(ClusterStartError):  # a refused job is forgotten
                await self.submit()

    def _missing_jobs(self) -> list[JobState]:
        up = self._names_up()
        missing = ((id_, name) for name, id_ in self._jobs() if not up.intersection(worker_names(self._cluster, name)))
        return [self._system.state(*each) for each in missing]

    def _jobs(self) -> list[tuple[str, str]]:
        return [(name, job.job_id) for name, job in self._cluster.workers.items() if job.job_id]

    def _names_up(self) -> set[str]:
        scheduler = self._cluster.scheduler
        return set() if scheduler is None else {str(worker.name) for worker in scheduler.workers.values()}

    def _ids(self) -> list[str]:
        # Only this private set of Dask has the jobs that are just being submitted.
        return [job.job_id for job in list(self._cluster._created) if job.job_id]  # noqa: SLF001

    def _newest_log(self) -> str:
        ids = [state.id for state in self.states()]
        text = self.log(ids[-1], _LOG_LINES) if ids else ""
        return f"Log of job {ids[-1]}:\n{text}" if text else ""

    def _describe_refusal(self, error: BaseException) -> ClusterStartError:
        if isinstance(error, FileNotFoundError) and error.filename:
            return ClusterStartError("no-batch-system", program=error.filename, system=self._system.name)
        said = str(error).partition("stderr:\n")[2]
        if not said:  # no command has failed
            said = f"{type(error).__name__}: {first_line(error)}"
            return ClusterStartError("class-failed", class_=type(self._cluster).__name__, error=said)
        lines = [re.sub(r"^\w+: (error: )?", "", line).strip(" .") for line in said.splitlines()]
        return ClusterStartError("job-refused", system=self._system.name, error="; ".join(filter(None, lines)))
