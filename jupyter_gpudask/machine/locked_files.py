"""Locked files in a directory of one or all users; a file is valid as long as the process that created it lives.

A file is valid while it has a write lock (an open file description lock, fcntl(2)). Only the owner may write the file,
so only the owner can set the lock. The lock ends with the process, in whatever container the process runs. In a sticky
directory, only the owner can remove the file, and the operating system says who the owner is.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import struct
import tempfile
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)

_MAX_BYTES = 2**13  # 128 slices of GPUs take 6 KiB
_MAX_FILES = 256

Contents = dict[tuple[int, int, int], bytes]
"""What was read of files: by device, inode and time of the last change."""


def create_locked(folder: Path, suffix: str, content: bytes) -> tuple[Path, int]:
    """Create a locked file, which others can read once it is complete.

    Returns the file, and its descriptor: closing it unlocks the file. Raises `OSError` if it cannot be written; the
    error names the file.
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


def valid_files(
    folder: Path, suffix: str, *, locked: bool = True, known: Contents | None = None
) -> Iterator[tuple[str, bytes, os.stat_result]]:
    """The valid files with a suffix: the name, the content and the status of each, once for all its hard links.

    If not `locked`, those whose process has ended. Nobody can slow down others with links, with large files or many
    files: what the inode shows is checked before a file is opened, and only the oldest files of a user count. What
    `known` has is not read again, and what is read is added to it.
    """
    found = {(status.st_dev, status.st_ino): (path, status) for path, status in _files(folder, suffix)}
    files_of_user: Counter[int] = Counter()
    for path, status in sorted(found.values(), key=lambda each: each[1].st_ctime_ns):
        files_of_user[status.st_uid] += 1
        if status.st_size > _MAX_BYTES or files_of_user[status.st_uid] > _MAX_FILES:
            continue
        with suppress(OSError), _open_unchanged(path, status) as file:
            if _is_locked(file) is not locked:
                continue
            version = status.st_dev, status.st_ino, status.st_ctime_ns
            content = (known or {}).get(version) or os.pread(file, _MAX_BYTES, 0)
            if known is not None:
                known[version] = content
            if content:
                yield path.name, content, os.fstat(file)


def stale_files(folder: Path, suffix: str) -> list[Path]:
    """The files of this user whose process has ended, or which another process is creating at this moment."""
    user = os.geteuid()
    return [path for path, status in _files(folder, suffix) if status.st_uid == user and _is_stale(path, status)]


def remove_if_stale(path: Path, before: Callable[[Path], None] = lambda _: None) -> None:
    """Remove a file of this user whose process has ended, after `before`; only while no other process creates one."""
    with suppress(OSError):
        status = path.lstat()
        if status.st_uid == os.geteuid() and _is_stale(path, status):
            before(path)
            path.unlink()


def _files(folder: Path, suffix: str) -> Iterator[tuple[Path, os.stat_result]]:
    """The regular files: neither symbolic links nor pipes, which other users may have put there."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.endswith(suffix) and stat.S_ISREG((status := entry.stat(follow_symlinks=False)).st_mode):
                    yield folder / entry.name, status


def _is_stale(path: Path, status: os.stat_result) -> bool:
    with suppress(OSError), _open_unchanged(path, status) as file:
        return not _is_locked(file)
    return False


@contextmanager
def open_file(path: Path, flags: int = os.O_RDONLY) -> Iterator[tuple[int, os.stat_result]]:
    """A regular file; neither a symbolic link nor a pipe, which other users may have put there."""
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        yield file, status
    finally:
        os.close(file)


@contextmanager
def _open_unchanged(path: Path, status: os.stat_result) -> Iterator[int]:
    with open_file(path) as (file, now):
        if not os.path.samestat(status, now):
            raise OSError(errno.ESTALE, "it was replaced")
        yield file


def _is_locked(file: int) -> bool:
    """Whether there is a write lock; nothing is locked by asking."""
    answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _lock_request(fcntl.F_RDLCK))
    kind: int = struct.unpack_from("h", answer)[0]
    return kind != fcntl.F_UNLCK


def remove_locked(path: Path, file: int) -> None:
    """Remove and unlock a file of this process."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:  # without its lock it is not valid, and the next process that locks the folder removes it
        logger.warning("The file %s cannot be removed: %s", path, error)
    os.close(file)


def _lock_request(kind: int) -> bytes:
    """A ``struct flock`` for the whole file. Source: fcntl(2)."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)
