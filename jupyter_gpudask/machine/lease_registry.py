"""The leases that all users of a machine see, and the record of their use: locked files in a directory.

A file is valid while it has a write lock (an open file description lock, fcntl(2)). Only the owner may write the file,
so only the owner can set the lock. The lock ends with the process, in whatever container the process runs. The
directory is writable for all and sticky: only the owner can remove a file, and the operating system says who the owner
is. The locked files of one user's own leases have the same format.

For the record, each user appends to a file of their own, one JSON object a line. Whatever a file contains is about its
owner.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import pwd
import stat
import struct
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

_LARGEST = 2**13  # 128 slices of GPUs take 6 KiB
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
        if status.st_size > _LARGEST or files_of_user[status.st_uid] > _MAX_FILES:
            continue
        with suppress(OSError), _open_unchanged(path, status) as file:
            if _is_locked(file) is not locked:
                continue
            version = status.st_dev, status.st_ino, status.st_ctime_ns
            content = (known or {}).get(version) or os.pread(file, _LARGEST, 0)
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


logger = logging.getLogger(__name__)


_USAGE_SUFFIX = ".usage"
_MAX_BYTES = 2**16
_INTERVAL = 60.0


@dataclass(frozen=True)
class Usage:
    """One cluster, or one accelerated kernel, that holds or held GPUs.

    - `uid`: the user id of the holder: the owner of the file.
    - `gpus`: UUIDs.
    - `since`, `until`: when it took and released them, as Unix time; until now if it still holds them.
    - `reason`: why it released them; empty if it still holds them.
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
    """Append a record to the file of this user, which only this user and root can read."""
    line = json.dumps({name: value for name, value in asdict(usage).items() if name != "uid"}).encode() + b"\n"
    for path in folder.glob(f"{os.geteuid()}-*{_USAGE_SUFFIX}"):
        with suppress(OSError), open_file(path, os.O_WRONLY | os.O_APPEND) as (file, status):
            if status.st_uid == os.geteuid():  # others can only take the name
                os.write(file, line)
                return
    file, _ = tempfile.mkstemp(_USAGE_SUFFIX, f"{os.geteuid()}-", folder)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def read_usage(folder: Path) -> list[Usage]:
    """The records of the users whose files this user can read: all users for root."""
    found: dict[tuple[int, int], list[Usage]] = {}  # by inode: a hard link is no second file
    for path in sorted(folder.glob(f"*{_USAGE_SUFFIX}")):
        with suppress(OSError), open_file(path) as (file, status):
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
    """A thread that sets the time of a file every minute: when its process was last alive."""

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


LEASE_DIRECTORY_VARIABLE = "JUPYTER_GPUDASK_LEASE_DIRECTORY"
"""The environment variable with the path of the directory; the server's setting and the kernel's set it."""

_SUFFIX = ".lease"
_LOCK_TIMEOUT = 10.0
_LOCK_INTERVAL = 0.05
_PROCESS_ENDED = "process ended"


@dataclass(frozen=True)
class PublicLease:
    """The part of a lease that all users see.

    - `gpus`: UUIDs.
    - `share`: whether other clusters that share may reserve them too.
    - `uid`: the user id of the holder: the owner of the file.
    - `since`: when it was taken, as Unix time.
    - `count`: of a start that waits: how many of the GPUs it needs.
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
    return f"user {user_name(uid)} since {clock_time(since)}"


def user_name(uid: int) -> str:
    """The name of a user, or the number if this machine does not know it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # of another container
        return str(uid)


def clock_time(when: float) -> str:
    """A Unix time in words, such as ``14:05``, with the date if that is not today."""
    time_of_day, today = datetime.fromtimestamp(when).astimezone(), datetime.now().astimezone()
    return f"{time_of_day:%H:%M}" + ("" if time_of_day.date() == today.date() else f" of {time_of_day:%Y-%m-%d}")


class LeaseRegistry:
    """The directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._contents: Contents | None = None

    @classmethod
    def from_environment(cls) -> LeaseRegistry | None:
        """The one that `LEASE_DIRECTORY_VARIABLE` names; `None` without it."""
        path = os.environ.get(LEASE_DIRECTORY_VARIABLE)
        return cls(Path(path)) if path else None

    def check(self) -> None:
        """Check that the directory can hold leases.

        Raises `OSError` if there is no such directory, this user cannot write to it, or others can remove the files of
        this user.
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
    def lock(self) -> Iterator[None]:
        """While no other process of any user can take a lease; stale ones of this user are removed.

        Raises `OSError` if the directory cannot be used, see `check`, or is locked by another process for too long.
        """
        self.check()
        # Before others have to wait: what is stale, and what the files contain.
        stale = stale_files(self.path, _SUFFIX)
        self._contents = {}
        self.read()
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._lock(directory)
            for path in stale:
                remove_if_stale(path, lambda path: _record(path, _PROCESS_ENDED))
            yield
        finally:
            self._contents = None
            os.close(directory)

    def take(self, gpus: Sequence[str], *, share: bool) -> OwnPublicLease:
        """Take a lease; only inside `lock`."""
        return OwnPublicLease(*write_lease(self.path, _SUFFIX, gpus, share=share))

    def read(self) -> list[PublicLease]:
        """The leases whose process lives; empty if the directory cannot be read."""
        return [lease for lease, _ in self._read(locked=True)]

    def usage(self) -> list[Usage]:
        """Who reserves or reserved which GPUs: of this user, and for root of all users."""
        current = [_usage(lease, "", time.time()) for lease, _ in self._read(locked=True)]
        ended = [_usage(lease, _PROCESS_ENDED, seen) for lease, seen in self._read(locked=False)]
        return [each for each in read_usage(self.path) + ended + current if os.geteuid() in (0, each.uid)]

    def _read(self, *, locked: bool) -> list[tuple[PublicLease, float]]:
        files = valid_files(self.path, _SUFFIX, locked=locked, known=self._contents)
        found = ((read_lease(*file), file[2].st_mtime) for file in files)
        return [(lease, seen) for lease, seen in found if lease is not None]

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


class OwnPublicLease:
    """A lease of this process; it ends with `release` or with the process.

    - `path`, `file`: its file, and the descriptor of that.
    """

    def __init__(self, path: Path, file: int) -> None:
        self.path = path
        self._file = file
        self._heartbeat = Heartbeat(file)

    def release(self, reason: str) -> None:
        """End the lease; without a `reason` nothing is recorded."""
        self._heartbeat.stop()
        if reason:
            try:
                _record(self.path, reason, time.time())
            except OSError as error:
                logger.warning("The use of the GPUs cannot be recorded in %s: %s", self.path.parent, error)
        remove_locked(self.path, self._file)


def _record(path: Path, reason: str, until: float | None = None) -> None:
    """Record a lease of this user, by default until its process was last seen alive."""
    status = path.stat()
    lease = read_lease(path.name, path.read_bytes(), status)
    if lease is not None:
        append_usage(path.parent, _usage(lease, reason, status.st_mtime if until is None else until))


def _usage(lease: PublicLease, reason: str, until: float) -> Usage:
    until = min(until, time.time())
    return Usage(lease.uid, lease.gpus, min(max(lease.since, 0.0), until), until, reason)


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
