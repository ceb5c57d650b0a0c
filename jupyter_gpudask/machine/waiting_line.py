"""The line of starts that wait for GPUs: locked files in the directory of the leases, first come first served."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .lease_registry import user_since
from .locked_files import create_locked, is_locked, opened, remove_if_stale

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIX = ".waiting"
_TICK = 0.002
_TICKS = 100


@dataclass(frozen=True, order=True)
class Waiting:
    """A start that waits; sorted by its time.

    Attributes
    ----------
    since
        When it entered the line, in nanoseconds since the epoch: the last change of its file (``st_ctime_ns``), which
        nobody can set back.
    device, inode
        Its file, which has one place however many hard links it has.
    uid
        The user id of who waits: the owner of the file.
    """

    since: int
    device: int
    inode: int
    uid: int

    @classmethod
    def from_status(cls, status: os.stat_result) -> Waiting:
        """The start whose file has this status."""
        return cls(status.st_ctime_ns, status.st_dev, status.st_ino, status.st_uid)

    @property
    def description(self) -> str:
        """Who waits, such as ``user anna since 14:05``."""
        return user_since(self.uid, self.since / 1e9)


@dataclass(frozen=True)
class Place:
    """A place in the line, which `leave` or the end of the process gives up."""

    path: Path
    lock: int

    def leave(self) -> None:
        """Leave the line."""
        self.path.unlink(missing_ok=True)
        os.close(self.lock)


class WaitingLine:
    """The line of all users, or of this user's clusters.

    Parameters
    ----------
    folder
        The directory of the leases.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def enter(self) -> Place:
        """Stand at the end of the line; files of this user's processes that have ended are removed.

        Raises
        ------
        OSError
            The directory cannot be written to.
        """
        for path in self._folder.glob(f"*{_SUFFIX}"):
            remove_if_stale(path)
        place = Place(*create_locked(self._folder, _SUFFIX, b""))
        for _ in range(_TICKS):  # files that are made in one tick of the clock have the same time
            own = Waiting.from_status(os.fstat(place.lock))
            if all(waiting.since < own.since for waiting in self.before(None) if waiting != own):
                break
            time.sleep(_TICK)
            os.fchmod(place.lock, 0o644)  # sets `st_ctime`
        return place

    def before(self, place: Place | None) -> list[Waiting]:
        """The starts that were in the line before `place`, the first one first; without a place all of them."""
        found = set()
        for path in self._folder.glob(f"*{_SUFFIX}"):
            with suppress(OSError), opened(path) as (file, status):
                if is_locked(file):
                    found.add(Waiting.from_status(status))
        own = None if place is None else Waiting.from_status(os.fstat(place.lock))
        return sorted(waiting for waiting in found if own is None or waiting < own)
