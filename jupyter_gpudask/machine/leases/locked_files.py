"""Locked files in a directory of all users; a file is valid as long as the process that created it lives.

A file is valid while it has a write lock (an open file description lock, fcntl(2)). Only the owner may write the file,
so only the owner can set the lock. The lock ends with the process, in whatever container the process runs. In a sticky
directory, only the owner can remove the file, and the operating system says who the owner is.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def create_locked(folder: Path, suffix: str, content: bytes) -> tuple[Path, int]:
    """Create a locked file, which others can read once it is complete.

    Returns
    -------
    (Path, int)
        The file, and its descriptor: closing it unlocks the file.

    Raises
    ------
    OSError
        It cannot be written; the error names the file.
    """
    file, name = tempfile.mkstemp(suffix, dir=folder)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _lock_request(fcntl.F_WRLCK))
        while content:
            content = content[os.write(file, content) :]
        os.fchmod(file, 0o644)  # until now, others could not open it
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        os.close(file)
        raise OSError(error.errno, error.strerror, name) from None
    return Path(name), file


@contextmanager
def opened(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """A regular file; neither a symbolic link nor a pipe, which other users may have put there."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        yield file, status
    finally:
        os.close(file)


def is_locked(file: int) -> bool:
    """Whether there is a write lock; nothing is locked by asking."""
    answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _lock_request(fcntl.F_RDLCK))
    kind: int = struct.unpack_from("h", answer)[0]
    return kind != fcntl.F_UNLCK


def remove_if_stale(path: Path) -> None:
    """Remove a file of this user whose process has ended."""
    with suppress(OSError), opened(path) as (file, status):
        if status.st_uid == os.geteuid() and not is_locked(file):
            path.unlink()


def _lock_request(kind: int) -> bytes:
    """A ``struct flock`` for the whole file. Source: fcntl(2)."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)
