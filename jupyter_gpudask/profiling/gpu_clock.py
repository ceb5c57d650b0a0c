"""Time on a GPU, measured by CUDA events between the steps of tasks.

An event that a thread records on its stream is reached when the GPU has done what was submitted before. The time
between two events includes pauses in which the GPU waited for the host. Source: CUDA C++ Programming Guide, "Events".
To record an event and to read its time takes some 10 µs, so that several short steps share one.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_POLL = 0.005
_SHORT = 0.0001
"""Seconds of a step; to measure the end of each shorter one would take a tenth of its time."""
_FIRST = 50
"""Number of steps of an operation after which it is known whether they are short."""


class GpuClock:
    """Measures the steps of tasks on the GPU of this process, without waiting for the GPU.

    Attributes
    ----------
    add
        Called with the name of a task, that of a step, and seconds on the GPU, when the GPU has reached its end.
    """

    def __init__(self, add: Callable[[str, str, float], None]) -> None:
        self.add = add
        self._draining = threading.Lock()
        self._unused: deque[Any] = deque()
        self._pending: deque[tuple[str, int, Sequence[Mapping[str, float]], list[Any]]] = deque()
        self._totals: dict[str, tuple[float, int]] = {}

    def record(self) -> Any:
        """An event that the GPU reaches after what this thread has submitted; `None` without CuPy."""
        cuda: Any = getattr(sys.modules.get("cupy"), "cuda", None)
        if not hasattr(cuda, "get_elapsed_time"):
            return None
        try:
            event = self._unused.pop()
        except IndexError:
            event = cuda.Event()
        event.record()
        return event

    def has_short_steps(self, task: str) -> bool:
        """Whether the steps of tasks of that name have been so short that events between all of them cost much."""
        seconds, count = self._totals.get(task, (0.0, 0))
        return count >= _FIRST and seconds < _SHORT * count

    def measure(self, task: str, count: int, stretches: Sequence[Mapping[str, float]], events: list[Any]) -> None:
        """Measure the steps of a task between `events`; later, when the GPU has reached them.

        Parameters
        ----------
        task
            The name of the task.
        count
            How many steps it has.
        stretches
            For each two neighboring events, the seconds of the host in the steps between them, by the name of the step.
            Where they have several names, the time on the GPU is divided in proportion.
        events
            One more than there are stretches.
        """
        if all(event is not None for event in events):
            self._pending.append((task, count, stretches, events))
        self._drain()

    def finish(self, limit: float) -> None:
        """Wait at most `limit` seconds for the GPU."""
        end = time.monotonic() + limit
        while self._drain() and time.monotonic() < end:
            time.sleep(_POLL)

    def _drain(self) -> bool:
        """Add the times of what the GPU has done; returns whether there may be more."""
        if not self._draining.acquire(blocking=False):  # another thread does it
            return True
        try:
            while self._pending and self._pending[0][-1][-1].done:
                task, count, stretches, events = self._pending.popleft()
                on_gpu = _seconds_of_steps(stretches, events)
                for step, seconds in on_gpu.items():
                    self.add(task, step, seconds)
                before, known = self._totals.get(task, (0.0, 0))
                self._totals[task] = before + sum(on_gpu.values()), known + count
                self._unused.extend(events)
            return bool(self._pending)
        finally:
            self._draining.release()


def _seconds_of_steps(stretches: Sequence[Mapping[str, float]], events: Sequence[Any]) -> dict[str, float]:
    """The time on the GPU by the names of steps."""
    on_gpu: dict[str, float] = {}
    elapsed = sys.modules["cupy"].cuda.get_elapsed_time
    for number, on_host in enumerate(stretches):
        seconds = elapsed(events[number], events[number + 1]) / 1000
        whole = sum(on_host.values())
        for step, part in on_host.items():
            share = part / whole if whole else 1 / len(on_host)
            on_gpu[step] = on_gpu.get(step, 0.0) + seconds * share
    return on_gpu
