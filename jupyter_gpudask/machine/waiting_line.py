"""The queue of starts that wait for GPUs: locked files in the lease directory, first come, first served.

A start waits behind the starts that wait for a GPU which it could get, and not behind starts that wait for other GPUs.
Idle clusters have a separate queue; the cluster that has been idle longest is asked for its GPUs first: see
`clusters_to_ask`.

Every server computes this from the same files, so that no more clusters are asked than a start needs. The content of
another user's file only decides whether an idle cluster is asked, and in which order. Whether a cluster is idle is
decided by its own server.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .lease_registry import PublicLease, read_lease, user_since, write_lease
from .locked_files import remove_if_stale, stale_files, valid_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from .lease_registry import PublicLease


_SUFFIX = ".waiting"
IDLE_SUFFIX = ".idle"


@dataclass(frozen=True, order=True)
class Waiting:
    """A start that waits, or a cluster that is idle; sorted by its time.

    - `since`: when it entered the line, in nanoseconds since the epoch: the last change of its file (``st_ctime_ns``),
      which nobody can set back.
    - `device`, `inode`: its file, which has one place however many hard links it has.
    - `lease`: the GPUs any of which it could get, or which the cluster holds, and whether it would share them.
    """

    since: int
    device: int
    inode: int
    lease: PublicLease = field(compare=False)

    @property
    def description(self) -> str:
        """Who waits, such as ``user anna since 14:05``."""
        return user_since(self.lease.uid, self.since / 1e9)


@dataclass(frozen=True)
class Place:
    """A place in the queue, which ends with `leave` or with the process."""

    path: Path
    lock: int
    gpus: frozenset[str]

    @property
    def order(self) -> tuple[int, int, int]:
        """What the line is sorted by; see `Waiting`."""
        return _order(os.fstat(self.lock))

    def leave(self) -> None:
        """Leave the line."""
        with suppress(OSError):  # without its lock it is no place, and the next start that waits removes it
            self.path.unlink(missing_ok=True)
        os.close(self.lock)


class WaitingLine:
    """The queue of all users, or of this user's clusters."""

    def __init__(self, folder: Path, suffix: str = _SUFFIX) -> None:
        self._folder, self._suffix = folder, suffix

    def enter(self, gpus: Sequence[str], *, share: bool = False, since: float | None = None, count: int = 0) -> Place:
        """Stand at the end of the line; files of this user's processes that have ended are removed.

        Only while the directory is locked: another process would remove a file that is not locked yet.

        - `gpus`: the UUIDs of the GPUs any of which the start could get.
        - `share`: whether it would share them.
        - `since`, `count`: see `PublicLease`.

        Raises `OSError` if the directory cannot be written to.
        """
        for path in stale_files(self._folder, self._suffix):
            remove_if_stale(path)
        written = write_lease(self._folder, self._suffix, gpus, share=share, since=since, count=count)
        return Place(*written, frozenset(gpus))

    def before(self, place: Place | None, gpus: Iterable[str]) -> list[Waiting]:
        """The starts that wait for one of these GPUs, before `place` if that is given, the first one first."""
        own, wanted = None if place is None else place.order, set(gpus)
        return [
            waiting
            for waiting in self.read()
            if wanted.intersection(waiting.lease.gpus)
            and (own is None or (waiting.since, waiting.device, waiting.inode) < own)
        ]

    def read(self) -> list[Waiting]:
        """The starts that wait, the first one first."""
        files = valid_files(self._folder, self._suffix)
        return sorted(Waiting(*_order(file[2]), lease) for file in files if (lease := read_lease(*file)))


def _order(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ctime_ns, status.st_dev, status.st_ino


def clusters_to_ask(
    line: Sequence[Waiting], leases: Sequence[PublicLease], idle: Sequence[Waiting], max_gpus: int | None = None
) -> dict[Waiting, Waiting]:
    """Choose the idle clusters that are asked for their GPUs.

    For each start that nobody stands before, those are chosen that have been idle longest, as many as it needs. If it
    could not begin with the GPUs of all of them, none is asked. GPUs that several clusters share are not asked for. If
    its user would hold too many GPUs, only the clusters of the same user are asked.

    - `line`: the starts that wait, the first one first.
    - `idle`: the clusters that are idle, the one first that has been so longest. Of a GPU that its owner does not hold,
      nothing is expected.
    - `max_gpus`: the largest number of GPUs of a user; `None` for no limit.

    Returns the start that waits, for each cluster that is asked.
    """
    asked: dict[Waiting, Waiting] = {}
    behind: set[str] = set()
    for waiting in line:
        wanted = set(waiting.lease.gpus)
        if not wanted & behind:
            others = not _exceeds(max_gpus, waiting, leases)
            candidates = [cluster for cluster in idle if others or cluster.lease.uid == waiting.lease.uid]
            asked |= dict.fromkeys(_clusters_for(waiting, wanted, leases, candidates), waiting)
        behind |= wanted
    return asked


def _needed(waiting: Waiting) -> int:
    """How many GPUs a start needs."""
    gpus = len(set(waiting.lease.gpus))
    return min(waiting.lease.count or gpus, gpus)


def _exceeds(max_gpus: int | None, waiting: Waiting, leases: Sequence[PublicLease]) -> bool:
    """Whether the user of a start would hold more GPUs than allowed, so that it would fail."""
    leased = {uuid for lease in leases if lease.uid == waiting.lease.uid for uuid in lease.gpus}
    return max_gpus is not None and len(leased) + _needed(waiting) > max_gpus


def _clusters_for(
    waiting: Waiting, wanted: set[str], leases: Sequence[PublicLease], idle: Sequence[Waiting]
) -> list[Waiting]:
    conflicting = [lease for lease in leases if not (lease.share and waiting.lease.share)]
    holders = Counter(uuid for lease in conflicting for uuid in set(lease.gpus))
    missing = _needed(waiting) - len(wanted - set(holders))
    leased_by = {(lease.uid, uuid) for lease in conflicting for uuid in lease.gpus}
    chosen: list[Waiting] = []
    counted: set[str] = set()
    for cluster in idle:
        gained = {
            uuid
            for uuid in wanted.intersection(cluster.lease.gpus) - counted
            if holders[uuid] == 1 and (cluster.lease.uid, uuid) in leased_by
        }
        if missing > 0 and gained:
            chosen.append(cluster)
            counted |= gained
            missing -= len(gained)
    return chosen if missing <= 0 else []
