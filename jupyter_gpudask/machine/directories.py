"""The temporary directory of a cluster, with its scratch space and logs; only its user can read it."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LOGS_VARIABLE = "JUPYTER_GPUDASK_LOGS"
"""The environment variable of workers with the directory of their logs."""

_PREFIX = "jupyter-gpudask-"
_LOCK = "in-use.lock"
_TAIL_BYTES = 2**18


class ClusterDirectory:
    """A directory that is locked as long as the process that created it lives.

    Parameters
    ----------
    place
        Where to create it, if not among the temporary files.
    host
        The name of this machine, if others use the same `place`.

    Attributes
    ----------
    path
        The directory.
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
        """Delete the directory and its contents."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


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
    """Delete the directories of this user's killed supervisors: those whose lock no process of this machine holds.

    Parameters
    ----------
    place
        Where they are, if not among the temporary files.
    host
        The name of this machine, if others use the same `place`; the locks of these may not be visible here.
    """
    # What `mkdtemp` appends has no hyphen, and the name of another host may begin with that of this one and a hyphen.
    name = re.compile(rf"{re.escape(_prefix(host))}[^-]+")
    for folder in (place or Path(tempfile.gettempdir())).glob(f"{_prefix(host)}*"):
        if not name.fullmatch(folder.name):
            continue
        try:
            if folder.lstat().st_uid != os.geteuid():  # its owner could fill it with more than can be deleted
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # not such a directory, or one that is being created
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
        finally:
            os.close(lock)


def worker_log(logs: Path, worker: object) -> Path:
    """The log file of a worker: what it and its tasks print and log."""
    return logs / f"worker-{re.sub(r'[^A-Za-z0-9_.-]', '_', str(worker))}.log"


def tail(path: Path, lines: int) -> str:
    """The last `lines` lines of a log file; empty if there is no such file."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
