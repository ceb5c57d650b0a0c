"""Settings of Dask's scheduler: its import path, the lengths of its logs, and its send interval."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import dask.config
from distributed import Scheduler, SchedulerPlugin

from ..worker.preload import send_sooner


class SchedulerPathPlugin(SchedulerPlugin):
    """Appends the folders of `path` to the scheduler's `sys.path`.

    The scheduler's own folders come first, so that a user's file cannot shadow a module of Python or Dask.
    """

    def __init__(self, path: Sequence[str]) -> None:
        self.name = f"gpudask-path {os.pathsep.join(path)}"
        self._path = list(path)

    async def start(self, scheduler: Scheduler) -> None:  # noqa: ARG002 - as Dask calls it
        """Extend the path; called by Dask when the plugin is registered."""
        sys.path.extend(folder for folder in self._path if folder not in sys.path)


# The defaults of Dask and of this package: records of logs; sent messages, which can be whole graphs, and transitions;
# samples of the system monitor, two a second.
_LENGTHS = {
    "distributed.admin.log-length": (10_000, 1000),
    "distributed.admin.low-level-log-length": (1000, 100),
    "distributed.admin.system-monitor.log-length": (7200, 1200),
}


def shorten_logs() -> dask.config.set:
    """Configure shorter logs for everything that Dask creates from now on, or in a ``with`` block.

    Lengths that the user has configured are kept.
    """
    return dask.config.set(
        {name: ours for name, (default, ours) in _LENGTHS.items() if dask.config.get(name) == default}
    )


class SendIntervalPlugin(SchedulerPlugin):
    """Shortens the interval of the streams to all workers, and to each client that submits a graph.

    - `scheduler`: the scheduler of the streams; it may have workers already.
    """

    name = "gpudask-send-interval"

    def __init__(self, scheduler: Any) -> None:
        for stream in scheduler.stream_comms.values():
            send_sooner(stream)

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Called by Dask when it has created the stream to a worker."""
        send_sooner(scheduler.stream_comms.get(worker))

    def update_graph(self, scheduler: Any, *, client: str, **_: Any) -> None:
        """Called by Dask for each graph; when a client connects there is no stream to it yet."""
        send_sooner(scheduler.client_comms.get(client))
