"""The profile of a cell: a table by operation, how busy the workers were, and advice."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ...quantities import format_bytes
from .base import Note, View, format_table, html_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...profiling.measurements import CellProfile, Operation, WorkerUse

_DASH = "–"
_MAX_OPERATIONS = 12
_MAX_WORKERS = 8
_SMALLEST = 0.0005


@dataclass(repr=False)
class CellProfileView(View):
    """The profile of a cell.

    Attributes
    ----------
    profile
        What was measured.
    advice
        Sentences.
    """

    profile: CellProfile
    advice: Sequence[str]

    def __str__(self) -> str:
        return "\n".join([format_table(*self._table()), *self._notes(), *(f"- {each}" for each in self.advice)])

    def to_html(self) -> str:
        """The table, and lists of the notes and of the advice."""
        notes = "".join(Note(text).to_html() for text in self._notes())
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.advice)
        return f"<div>{html_table(*self._table())}{notes}{f'<ul>{items}</ul>' if items else ''}</div>"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        operations = self._sorted()
        columns = [column for column in _COLUMNS if column[0] in _ALWAYS or any(map(column[1], self._all()))]
        rows = [[name, *(column[2](operation) for column in columns)] for name, operation in operations]
        return ["operation", *(column[0] for column in columns)], rows

    def _all(self) -> list[Operation]:
        return list(self.profile.operations.values())

    def _sorted(self) -> list[tuple[str, Operation]]:
        """The operations that took longest, with the longest first."""
        ordered = sorted(self.profile.operations.items(), key=lambda item: -_total(item[1]))
        return ordered[:_MAX_OPERATIONS]

    def _notes(self) -> list[str]:
        profile = self.profile
        parts = [
            f"{_seconds(profile.active)} of {_seconds(profile.duration)} with tasks",
            *(self._describe_worker(worker) for worker in profile.workers[:_MAX_WORKERS]),
        ]
        if len(profile.workers) > _MAX_WORKERS:
            parts.append(f"and {len(profile.workers) - _MAX_WORKERS} more workers")
        if profile.transferred:
            parts.append(f"{format_bytes(profile.transferred)} between workers")
        if profile.spilled:
            parts.append(f"{format_bytes(profile.spilled)} spilled to disk")
        if profile.unfinished:
            parts.append(f"{profile.unfinished:,} unfinished tasks are not included")
        if profile.silent:
            parts.append(f"{profile.silent} workers did not report the steps of their tasks")
        hidden = len(profile.operations) - _MAX_OPERATIONS
        return [f"and {hidden} more operations", " · ".join(parts)] if hidden > 0 else [" · ".join(parts)]

    def _describe_worker(self, worker: WorkerUse) -> str:
        busy = worker.busy(self.profile.active, on_gpus=self.profile.on_gpus)
        return f"{worker.name} busy {100 * busy:.0f} %"


def _total(operation: Operation) -> float:
    return operation.seconds + operation.waiting + operation.between_workers + operation.spilling


def _seconds(seconds: float) -> str:
    if seconds < _SMALLEST:
        return _DASH
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _moved(operation: Operation) -> str:
    size = operation.to_gpu_bytes + operation.to_host_bytes
    if not size:
        return _DASH
    seconds = operation.to_gpu_seconds + operation.to_host_seconds
    return format_bytes(size) if seconds < _SMALLEST else f"{_seconds(seconds)}, {format_bytes(size)}"


def _block_size(operation: Operation) -> str:
    return _DASH if operation.block_size is None else format_bytes(round(operation.block_size))


_ALWAYS = ("blocks", "block size", "time", "waiting")

# The head of each column, whether it has something to show for an operation, and the text of a cell.
_COLUMNS: tuple[tuple[str, Callable[[Operation], float], Callable[[Operation], str]], ...] = (
    ("blocks", lambda each: each.tasks, lambda each: f"{each.tasks:,}"),
    ("block size", lambda each: each.sized, _block_size),
    ("time", lambda each: each.seconds, lambda each: _seconds(each.seconds)),
    ("GPU time", lambda each: each.gpu_seconds, lambda each: _seconds(each.gpu_seconds)),
    ("waiting", lambda each: each.waiting, lambda each: _seconds(each.waiting)),
    ("host ↔ GPU", lambda each: each.to_gpu_bytes + each.to_host_bytes, _moved),
    ("between workers", lambda each: each.between_workers, lambda each: _seconds(each.between_workers)),
    ("spilling", lambda each: each.spilling, lambda each: _seconds(each.spilling)),
)
