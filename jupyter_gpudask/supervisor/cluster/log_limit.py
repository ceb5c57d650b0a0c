"""The limit of the workers' logs: this process cuts those that are too long, whoever writes to them.

A worker cannot do that itself: compiled code and child processes of tasks write to its log as well, and keep it open.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import dask.config
from dask.utils import parse_bytes

from ...errors import ClusterStartError
from ...machine.directories import older_log

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SETTING = "jupyter-gpudask.log-limit"
_DEFAULT = "64 MiB"
_MINIMUM = 10**6
_INTERVAL = 0.5


def limit_logs(logs: Path, environment: Mapping[str, str]) -> None:
    """Keep the logs of workers below the limit, in a thread.

    Parameters
    ----------
    logs
        Their directory.
    environment
        Environment variables, which may have a setting of Dask, besides those of this process.

    Raises
    ------
    ClusterStartError
        The limit that is set is not a size.
    """
    value = dask.config.get(_SETTING, _DEFAULT, config=dask.config.collect(env={**os.environ, **environment}))
    try:
        limit = int(parse_bytes(value))
    except (ValueError, AttributeError):
        limit = 0
    if limit < _MINIMUM:
        raise ClusterStartError("log-limit", setting=_SETTING, value=repr(value))
    threading.Thread(target=_keep_below, args=(logs, limit), name="gpudask-log-limit", daemon=True).start()


def _keep_below(logs: Path, limit: int) -> None:
    while True:
        time.sleep(_INTERVAL)
        for log in logs.glob("*.log"):
            with suppress(OSError):
                cut(log, limit // 2)


def cut(log: Path, size: int) -> None:
    """Empty a log that is longer than `size` bytes, and keep that many of its last bytes in `older_log`.

    Its writers, which append, go on at its beginning. What they write between the copy and the cut is lost.
    """
    excess = log.stat().st_size - size
    if excess <= 0:
        return
    with suppress(OSError), log.open("rb") as source, older_log(log).open("wb") as copy:  # the disk may be full
        source.seek(excess)
        shutil.copyfileobj(source, copy)
    os.truncate(log, 0)
