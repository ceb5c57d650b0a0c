"""Time on a GPU, measured by CUDA events between the steps of tasks.

An event that a thread records on its stream is reached when the GPU has done what was submitted before. The time
between two events includes pauses in which the GPU waited for the host. Source: CUDA C++ Programming Guide, "Events".
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_POLL = 0.005


class GpuClock:
    """Measures the steps of tasks on the GPU of this process, without waiting for the GPU.

    Attributes
    ----------
    add
        Called with the name of each step, and the seconds that it took, when the GPU has reached its end.
    """

    def __init__(self, add: Callable[[tuple[str, str], float], None]) -> None:
        self.add = add
        self._draining = threading.Lock()
        self._unused: deque[Any] = deque()
        self._pending: deque[tuple[Sequence[tuple[str, str]], list[Any]]] = deque()

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

    def measure(self, steps: Sequence[tuple[str, str]], events: list[Any]) -> None:
        """Measure `steps` between `events`, of which there is one more; later, when the GPU has reached them."""
        if all(event is not None for event in events):
            self._pending.append((steps, events))
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
            while self._pending and self._pending[0][1][-1].done:
                steps, events = self._pending.popleft()
                elapsed = sys.modules["cupy"].cuda.get_elapsed_time
                for number, step in enumerate(steps):
                    self.add(step, elapsed(events[number], events[number + 1]) / 1000)
                self._unused.extend(events)
            return bool(self._pending)
        finally:
            self._draining.release()
