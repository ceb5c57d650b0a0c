"""Read the blocks of a fused task by several threads, before its steps need them.

A task of several blocks runs its steps one after the other. Without this, the device would wait for each block to be
read, or would have as many tasks as blocks, of which each costs the worker some milliseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Read(NamedTuple):
    """A step that reads a block for the GPU."""

    place: tuple[Any, ...]  # its key, after those of the steps whose programs contain it
    is_on_host: Callable[[], bool]  # whether it runs on the host only; the same for all blocks of a collection
    run: Callable[[], Any]

    @property
    def name(self) -> str:
        """The name of the collection."""
        key = self.place[-1]
        return str(key[0] if isinstance(key, tuple) else key)


@contextmanager
def read_ahead(reads: Iterable[Read], plugin: Any) -> Iterator[ReadAhead | None]:
    """A context in which blocks are read ahead; `None` in threads and for tasks that do not.

    `plugin`: what `host_threads` returns.
    """
    found: list[Read] = []
    if plugin is not None and plugin.may_wait():
        found += _on_host(reads, plugin)
    if len(found) < 2:  # nothing is before the first
        yield None
        return
    ahead = ReadAhead(plugin, found)
    del found
    try:
        yield ahead
    finally:
        ahead.close()


def _on_host(reads: Iterable[Read], plugin: Any) -> Iterator[Read]:
    known: dict[str, bool] = {}
    for read in reads:
        if read.name not in known:
            known[read.name] = plugin.may_run_on_host(read.name, read.is_on_host) and read.is_on_host()
        if known[read.name]:
            yield read


class ReadAhead:
    """The blocks that a task reads ahead.

    - `plugin`: that of the worker, whose threads read as many blocks of all tasks as fit.
    - `reads`: in the order of their steps.
    """

    def __init__(self, plugin: Any, reads: Iterable[Read]) -> None:
        self._plugin, self._waiting = plugin, deque(reads)
        self._begun: dict[tuple[Any, ...], Any] = {}
        self._begin()

    def take(self, place: tuple[Any, ...]) -> Callable[[], Any] | None:
        """What waits for the block of a step, and returns it; `None` if the step has to read it."""
        begun = self._begun.pop(place, None)
        if begun is None:
            if self._waiting and self._waiting[0].place == place:
                self._waiting.popleft()
                self._begin()
            return None

        def wait() -> Any:
            try:
                return self._plugin.wait(begun)
            finally:
                self._begin()

        return wait

    def close(self) -> None:
        """Read no more."""
        self._waiting.clear()
        while self._begun:
            _, begun = self._begun.popitem()
            begun.leave()

    def _begin(self) -> None:
        while self._waiting:
            read = self._waiting[0]
            begun = self._plugin.reads.begin(read.name, read.run)
            if begun is None:
                return
            self._waiting.popleft()
            self._begun[read.place] = begun
