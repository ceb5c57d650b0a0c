"""What a batch system says of jobs: their states, why they wait, and their place in the queue."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from ..protocol import JobState

# Each prints lines of the id, the state, the partition and the reason of a job of the user. Source: squeue(1).
_JOBS = {"SLURM": ("squeue", "--noheader", "--states=all", "--me", "--format=%i|%T|%P|%r")}
# Each prints the ids and reasons of the pending jobs of all users in a partition, those of higher priority first.
_PENDING = {"SLURM": ("squeue", "--noheader", "--states=PENDING", "--sort=-p,i", "--format=%i|%r", "--partition")}
# A job that is pending for another reason, such as a dependency or a limit, does not stand in line.
_IN_LINE = frozenset({"Priority", "Resources"})
_ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"),
        *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    }
)
_QUERY_LIMIT = 5.0
_POSITION_INTERVAL = 10.0


@dataclass(frozen=True)
class _Listed:
    """A line of the answer."""

    status: str
    partition: str
    reason: str


class BatchSystem:
    """A batch system, and the last answers to its queries.

    Parameters
    ----------
    name
        Its name, such as ``SLURM``; others are not queried.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._listed: dict[str, _Listed] = {}
        self._gone: set[str] = set()
        self._positions: dict[str, int] = {}
        self._positions_read = -_POSITION_INTERVAL

    async def refresh(self, ids: set[str]) -> None:
        """Ask for the states of jobs, and for the places of those that wait every 10 seconds.

        Without an answer the states stay, and the places are not known.
        """
        query = _JOBS.get(self.name)
        answer = None if query is None else await run_command(query, _QUERY_LIMIT)
        if answer is None:
            return
        rows = (line.split("|", 3) for line in answer.splitlines() if line.count("|") >= 3)
        self._listed = {id_: _Listed(*fields) for id_, *fields in rows}
        self._gone = ids - self._listed.keys()
        await self._read_positions(ids)

    async def _read_positions(self, ids: set[str]) -> None:
        listed = [self._listed[id_] for id_ in ids & self._listed.keys()]
        partitions = {job.partition for job in listed if job.reason in _IN_LINE}
        if not partitions or time.monotonic() - self._positions_read < _POSITION_INTERVAL:
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
        listed = self._listed.get(id_, _Listed("", "", ""))
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
