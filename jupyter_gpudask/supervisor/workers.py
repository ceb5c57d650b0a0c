"""The processes of workers: wait until they are up, and limit their logs.

A worker cannot cut its log itself: compiled code and child processes of tasks write to its log as well, and keep it
open.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import dask.config
from dask.utils import parse_bytes
from distributed.core import Status

from ..device_errors import is_device_error
from ..errors import ClusterStartError, GpuDaskError
from ..machine.directories import older_log, tail, worker_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


_LOG_LINES = 30
_DEAD = (Status.failed, Status.closed, Status.closing)


async def wait_for_workers(
    cluster: Any,
    opening: asyncio.Task[None],
    total: int,
    *,
    limit: float,
    on_progress: Callable[[int], None],
    logs: Path,
) -> None:
    """Wait until `total` workers of `cluster` are up.

    - `opening`: the task that starts it; cancelled if the workers do not start.
    - `limit`: seconds to wait.
    - `on_progress`: called with the number of workers that are up, whenever it changes.

    Raises `ClusterStartError` if a worker died, or the limit was exceeded; with the end of that worker's log.
    """
    try:
        async with asyncio.timeout(limit):
            await _wait(cluster, opening, total, on_progress)
    except TimeoutError:
        ready = len(cluster.scheduler.workers)
        raise ClusterStartError(
            "workers-late", ready=ready, total=total, limit=limit, log=_log_of_missing_worker(cluster, logs)
        ) from None
    except _WorkerDiedError as error:
        log = _log_of_missing_worker(cluster, logs)
        why = _first_error(log) or error.why or "its log names no error"
        raise ClusterStartError(
            "worker-died-of-gpu" if is_device_error(log) else "worker-died", error=why, log=log
        ) from None
    finally:
        opening.cancel()


class _WorkerDiedError(Exception):
    def __init__(self, error: BaseException | None = None) -> None:
        self.why = f"{type(error).__name__}: {error}" if error is not None else ""
        super().__init__(self.why)


async def _wait(cluster: Any, opening: asyncio.Task[None], total: int, on_progress: Callable[[int], None]) -> None:
    known = 0
    while True:
        if opening.done() and (error := opening.exception()):
            if isinstance(error, GpuDaskError):
                raise error
            raise _WorkerDiedError(error)
        ready = len(cluster.scheduler.workers) if cluster.scheduler is not None else 0
        if ready != known:
            known = ready
            on_progress(ready)
        if opening.done() and ready >= total:
            return
        # Only this private list of Dask has the nannies whose workers did not start.
        if any(nanny.status in _DEAD for nanny in list(cluster._created)):  # noqa: SLF001
            raise _WorkerDiedError
        await asyncio.sleep(0.05)


def _first_error(log: str) -> str:
    """The first error in a traceback, which is the cause of the others."""
    match = re.search(r"^[\w.]+(?:Error|Exception|Exit|Interrupt)\b.*$", log, re.MULTILINE)
    return match[0].rstrip(".") if match else ""


def _log_of_missing_worker(cluster: Any, logs: Path) -> str:
    up = {str(worker.name) for worker in cluster.scheduler.workers.values()} if cluster.scheduler else set()
    for name in cluster.worker_spec:
        if str(name) not in up and (text := tail(worker_log(logs, name), _LOG_LINES)):
            return f"Log of worker {name}:\n{text}"
    return ""


_SETTING = "jupyter-gpudask.log-limit"
_DEFAULT = "64 MiB"
_MINIMUM = 10**6
_INTERVAL = 0.5


def log_limit(environment: Mapping[str, str]) -> int:
    """How many bytes the log of a worker may take, as Dask's configuration has it.

    `environment`: environment variables, which may have that setting, besides those of this process. Raises
    `ClusterStartError` if what is set is not a size.
    """
    value = dask.config.get(_SETTING, _DEFAULT, config=dask.config.collect(env={**os.environ, **environment}))
    try:
        limit = int(parse_bytes(value))
    except (ValueError, AttributeError):
        limit = 0
    if limit < _MINIMUM:
        raise ClusterStartError("log-limit", setting=_SETTING, value=repr(value))
    return limit


def limit_logs(logs: Path, limit: int) -> None:
    """Keep the log of each worker in the directory `logs` below `limit` bytes, in a thread."""
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
