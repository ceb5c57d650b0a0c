"""Plugins of workers and nannies: reports of exits, limits of kept data, and patches."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from dask.utils import key_split
from distributed import Nanny, NannyPlugin, Worker, WorkerPlugin
from distributed.core import Status
from tornado.ioloop import PeriodicCallback

from ..patches.apply import patches

EXIT_TOPIC = "gpudask-worker-exit"
"""The topic of the scheduler's events about worker processes that failed."""

_POLL = 0.1


class ExitReportPlugin(NannyPlugin):
    """Logs an event in the scheduler for each worker process that is killed or exits with a status other than 0.

    A nanny has no hook for that, so this waits for the end of the process that the nanny runs.
    """

    name = "gpudask-exit-report"
    _watching: asyncio.Task[None]

    def setup(self, nanny: Nanny) -> None:
        """Start to watch; called by Dask when the nanny starts, or when the plugin is registered."""
        self._watching = asyncio.create_task(_report_exits(nanny))

    def teardown(self, nanny: Nanny) -> None:  # noqa: ARG002 - as Dask calls it
        """Stop watching; called by Dask when the nanny is closed."""
        self._watching.cancel()


async def _report_exits(nanny: Nanny) -> None:
    while True:
        process: Any = getattr(nanny.process, "process", None)
        if process is None or process.pid is None:
            await asyncio.sleep(_POLL)
            continue
        pid = process.pid
        await process.join()
        if process.exitcode:
            event = {"name": str(nanny.name), "worker": nanny.worker_address, "pid": pid, "exitcode": process.exitcode}
            nanny.log_event(EXIT_TOPIC, event)


_MAX_METRICS = 1000
_MAX_KEY_NAMES = 10_000
_INTERVAL = 60.0


class MetricsRetentionPlugin(WorkerPlugin):
    """Deletes a worker's metrics of old computations, whose sums it has sent to the scheduler."""

    name = "gpudask-retention"

    def setup(self, worker: Worker) -> None:
        """Start a timer; called by Dask when the worker starts."""

        def delete() -> None:
            delete_old_metrics(worker.digests_total)
            delete_old_metrics(worker.digests_max)
            clear_key_names()

        timer = PeriodicCallback(delete, _INTERVAL * 1000)
        worker.periodic_callbacks[self.name] = timer
        timer.start()


def delete_old_metrics(metrics: MutableMapping[Any, float]) -> None:
    """Delete all but the newest metrics whose name is a tuple, as those of spans are."""
    names = [name for name in metrics if isinstance(name, tuple)]
    for name in names[:-_MAX_METRICS]:
        del metrics[name]


def clear_key_names() -> None:
    """Clear Dask's cache of the task names in keys if it is large; Dask would keep 100,000."""
    if key_split.cache_info().currsize > _MAX_KEY_NAMES:
        key_split.cache_clear()


class PatchPlugin(WorkerPlugin):
    """Applies the rows of `jupyter_gpudask.patches.table` that run in workers."""

    name = "gpudask-patches"

    def setup(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        """Called by Dask when the worker has joined the scheduler, before it gets tasks."""
        patches.apply("worker")

    def teardown(self, worker: Worker) -> None:
        """Undo them; called by Dask when the plugin is unregistered, or when the worker closes.

        A worker that closes may share its process with another one, which still needs them.
        """
        if worker.status in (Status.running, Status.paused):
            patches.undo("worker")
