"""Threads of a worker that read blocks for its tasks, as far as there is memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any
from weakref import WeakSet

from distributed.sizeof import safe_sizeof
from distributed.threadpoolexecutor import ThreadPoolExecutor

_PART_OF_MEMORY = 16
"""What waits to be computed with takes this part of the worker's memory at most."""

_MOST_NAMES = 1000


class BegunRead:
    """A block that is read, was read, or waits for a thread."""

    def __init__(self, reads: Reads, name: str, nbytes: int) -> None:
        self._reads, self.name, self.nbytes = reads, name, nbytes
        self.future: Future[Any] = Future()

    def leave(self) -> None:
        """It is the task's now, or nobody's."""
        self.future.cancel()
        self._reads.forget(self)


class Reads:
    """Reads blocks in threads of its own.

    - `threads`: how many read at a time.
    - `memory`: bytes of the worker.
    """

    def __init__(self, threads: int, memory: int) -> None:
        # Of Dask, whose threads delay no exit.
        self._pool: Any = ThreadPoolExecutor(threads, thread_name_prefix="gpudask-reads")
        self._most, self._memory = 2 * threads, memory // _PART_OF_MEMORY
        self._sizes: dict[str, int] = {}  # bytes of the largest block of a name
        self._counted: WeakSet[BegunRead] = WeakSet()  # without those that an interrupt has lost
        self._lock = threading.Lock()
        self._is_closed = False

    def begin(self, name: str, read: Callable[[], Any]) -> BegunRead | None:
        """Read a block soon; `None` if there is no room for it, or the plugin was unregistered.

        `name`: the same for blocks of one size. The first one is read alone, and shows it.
        """
        with self._lock:
            nbytes = self._sizes.get(name)
            if self._is_closed or (nbytes is None and any(begun.name == name for begun in self._counted)):
                return None
            taken = sum(begun.nbytes for begun in self._counted)
            if self._counted and (len(self._counted) >= self._most or taken + (nbytes or 0) > self._memory):
                return None
            begun = BegunRead(self, name, nbytes or 0)
            self._counted.add(begun)
            self._pool.submit(copy_context().run, self._read, begun, read)
        return begun

    def _read(self, begun: BegunRead, read: Callable[[], Any]) -> None:
        if not begun.future.set_running_or_notify_cancel():
            return
        try:
            block = read()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            begun.future.set_exception(error)
        else:
            nbytes = safe_sizeof(block)
            with self._lock:
                if len(self._sizes) >= _MOST_NAMES:
                    self._sizes.clear()
                self._sizes[begun.name] = max(nbytes, self._sizes.get(begun.name, 0))
                begun.nbytes = nbytes
            begun.future.set_result(block)

    def forget(self, begun: BegunRead) -> None:
        """Count a block no longer."""
        with self._lock:
            self._counted.discard(begun)

    def close(self) -> None:
        """Begin no more; what has begun is read."""
        with self._lock:
            self._is_closed = True
            self._pool.shutdown(wait=False)
