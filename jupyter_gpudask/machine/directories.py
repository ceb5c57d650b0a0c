"""The cluster's own folder: scratch space and logs, readable by its user alone, gone when the cluster is."""

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

_PREFIX = "jupyter-gpudask-"
_LOCK = "in-use.lock"
_TAIL_BYTES = 2**18


class ClusterDirectory:
    """A folder that is locked as long as the process that made it lives, whoever else can see it.

    Attributes
    ----------
    path
        The folder.
    """

    def __init__(self) -> None:
        remove_stale_directories()
        self.path, self._lock = _make()
        try:
            self.logs.mkdir()
        except OSError:
            self.remove()
            raise

    @property
    def logs(self) -> Path:
        """Where the workers write their logs."""
        return self.path / "logs"

    def remove(self) -> None:
        """Remove it and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _make() -> tuple[Path, int]:
    """A new folder, and the lock that is held on it."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            lock = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:
            path.rmdir()
            raise
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (path / _LOCK).exists():
            return path, lock
        os.close(lock)  # until it was locked it looked like one of the dead, and another process has removed it


def temporary_folders(environment: Mapping[str, str]) -> set[Path]:
    """Where a process with these variables makes its folder. Source: `tempfile.gettempdir`."""
    named = (environment.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return {Path(tempfile.gettempdir()), *map(Path, filter(None, named))}


def remove_stale_directories(place: Path | None = None) -> None:
    """Remove the folders of supervisors that were killed: those of ours in `place` that nobody holds the lock of."""
    for folder in (place or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # not ours, or of another user, or just being made
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
        finally:
            os.close(lock)


def worker_log(logs: Path, worker: object) -> Path:
    """Where the worker of that name writes what it prints and logs."""
    return logs / f"worker-{re.sub(r'[^A-Za-z0-9_.-]', '_', str(worker))}.log"


def tail(path: Path, lines: int) -> str:
    """The last `lines` lines of a log file; empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
