"""Failures of workers: processes that ended unexpectedly, lost hosts, and tasks that ran out of device memory."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from typing import Any

from ..device_errors import is_out_of_device_memory
from ..protocol import WorkerExit
from ..quantities import format_bytes
from ..worker.exit_report import EXIT_TOPIC
from .lost_hosts import LostHostsPlugin

logger = logging.getLogger(__name__)

_MEMORY_LIMIT_TOPIC = "worker-restart-memory"
"""The topic of the events that a nanny of Dask's logs when it terminates a worker that exceeded its memory limit."""
_KEPT_EXITS = 20
_UNKNOWN_SIGNAL = 255


class WorkerFailuresPlugin(LostHostsPlugin):
    """Collects the failures of a scheduler's workers.

    It reads the text of an error that the worker sent, and unpickles nothing.

    Parameters
    ----------
    scheduler
        The scheduler of the workers.

    Attributes
    ----------
    out_of_memory
        Number of tasks that ran out of device memory, by worker name. A task with retries counts when it has failed
        for good.
    exits
        The newest unexpected exits of worker processes, the oldest first.
    """

    name = "gpudask-worker-failures"

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self.out_of_memory: Counter[str] = Counter()
        self.exits: deque[WorkerExit] = deque(maxlen=_KEPT_EXITS)
        self.watch_hosts(scheduler)
        self._limits = {address: worker.memory_limit for address, worker in scheduler.workers.items()}
        """In bytes, by the address of a worker; it may be gone from the scheduler when its nanny tells why."""
        self._over_limit: dict[tuple[str, int], str] = {}
        self._lost_contexts: deque[tuple[str, str]] = deque(maxlen=_KEPT_EXITS)
        self._breaks = ("", 0)

    def lose_context(self, worker: str, function: str, line: int, words: str) -> int:
        """Note that a worker ends because its CUDA context is broken; called by the worker.

        Parameters
        ----------
        worker
            The address of the worker.
        function, line
            The user's function that failed, and its line in the cell; empty and 0 if they are not known.
        words
            The error of CUDA.

        Returns
        -------
        int
            How often this function has broken a context since a graph was submitted, with none of another in between.
        """
        last, times = self._breaks
        self._breaks = (function, times + 1 if function == last else 1)
        where = f" (line {line})" if line else ""
        what = f" in {function}{where}" if function else ""
        self._lost_contexts.append((worker, f"lost its CUDA context{what}: {words}"))
        return self._breaks[1]

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Note the memory limit of a worker that joins; called by Dask."""
        super().add_worker(scheduler, worker)
        self._limits[worker] = scheduler.workers[worker].memory_limit

    def update_graph(self, scheduler: Any, **kwargs: Any) -> None:  # noqa: ARG002 - as Dask calls it
        """Begin to count again; called by Dask for each graph."""
        self._breaks = ("", 0)

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - Dask's
        """Count a task that fails; called by Dask for every transition. Tasks that depend on it have no text."""
        if finish == "erred" and start == "processing" and is_out_of_device_memory(kwargs.get("exception_text") or ""):
            worker = self._scheduler.workers.get(kwargs.get("worker"))
            if worker is not None:
                self.out_of_memory[str(worker.name)] += 1

    def log_event(self, topic: str, msg: Any) -> None:
        """Record an exit; called by Dask for every event."""
        if topic == _MEMORY_LIMIT_TOPIC:
            allowed = self._limits.get(msg["worker"])
            limit = f", and its limit is {format_bytes(allowed)}" if allowed else ""
            self._over_limit[msg["worker"], msg["pid"]] = f"used {format_bytes(msg['rss'])} of host memory{limit}"
        elif topic == EXIT_TOPIC:
            self._limits.pop(msg["worker"], None)
            excess = self._over_limit.pop((msg["worker"], msg["pid"]), None)
            lost_context = dict(self._lost_contexts).get(msg["worker"])
            over_limit, reason = excess is not None, excess or lost_context or describe_exit(msg["exitcode"])
            self.exits.append(
                WorkerExit(
                    worker=msg["name"], pid=msg["pid"], time=time.time(), reason=reason, over_memory_limit=over_limit
                )
            )
            logger.warning("Worker process %s %s", msg["pid"], lost_context or describe_exit(msg["exitcode"]))


def describe_exit(exitcode: int) -> str:
    """How a process ended, from the exit code of its `multiprocessing.Process`, which is not 0."""
    if exitcode == _UNKNOWN_SIGNAL:
        return "was killed by an unknown signal"
    return f"was killed by signal {-exitcode}" if exitcode < 0 else f"exited with status {exitcode}"
