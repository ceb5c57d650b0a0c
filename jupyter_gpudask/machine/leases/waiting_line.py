"""The queue of starts that wait for GPUs: locked files in the lease directory, first come, first served.

A start waits behind the starts that wait for a GPU which it could get, and not behind starts that wait for other GPUs.
Idle clusters have a separate queue; the cluster that has been idle longest is asked for its GPUs first: see
`clusters_to_ask`.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .locked_files import remove_if_stale, stale_files, valid_files
from .registry import PublicLease, read_lease, user_since, write_lease

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_SUFFIX = ".waiting"
IDLE_SUFFIX = ".idle"
_TICK = 0.002
_TICKS = 100


@dataclass(frozen=True, order=True)
class Waiting:
    """A start that waits, or a cluster that is idle; sorted by its time.

    Attributes
    ----------
    since
        When it entered the line, in nanoseconds since the epoch: the last change of its file (``st_ctime_ns``), which
        nobody can set back.
    device, inode
        Its file, which has one place however many hard links it has.
    lease
        The GPUs any of which it could get, or which the cluster holds, and whether it would share them.
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
    """The queue of all users, or of this user's clusters.

    Parameters
    ----------
    folder
        The directory of the leases.
    suffix
        The suffix of its files.
    """

    def __init__(self, folder: Path, suffix: str = _SUFFIX) -> None:
        self._folder, self._suffix = folder, suffix

    def enter(self, gpus: Sequence[str], *, share: bool = False, since: float | None = None, count: int = 0) -> Place:
        """Stand at the end of the line; files of this user's processes that have ended are removed.

        Only while the directory is locked: another process would remove a file that is not locked yet.

        Parameters
        ----------
        gpus
            The UUIDs of the GPUs any of which the start could get.
        share
            Whether it would share them.
        since, count
            See `PublicLease`.

        Raises
        ------
        OSError
            The directory cannot be written to.
        """
        for path in stale_files(self._folder, self._suffix):
            remove_if_stale(path)
        written = write_lease(self._folder, self._suffix, gpus, share=share, since=since, count=count)
        place = Place(*written, frozenset(gpus))
        for _ in range(_TICKS):  # files that are made in one tick of the clock have the same time
            since = place.order[0]
            if sum(waiting.since == since for waiting in self.read()) <= 1:  # itself
                break
            time.sleep(_TICK)
            os.fchmod(place.lock, 0o644)  # sets `st_ctime`
        return place

    def before(self, place: Place | None, gpus: Iterable[str]) -> list[Waiting]:
        """The starts that wait for one of these GPUs and came before `place`, the first one first.

        Parameters
        ----------
        place
            A place in the line; `None` for its end.
        gpus
            UUIDs.
        """
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
