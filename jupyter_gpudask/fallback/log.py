"""The log of fallbacks: workers report the operations that they ran on the host, and the kernel keeps them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

TOPIC = "gpudask-fallback"
"""The topic of the events that workers log."""

_MOST_LINES = 100_000
_MOST_CELLS = 1_000


@dataclass(frozen=True)
class Fallback:
    """One block that was computed on the host."""

    operation: str  # the name of the function
    layer: str  # the name of the collection that the task belongs to
    cell: str  # the id of the cell that submitted the task
    reason: str  # the error in which the GPU library said that it lacks the operation
    seconds: float  # the time on the host, with the copies of the data


class Place(NamedTuple):
    """The common properties of the blocks of one operation; `line` is 0 if it is not known."""

    operation: str
    line: int
    reason: str


class FallbackLog:
    """The blocks that ran on the host, and their seconds, in this process and, in the kernel, in its workers."""

    def __init__(self) -> None:
        self.blocks: Counter[Place] = Counter()
        self.seconds: Counter[Place] = Counter()
        self._lines: dict[str, tuple[int, str]] = {}
        self._cells: dict[str, Counter[Place]] = {}
        self._lock = threading.Lock()

    def note_cell(self, cell: str) -> None:
        """Count the blocks of a cell of this process; events about other cells are those of other kernels."""
        with self._lock:
            if cell not in self._cells:
                _make_room(self._cells, _MOST_CELLS)
                self._cells[cell] = Counter()

    def note_line(self, layer: str, line: int, cell: str) -> None:
        """Remember the line of the user's code that made the collection `layer`.

        Of one cell the first line counts, because Dask may create a collection again; a later cell replaces it.
        """
        with self._lock:
            if layer not in self._lines:
                _make_room(self._lines, _MOST_LINES)
            if self._lines.get(layer, (0, ""))[1] != cell:
                self._lines[layer] = line, cell

    def line_of(self, layer: str) -> int:
        """The line of the user's code that made the collection `layer`; 0 if it is not known."""
        return self._lines.get(layer, (0, ""))[0]

    def add(self, fallback: Fallback) -> None:
        """Count one block."""
        place = Place(fallback.operation, self.line_of(fallback.layer), fallback.reason)
        self.add_blocks(place, fallback.cell, 1, fallback.seconds)

    def add_blocks(self, place: Place, cell: str, blocks: int, seconds: float = 0.0) -> None:
        """Count blocks; the time of a collection that is computed on the host as a whole is not measured."""
        with self._lock:
            self.blocks[place] += blocks
            self.seconds[place] += seconds  # type: ignore[assignment]
            if cell in self._cells:
                self._cells[cell][place] += blocks

    def on_event(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Count what a worker has reported, as an event of `TOPIC`; other kernels of its cluster get the event, too."""
        message = event[1]
        if message["cell"] in self._cells:
            self.add(Fallback(**{field.name: message[field.name] for field in fields(Fallback)}))  # Dask adds some

    def has_cell(self, cell: str) -> bool:
        """Whether a cell has submitted something that may run on the host."""
        return cell in self._cells

    def blocks_of(self, cell: str) -> Counter[Place]:
        """The blocks of a cell that were counted so far."""
        with self._lock:
            return Counter(self._cells.get(cell, ()))


def _make_room(entries: dict[str, Any], limit: int) -> None:
    """Forget the oldest entry if there are as many as the limit."""
    if len(entries) >= limit:
        del entries[next(iter(entries))]


def report(fallback: Fallback) -> None:
    """Report a block to the kernel from one of its workers; in the kernel itself, count it."""
    from distributed import get_worker  # here, because the magics import this module at once

    try:
        worker = get_worker()
    except ValueError:
        fallback_log.add(fallback)
    else:
        worker.log_event(TOPIC, asdict(fallback))


fallback_log = FallbackLog()
"""The log of this process."""
