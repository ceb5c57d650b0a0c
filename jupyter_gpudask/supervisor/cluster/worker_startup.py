"""Wait for the workers of a starting cluster; a worker that fails is an error, while Dask only logs it."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from distributed.core import Status

from ...device_errors import is_device_error
from ...errors import ClusterStartError, GpuDaskError
from ...machine.directories import tail, worker_log

if TYPE_CHECKING:
    from collections.abc import Callable
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

    Parameters
    ----------
    cluster
        The Dask cluster that is being started.
    opening
        The task that starts it; cancelled if the workers do not start.
    total
        The number of workers.
    limit
        Seconds to wait.
    on_progress
        Called with the number of workers that are up, whenever it changes.
    logs
        The directory of the workers' logs.

    Raises
    ------
    ClusterStartError
        A worker died, or the limit was exceeded; with the end of that worker's log.
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
