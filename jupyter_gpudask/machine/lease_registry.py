"""Leases that all users of a machine see: files in a directory that the administrator has made.

The directory is writable for all and sticky, so that only its owner can remove a file, and the kernel of the operating
system says whose it is. A file counts while it has a write lock (an open file description lock, fcntl(2)): only who may
write the file can set that, which is its owner, and it ends with the process, in whatever container that runs.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import stat
import struct
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LEASE_DIRECTORY_VARIABLE = "JUPYTER_GPUDASK_LEASE_DIRECTORY"
"""The environment variable with the path of the directory; the server's setting and the kernel's set it."""

_SUFFIX = ".lease"
_MAX_BYTES = 2**16
_LOCK_TIMEOUT = 10.0
_LOCK_INTERVAL = 0.05


@dataclass(frozen=True)
class PublicLease:
    """What all users see of a lease.

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
    """

    name: str
    gpus: tuple[str, ...]
    share: bool
    uid: int
    since: float

    @property
    def holder(self) -> str:
        """The holder in words, such as ``user anna since 14:05``."""
        try:
            user = pwd.getpwuid(self.uid).pw_name
        except KeyError:  # of another container
            user = str(self.uid)
        began, today = datetime.fromtimestamp(self.since).astimezone(), datetime.now().astimezone()
        return f"user {user} since {began:%H:%M}" + ("" if began.date() == today.date() else f" of {began:%Y-%m-%d}")


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
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._lock(directory)
            for path in self.path.glob(f"*{_SUFFIX}"):
                self._remove_if_stale(path)
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
        file, name = tempfile.mkstemp(_SUFFIX, dir=self.path)
        path = Path(name)
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _lock_request(fcntl.F_WRLCK))
            with open(file, "w", closefd=False) as content:
                json.dump({"gpus": list(gpus), "share": share, "since": time.time()}, content)
            os.fchmod(file, 0o644)  # until now, others could not open it
        except OSError as error:
            path.unlink(missing_ok=True)
            os.close(file)
            raise OSError(error.errno, error.strerror, name) from None
        return path, file

    def read(self) -> list[PublicLease]:
        """The leases whose process lives; empty if the directory cannot be read."""
        found: dict[tuple[int, int], PublicLease] = {}  # by inode: a hard link is no second lease
        for path in sorted(self.path.glob(f"*{_SUFFIX}")):
            with suppress(OSError), _opened(path) as (file, status):
                lease = _parse(path.name, status, os.pread(file, _MAX_BYTES, 0)) if _is_locked(file) else None
                if lease is not None:
                    found[status.st_dev, status.st_ino] = lease
        return list(found.values())

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

    def _remove_if_stale(self, path: Path) -> None:
        with suppress(OSError), _opened(path) as (file, status):
            if status.st_uid == os.geteuid() and not _is_locked(file):
                path.unlink()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """A regular file; neither a symbolic link nor a pipe, which other users may have put there."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        yield file, status
    finally:
        os.close(file)


def _parse(name: str, status: os.stat_result, content: bytes) -> PublicLease | None:
    """A lease as its owner has written it; `None` if it is none."""
    try:
        values = json.loads(content)
        gpus, share, since = values["gpus"], values["share"], float(values["since"])
        datetime.fromtimestamp(since).astimezone()
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return None
    if not isinstance(share, bool) or not isinstance(gpus, list) or not all(isinstance(gpu, str) for gpu in gpus):
        return None
    return PublicLease(name, tuple(gpus), share, status.st_uid, since)


def _lock_request(kind: int) -> bytes:
    """A ``struct flock`` for the whole file. Source: fcntl(2)."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)


def _is_locked(file: int) -> bool:
    """Whether there is a write lock; nothing is locked by asking."""
    answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _lock_request(fcntl.F_RDLCK))
    kind: int = struct.unpack_from("h", answer)[0]
    return kind != fcntl.F_UNLCK
