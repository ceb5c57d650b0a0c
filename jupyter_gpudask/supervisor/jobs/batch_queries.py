"""The commands with which batch systems list a user's jobs, and the parsers of their output."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class ListedJob:
    """A job in the list.

    Attributes
    ----------
    status
        Its state in the words of the batch system, or in those that the letters of PBS and of Grid Engine stand for.
    partition
        Its queue.
    reason
        Why it waits; empty if that is not said.
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
    """The query of a batch system; `None` for those that are not known.

    Parameters
    ----------
    system
        ``SLURM``, ``LSF``, ``PBS`` or ``SGE``.
    """
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
