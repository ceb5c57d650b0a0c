"""Report to the scheduler how worker processes end. Runs in the nanny of each worker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from distributed import NannyPlugin

if TYPE_CHECKING:
    from distributed import Nanny

EXIT_REPORT_PLUGIN = "gpudask-exit-report"
"""The name of the `ExitReportPlugin` of each nanny."""

EXIT_TOPIC = "gpudask-worker-exit"
"""The topic of the scheduler's events about worker processes that failed."""

_POLL = 0.1


class ExitReportPlugin(NannyPlugin):
    """Logs an event in the scheduler for each worker process that is killed or exits with a status other than 0.

    A nanny has no hook for that, so this waits for the end of the process that the nanny runs.
    """

    name = EXIT_REPORT_PLUGIN
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
