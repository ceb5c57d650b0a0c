"""The temporary directory of a cluster, with its scratch space and logs; only its user can read it.

Run as a program, this module goes on with the removal of directories, in the background.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from pathlib import Path

LOGS_VARIABLE = "JUPYTER_GPUDASK_LOGS"
"""The environment variable of workers with the directory of their logs."""

_PREFIX = "jupyter-gpudask-"
_LOCK = "in-use.lock"
_TAIL_BYTES = 2**18
# What clusters create in their directories, besides the lock. Source: Dask, and `multiprocessing` for its sockets.
_CONTENTS = re.compile(r"logs|sockets|dask-scratch-space|(listener|pymp)-.*")
_SETTLED = 60.0
_REMOVAL_LIMIT = 0.5


class ClusterDirectory:
    """A directory that is locked as long as the process that created it lives.

    - `place`: where to create it, if not among the temporary files.
    - `host`: the name of this machine, if others use the same `place`.
    """

    def __init__(self, place: Path | None = None, host: str = "") -> None:
        remove_stale_directories(place, host)
        self.path, self._lock = _create(place, host)
        try:
            self.logs.mkdir()
            self.sockets.mkdir()
        except OSError:
            self.remove()
            raise

    @property
    def logs(self) -> Path:
        """The directory of the workers' logs."""
        return self.path / "logs"

    @property
    def sockets(self) -> Path:
        """The directory of the Unix sockets on which scheduler, nannies and workers listen."""
        return self.path / "sockets"

    def remove(self) -> None:
        """Delete the directory and its contents; if that takes long, it goes on in the background."""
        lock, self._lock = self._lock, -1
        if lock >= 0:  # not removed yet
            _remove({self.path: lock})


def _create(place: Path | None, host: str) -> tuple[Path, int]:
    """Create and lock a directory; the path and the file descriptor of the lock."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_prefix(host), dir=place))
        try:
            lock = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:
            path.rmdir()
            raise
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (path / _LOCK).exists():
            return path, lock
        os.close(lock)  # another process took it for a stale one before it was locked, and deleted it


def temporary_folders(environment: Mapping[str, str]) -> set[Path]:
    """Where a process with these environment variables creates its directory. Source: `tempfile.gettempdir`."""
    named = (environment.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return {Path(tempfile.gettempdir()), *map(Path, filter(None, named))}


def _prefix(host: str) -> str:
    return f"{_PREFIX}{host}-" if host else _PREFIX


def remove_stale_directories(place: Path | None = None, host: str = "") -> None:
    """Delete the directories that this user's supervisors have left: those whose lock no process of this machine holds.

    A directory without a lock is one of them if it has only what clusters create, and was not changed for a minute.

    `place`: where they are, if not among the temporary files. `host`: the name of this machine, if others use the same
    `place`; the locks of these may not be visible here.
    """
    name = re.compile(rf"{re.escape(_prefix(host))}[a-z0-9_]{{8}}")  # what `mkdtemp` appends
    stale = {}
    for folder in (place or Path(tempfile.gettempdir())).glob(f"{_prefix(host)}*"):
        if not name.fullmatch(folder.name):
            continue
        try:
            if folder.lstat().st_uid != os.geteuid():  # its owner could fill it with more than can be deleted
                continue
            create = os.O_CREAT if _is_abandoned(folder) else 0
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | create, 0o600)
        except OSError:  # not such a directory, or one that is being created
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
        else:
            stale[folder] = lock
    _remove(stale)


def _is_abandoned(folder: Path) -> bool:
    """Whether a directory without a lock is one whose creation or removal was cut, and not one of the user."""
    status = folder.lstat()
    return (
        status.st_mode == stat.S_IFDIR | 0o700
        and time.time() - status.st_mtime > _SETTLED
        and all(_CONTENTS.fullmatch(entry.name) for entry in folder.iterdir())
    )


def _remove(locked: Mapping[Path, int]) -> None:
    """Delete locked directories, and close their locks; what takes longer, a process of its own deletes."""
    deadline = time.monotonic() + _REMOVAL_LIMIT
    left = {folder: lock for folder, lock in locked.items() if not _delete(folder, deadline)}
    if left:
        null = subprocess.DEVNULL
        with suppress(OSError):  # the next start removes them
            subprocess.run(  # noqa: S603 - this module
                [sys.executable, "-I", "-S", __file__, *map(str, left)],
                stdin=null,
                stdout=null,
                stderr=null,
                pass_fds=left.values(),
                start_new_session=True,
                check=False,
            )
    for lock in locked.values():
        os.close(lock)


def _delete(folder: Path, deadline: float) -> bool:
    """Delete a directory, its lock last; `False` if that is not done by `deadline`.

    If it is interrupted, the directory has its lock still, and is stale. What cannot be deleted stays.
    """
    for root, folders, files, descriptor in os.fwalk(folder, topdown=False):
        for name in (*files, *folders):
            if time.monotonic() > deadline:
                return False
            if name != _LOCK or root != str(folder):
                with suppress(OSError):
                    try:
                        os.unlink(name, dir_fd=descriptor)
                    except IsADirectoryError:
                        os.rmdir(name, dir_fd=descriptor)
    with suppress(OSError):
        if list(folder.iterdir()) == [folder / _LOCK]:
            (folder / _LOCK).unlink()
            folder.rmdir()
    return True


def worker_log(logs: Path, worker: object) -> Path:
    """The log file of a worker: what it and its tasks print and log."""
    return logs / f"worker-{re.sub(r'[^A-Za-z0-9_.-]', '_', str(worker))}.log"


def older_log(log: Path) -> Path:
    """The file with what was in a log before it was cut, because it was too long."""
    return log.with_name(f"{log.name}.1")


def tail(path: Path, lines: int) -> str:
    """The last `lines` lines of a log file; empty if there is no such file."""
    text = b""
    for part in (path, older_log(path)):
        with suppress(OSError), part.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES + len(text)))
            text = file.read(_TAIL_BYTES) + text
    return "\n".join(text.decode(errors="replace").splitlines()[-lines:])


if __name__ == "__main__" and os.fork() == 0:  # in a process that is no child of their cluster, and has their locks
    for folder in sys.argv[1:]:
        _delete(Path(folder), inf)
