"""How a worker process ended. Runs in the scheduler, called by the kernel's client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .worker_failures import WorkerFailuresPlugin

if TYPE_CHECKING:
    from ..protocol import WorkerExit

_LIMIT = 2.0
_POLL = 0.05


async def exit_of(pid: int, dask_scheduler: Any) -> WorkerExit | None:
    """The unexpected exit of a worker process; `None` if it is not known.

    The scheduler notices that the connection is closed before the nanny reports the exit, so this waits for a moment.
    """
    failures = dask_scheduler.plugins.get(WorkerFailuresPlugin.name)
    if failures is None:  # a cluster that somebody else started
        return None
    for _ in range(round(_LIMIT / _POLL)):
        for end in failures.exits:
            if end.pid == pid:
                found: WorkerExit = end
                return found
        await asyncio.sleep(_POLL)
    return None
