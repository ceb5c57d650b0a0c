"""Settings of Dask's processes: import path, what they record, send interval, and how many tasks a worker has."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
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
# samples of the system monitor, two a second; the time between samples of what the threads of a worker run, which takes
# a tenth of all its time while tasks run on the host in many threads.
_RECORDS = {
    "distributed.admin.log-length": (10_000, 1000),
    "distributed.admin.low-level-log-length": (1000, 100),
    "distributed.admin.system-monitor.log-length": (7200, 1200),
    "distributed.worker.profile.interval": ("10ms", "100ms"),
}


def record_less() -> dask.config.set:
    """Configure fewer records for everything that Dask creates from now on, or in a ``with`` block.

    What the user has configured is kept.
    """
    return dask.config.set(
        {name: ours for name, (default, ours) in _RECORDS.items() if dask.config.get(name) == default}
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


DEFAULT_SATURATION = 1.1
"""Dask's: how many tasks without inputs it gives to a worker at a time, divided by its threads."""

_MESSAGES = 0.004
"""Seconds from the end of a task until the worker may have another one, at most."""

_MOST, _PART = 16, 100
"""How many tasks a thread has at most, and the part of a worker's memory that their results take together."""


class SaturationPlugin(SchedulerPlugin):
    """Gives workers more tasks without inputs at a time while these are short, and their results small.

    By Dask's default each thread has two, and waits for messages where tasks take less time. With more of large blocks,
    a worker would compute several before the task arrives that reduces the first one.
    """

    name = "gpudask-saturation"

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._unknown: set[str] = set()  # groups of the newest graph without a finished task
        self._seconds = self._bytes = 0.0

    def update_graph(self, scheduler: Any, *, tasks: Collection[Any], **_: Any) -> None:
        """Begin with the default for each graph; called by Dask before its tasks are sent to workers."""
        found = filter(None, map(scheduler.tasks.get, tasks))
        self._unknown = {task.group.name for task in found if not task.dependencies and task.state != "memory"}
        self._seconds = self._bytes = 0.0
        self._set(DEFAULT_SATURATION)

    def transition(self, key: Any, start: str, finish: str, *_: Any, **message: Any) -> None:
        """Learn from a finished task; called by Dask for every transition."""
        if (start, finish) != ("processing", "memory") or (task := self._scheduler.tasks[key]).dependencies:
            return
        self._unknown.discard(task.group.name)
        self._seconds = max(_seconds_of(message.get("startstops") or ()), 0.75 * self._seconds)
        self._bytes = max(task.get_nbytes(), self._bytes)  # of any task: those in the queue may be as large
        if not self._unknown:
            workers = self._scheduler.workers.values()
            room = min((worker.memory_limit / worker.nthreads / _PART for worker in workers), default=0)
            short, small = _MESSAGES / max(self._seconds, 1e-6), room / max(self._bytes, 1)
            self._set(max(DEFAULT_SATURATION, int(min(_MOST, short, small))))

    def _set(self, saturation: float) -> None:
        if saturation != self._scheduler.WORKER_SATURATION:
            self._scheduler.WORKER_SATURATION = saturation
            for worker in self._scheduler.workers.values():
                self._scheduler.check_idle_saturated(worker)


def _seconds_of(steps: Sequence[Mapping[str, Any]]) -> float:
    return sum((float(step["stop"] - step["start"]) for step in steps if step["action"] == "compute"), 0.0)
