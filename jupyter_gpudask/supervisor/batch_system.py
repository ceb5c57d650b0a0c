"""The state of jobs in a batch system, why they wait, and their place in the queue."""

from __future__ import annotations

import asyncio
import os
import pwd
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..protocol import JobState

if TYPE_CHECKING:
    from collections.abc import Callable

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
    return {row[0]: ListedJob(_sge_state(row[4]), "", "") for row in rows if len(row) > 4}


def _sge_state(letters: str) -> str:
    for letter, status in _SGE_STATES.items():
        if letter in letters:
            return status
    return letters


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user of a container, without a name
        return str(os.getuid())


_LSF_STATES = {"PEND": "PENDING", "RUN": "RUNNING", "PSUSP": "SUSPENDED", "USUSP": "SUSPENDED", "SSUSP": "SUSPENDED"}
_PBS_STATES = {
    "B": "RUNNING",
    "C": "COMPLETED",
    "E": "EXITING",
    "F": "COMPLETED",
    "H": "HELD",
    "M": "MOVED",
    "Q": "QUEUED",
    "R": "RUNNING",
    "S": "SUSPENDED",
    "T": "MOVING",
    "U": "SUSPENDED",
    "W": "WAITING",
    "X": "COMPLETED",
}
# The first of these letters decides: Eqw, dr, hqw, Rs.
_SGE_STATES = {
    "E": "FAULTY",
    "d": "BEING DELETED",
    "h": "HELD",
    "s": "SUSPENDED",
    "S": "SUSPENDED",
    "T": "SUSPENDED",
    "q": "QUEUED",
    "t": "STARTING",
    "r": "RUNNING",
}


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
