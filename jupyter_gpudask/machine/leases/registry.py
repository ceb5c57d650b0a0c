"""Leases that all users of a machine see: files in a directory that the administrator has created.

The directory is writable for all and sticky; `locked_files` explains when a file is valid.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import stat
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from .locked_files import create_locked, remove_if_stale, stale_files, valid_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LEASE_DIRECTORY_VARIABLE = "JUPYTER_GPUDASK_LEASE_DIRECTORY"
"""The environment variable with the path of the directory; the server's setting and the kernel's set it."""

_SUFFIX = ".lease"
_LOCK_TIMEOUT = 10.0
_LOCK_INTERVAL = 0.05


@dataclass(frozen=True)
class PublicLease:
    """The part of a lease that all users see.

    Attributes
    ----------
    name
        The name of its file.
    gpus
        UUIDs.
    share
        Whether other clusters that share may hold them too.
    uid
        The user id of the holder: the owner of the file.
    since
        When it was taken, as Unix time.
    count
        Of a start that waits: how many of the GPUs it needs.
    """

    name: str
    gpus: tuple[str, ...]
    share: bool
    uid: int
    since: float
    count: int = 0

    @property
    def holder(self) -> str:
        """The holder in words, such as ``user anna since 14:05``."""
        return user_since(self.uid, self.since)


def user_since(uid: int, since: float) -> str:
    """A user and a Unix time in words, such as ``user anna since 14:05``."""
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:  # of another container
        user = str(uid)
    return f"user {user} since {clock_time(since)}"


def clock_time(when: float) -> str:
    """A Unix time in words, such as ``14:05``, with the date if that is not today."""
    time_of_day, today = datetime.fromtimestamp(when).astimezone(), datetime.now().astimezone()
    return f"{time_of_day:%H:%M}" + ("" if time_of_day.date() == today.date() else f" of {time_of_day:%Y-%m-%d}")


class LeaseRegistry:
    """The directory.

    Parameters
    ----------
    path
        Its path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def from_environment(cls) -> LeaseRegistry | None:
        """The one that `LEASE_DIRECTORY_VARIABLE` names; `None` without it."""
        path = os.environ.get(LEASE_DIRECTORY_VARIABLE)
        return cls(Path(path)) if path else None

    def check(self) -> None:
        """Check that the directory can hold leases.

        Raises
        ------
        OSError
            There is no such directory, this user cannot write to it, or others can remove the files of this user.
        """
        if not self.path.is_absolute():
            raise OSError(errno.EINVAL, "it is not an absolute path", str(self.path))
        mode = self.path.stat().st_mode
        if not stat.S_ISDIR(mode):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self.path))
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
            raise OSError(errno.EPERM, "it is not sticky, so that others can remove leases", str(self.path))
        if not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While no other process of any user can take a lease; stale ones of this user are removed.

        Raises
        ------
        OSError
            The directory cannot be used, see `check`, or is locked by another process for too long.
        """
        self.check()
        stale = stale_files(self.path, _SUFFIX)  # looked for before others have to wait
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._lock(directory)
            for path in stale:
                remove_if_stale(path)
            yield
        finally:
            os.close(directory)

    def take(self, gpus: Sequence[str], *, share: bool) -> tuple[Path, int]:
        """Take a lease; only inside `locked`.

        Returns
        -------
        (Path, int)
            The file, and its descriptor: closing it ends the lease.
        """
        return write_lease(self.path, _SUFFIX, gpus, share=share)

    def read(self) -> list[PublicLease]:
        """The leases whose process lives; empty if the directory cannot be read."""
        found = (read_lease(*file) for file in valid_files(self.path, _SUFFIX))
        return [lease for lease in found if lease is not None]

    def _lock(self, directory: int) -> None:
        end = time.monotonic() + _LOCK_TIMEOUT
        while True:
            try:
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    reason = f"another process has locked it for {_LOCK_TIMEOUT:.0f} s"
                    raise OSError(errno.EBUSY, reason, str(self.path)) from None
                time.sleep(_LOCK_INTERVAL)
            else:
                return


def write_lease(
    folder: Path, suffix: str, gpus: Sequence[str], *, share: bool, since: float | None = None, count: int = 0
) -> tuple[Path, int]:
    """Write a locked file with GPUs, given by their UUIDs; see `create_locked` and `PublicLease`."""
    content: dict[str, object] = {"gpus": list(gpus), "share": share, "since": time.time() if since is None else since}
    if count:
        content["count"] = count
    return create_locked(folder, suffix, json.dumps(content).encode())


def read_lease(name: str, content: bytes, status: os.stat_result) -> PublicLease | None:
    """What `write_lease` has written to a file; `None` if it has not."""
    try:
        values = json.loads(content)
        gpus, share, since = values["gpus"], values["share"], float(values["since"])
        count = int(values.get("count", 0))
        datetime.fromtimestamp(since).astimezone()
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return None
    if not isinstance(share, bool) or not isinstance(gpus, list) or not all(isinstance(gpu, str) for gpu in gpus):
        return None
    return PublicLease(name, tuple(gpus), share, status.st_uid, since, count)
