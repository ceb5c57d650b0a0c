"""The leases that all users of a machine see, and the record of their use: files in the administrator's directory.

For the record, each user appends to a file of their own, one JSON object a line. The operating system says who the
owner of a file is, and in a sticky directory nobody else can remove it; whatever a file contains is about its owner.

The directory is writable for all and sticky; `locked_files` explains when a file is valid.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import pwd
import stat
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from .locked_files import Contents, create_locked, open_file, remove_if_stale, remove_locked, stale_files, valid_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
    - `share`: whether other clusters that share may hold them too.
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
        """Who holds or held which GPUs: of this user, and for root of all users."""
        current = [_usage(lease, "", time.time()) for lease, _ in self._read(locked=True)]
        ended = [_usage(lease, _PROCESS_ENDED, seen) for lease, seen in self._read(locked=False)]
        return [each for each in read_usage(self.path) + ended + current if os.geteuid() in (0, each.uid)]

    def _read(self, *, locked: bool) -> list[tuple[PublicLease, float]]:
        """The leases, and when their processes were last seen alive."""
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
