"""The record of who held which GPUs, from when to when, and why that ended: files in the directory of all users.

Each user appends to a file of their own, one JSON object a line. The operating system says who the owner of a file is,
and in a sticky directory nobody else can remove it; whatever a file contains is about its owner.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

from .locked_files import opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_SUFFIX = ".usage"
_MAX_BYTES = 2**16
_INTERVAL = 60.0


@dataclass(frozen=True)
class Usage:
    """One cluster, or one accelerated kernel, that holds or held GPUs.

    Attributes
    ----------
    uid
        The user id of the holder: the owner of the file.
    gpus
        UUIDs.
    since, until
        When it took and released them, as Unix time; until now if it still holds them.
    reason
        Why it released them; empty if it still holds them.
    """

    uid: int
    gpus: tuple[str, ...]
    since: float
    until: float
    reason: str

    @classmethod
    def from_line(cls, uid: int, line: bytes) -> Self | None:
        """Parse a line of a file of this user; `None` if it is not a record."""
        try:
            values = json.loads(line)
            gpus, reason = values["gpus"], values["reason"]
            since, until = float(values["since"]), float(values["until"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return None
        if not isinstance(reason, str) or not isinstance(gpus, list) or not all(isinstance(gpu, str) for gpu in gpus):
            return None
        return cls(uid, tuple(gpus), since, until, reason) if 0 <= since <= until <= time.time() else None


def append_usage(folder: Path, usage: Usage) -> None:
    """Append a record to the file of this user, which only this user and root can read.

    Raises
    ------
    OSError
        It cannot be written.
    """
    line = json.dumps({name: value for name, value in asdict(usage).items() if name != "uid"}).encode() + b"\n"
    for path in folder.glob(f"{os.geteuid()}-*{_SUFFIX}"):
        with suppress(OSError), opened(path, os.O_WRONLY | os.O_APPEND) as (file, status):
            if status.st_uid == os.geteuid():  # others can only take the name
                os.write(file, line)
                return
    file, _ = tempfile.mkstemp(_SUFFIX, f"{os.geteuid()}-", folder)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def read_usage(folder: Path) -> list[Usage]:
    """The records of the users whose files this user can read: all users for root."""
    found: dict[tuple[int, int], list[Usage]] = {}  # by inode: a hard link is no second file
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        with suppress(OSError), opened(path) as (file, status):
            if (key := (status.st_dev, status.st_ino)) not in found:
                records = (Usage.from_line(status.st_uid, line) for line in _lines(file))
                found[key] = [record for record in records if record is not None]
    return [record for records in found.values() for record in records]


def gpu_hours(records: Iterable[Usage], since: float = 0.0) -> dict[int, float]:
    """The GPU hours of each user after the Unix time `since`; GPUs that clusters of one user share count once."""
    intervals = defaultdict(list)
    for record in records:
        for gpu in record.gpus:
            intervals[record.uid, gpu].append((max(record.since, since), record.until))
    hours: defaultdict[int, float] = defaultdict(float)
    for (uid, _), each in intervals.items():
        counted = since
        for begin, end in sorted(each):
            hours[uid] += max(0.0, end - max(begin, counted)) / 3600
            counted = max(counted, end)
    return dict(hours)


class Heartbeat:
    """A thread that sets the time of a file every minute: when its process was last alive.

    Parameters
    ----------
    file
        The descriptor of the file.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpudask-lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop it; the file can then be closed."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_INTERVAL):
            with suppress(OSError):
                os.utime(self._file)


def _lines(file: int) -> Iterator[bytes]:
    with os.fdopen(os.dup(file), "rb") as stream:
        while line := stream.readline(_MAX_BYTES):
            yield line
