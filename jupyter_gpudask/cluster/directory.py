"""The cluster's own folder: scratch space and logs, readable by its user alone, gone when the cluster is."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import psutil

_NAME = re.compile(r"gpudask-(?P<pid>\d+)-.*")
_TAIL_BYTES = 2**18


def make_directory() -> Path:
    """Make the folder of a new cluster, and clear away those whose supervisor was killed."""
    remove_stale_directories()
    directory = Path(tempfile.mkdtemp(prefix=f"gpudask-{os.getpid()}-"))
    (directory / "logs").mkdir()
    return directory


def remove_directory(directory: Path) -> None:
    """Remove the folder and what is in it."""
    shutil.rmtree(directory, ignore_errors=True)


def remove_stale_directories() -> None:
    """Remove the folders of this user's supervisors that no longer run."""
    for stale in Path(tempfile.gettempdir()).glob("gpudask-*"):
        match = _NAME.fullmatch(stale.name)
        if match and _is_mine(stale) and not psutil.pid_exists(int(match["pid"])):
            remove_directory(stale)


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


def _is_mine(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid()
    except OSError:
        return False
