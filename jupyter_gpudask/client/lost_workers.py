"""Explain why Dask has given up a task whose workers ended."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from dask.utils import key_split

from ..errors import WorkersEndedError
from ..scheduler.workers import exit_of

if TYPE_CHECKING:
    from distributed import Client
    from distributed.scheduler import KilledWorker

    from ..protocol import WorkerExit

_RESPONSE_TIMEOUT = 5.0


def explain_killed_worker(error: KilledWorker, client: Client) -> WorkersEndedError | None:
    """The error to raise instead of Dask's, which counts one worker as several; `None` if the exit is not known."""
    end: WorkerExit | None = None
    with suppress(Exception):  # a cluster that does not respond does not explain it
        run_on_scheduler = client._run_on_scheduler  # noqa: SLF001 - the public one has no timeout
        end = client.sync(run_on_scheduler, exit_of, error.last_worker.pid, callback_timeout=_RESPONSE_TIMEOUT)
    if end is None:
        return None
    name, count = key_split(error.task), error.allowed_failures + 1
    return WorkersEndedError(
        "workers-over-memory" if end.over_memory_limit else "workers-ended", task=name, count=count, end=end.reason
    )
