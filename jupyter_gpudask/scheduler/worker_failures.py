"""Failures of workers: processes that ended unexpectedly, lost hosts, and tasks that ran out of device memory."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter, deque
from typing import Any

from ..protocol import WorkerExit
from ..worker.exit_report import EXIT_TOPIC
from .lost_hosts import LostHostsPlugin

logger = logging.getLogger(__name__)

# The messages of CuPy and PyTorch, of RMM, of the CUDA runtime and of the CUDA driver. Host memory has other ones.
_OUT_OF_MEMORY = re.compile(r"^OutOfMemoryError\(|out_of_memory: |cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY")
_MAX_TEXT = 4000

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
        self._over_limit: deque[tuple[str, int]] = deque(maxlen=_KEPT_EXITS)

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - Dask's
        """Count a task that fails; called by Dask for every transition. Tasks that depend on it have no text."""
        if finish == "erred" and start == "processing" and is_device_out_of_memory(kwargs.get("exception_text")):
            worker = self._scheduler.workers.get(kwargs.get("worker"))
            if worker is not None:
                self.out_of_memory[str(worker.name)] += 1

    def log_event(self, topic: str, msg: Any) -> None:
        """Record an exit; called by Dask for every event."""
        if topic == _MEMORY_LIMIT_TOPIC:
            self._over_limit.append((msg["worker"], msg["pid"]))
        elif topic == EXIT_TOPIC:
            over_limit = (msg["worker"], msg["pid"]) in self._over_limit
            reason = "exceeded its memory limit" if over_limit else describe_exit(msg["exitcode"])
            self.exits.append(
                WorkerExit(
                    worker=msg["name"], pid=msg["pid"], time=time.time(), reason=reason, over_memory_limit=over_limit
                )
            )
            logger.warning("Worker process %s %s", msg["pid"], describe_exit(msg["exitcode"]))


def describe_exit(exitcode: int) -> str:
    """How a process ended, from the exit code of its `multiprocessing.Process`, which is not 0."""
    if exitcode == _UNKNOWN_SIGNAL:
        return "was killed by an unknown signal"
    return f"was killed by signal {-exitcode}" if exitcode < 0 else f"exited with status {exitcode}"


def is_device_out_of_memory(text: str | None) -> bool:
    """Whether `text` is the `repr` of an exception which says that device memory is exhausted."""
    return text is not None and _OUT_OF_MEMORY.search(text[:_MAX_TEXT]) is not None
