"""``%%gpudask --profile`` and ``--report``: what each operation of a cell cost, and Dask's performance report."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from ..errors import ReportError
from ..overlay import CellRecord
from ..quantities import format_bytes
from ..session.launch import RunningCluster
from .output import DASH, SHORTEST, Note, View, format_seconds, format_table, html_table, show_note

if TYPE_CHECKING:
    from ..profiling.measurements import CellMeasurements, Operation

_NOTHING = "There is nothing to profile: no task of the cell has finished on the cluster."
_WITHOUT_POLARS = "Queries of Polars on the CPU are not profiled."
_MOVED = {
    "read": "read from files",
    "sent": "sent between GPUs",
    "to host": "moved to host memory",
    "to GPU": "moved back",
}
_UNFINISHED = "The cell was interrupted: the tasks that it cancelled are not in this profile."
_MAX_OPERATIONS = 12
_MAX_WORKERS = 8
_ALWAYS = ("blocks", "block size", "time", "waiting")


@dataclass(repr=False)
class ReportNote(Note):
    """A `Note` that links to the report, if it is in or below the folder of the notebook."""

    file: str  # the path as the user typed it

    def to_html(self) -> str:
        """The line as a `div`; Jupyter serves relative addresses from the folder of the notebook."""
        here = Path.cwd()
        path = Path(self.file).expanduser().resolve()
        if not path.is_relative_to(here):
            return super().to_html()
        address = escape(quote(str(path.relative_to(here))))
        text = escape(self.text).replace(
            escape(self.file), f'<a href="{address}" target="_blank">{escape(self.file)}</a>'
        )
        return f'<div style="{self.STYLE}">{text}</div>'


@contextmanager
def report_to(file: str) -> Iterator[None]:
    """Write a performance report of the code in this context to `file`; a note links to it or says why not."""
    path = Path(file).expanduser()
    if path.is_dir() or not path.parent.is_dir():
        raise ReportError(file=repr(file))
    from distributed import performance_report

    report = performance_report(filename=str(path))
    report.__enter__()
    try:
        yield
    finally:
        try:
            report.__exit__(None, None, None)
        except OSError as error:  # the cell itself has succeeded
            display(Note(f"The report cannot be written to {file}: {error.strerror or error}."))
        else:
            display(ReportNote(f"Dask's performance report: {file}", file))


def was_interrupted(shell: InteractiveShell) -> bool:
    """Whether the last cell ended by an interrupt."""
    result = shell.last_execution_result
    return result is not None and isinstance(result.error_in_exec, KeyboardInterrupt | asyncio.CancelledError)


@contextmanager
def measure_cell(
    shell: InteractiveShell, cluster: RunningCluster, moved: tuple[str, ...], record: CellRecord
) -> Iterator[None]:
    """Profile the code in this context, also if it ends with an error or an interrupt; show the profile after it.

    A cluster that does not respond does not fail the cell; a note says why there is no profile.
    """
    from ..profiling.measurements import advice
    from ..profiling.recording import Recording

    record.polars_statistics = []
    recording = Recording(cluster.client, on_gpus=cluster.ready.has_gpus)
    try:
        recording.start()
    except Exception as error:  # noqa: BLE001 - whatever a scheduler raises that cannot import this package
        is_late = isinstance(error, TimeoutError)
        reason = "the scheduler does not respond" if is_late else f"{type(error).__name__}: {error}"
        show_note(shell, f"This cell is not profiled: {reason}.")
        yield
        return
    try:
        yield
    finally:
        try:
            measured = recording.stop()
        except Exception as error:  # noqa: BLE001 - the cell has ended, perhaps with its cluster
            show_note(shell, f"There is no profile of this cell: {type(error).__name__}: {error}.")
        else:
            if measured is None:
                show_note(shell, "There is no profile of this cell: another cell was profiled at the same time.")
            elif not measured.operations:
                display(Note(" ".join(_of_polars(record, cluster)) or _NOTHING))
            else:
                shown = replace(_with_names_of_gpus(measured, cluster), moved=moved)
                sentences = [_UNFINISHED] if was_interrupted(shell) else list(advice(shown))
                sentences += _of_polars(record, cluster)
                display(MeasurementsView(shown, sentences))


def _of_polars(record: CellRecord, cluster: RunningCluster) -> list[str]:
    """A sentence on the queries of Polars, if there were any."""
    if not record.polars_queries:
        return []
    if not record.polars_statistics:
        return [_WITHOUT_POLARS]
    seconds: defaultdict[str, float] = defaultdict(float)
    nbytes: Counter[str] = Counter()
    for each in record.polars_statistics:
        seconds[_shown_name(each.worker, cluster)] += each.seconds
        nbytes += each.nbytes
    workers = sorted(seconds, key=lambda name: (len(name), name))
    parts = [f"{name} {format_seconds(seconds[name])}" for name in workers[:_MAX_WORKERS]]
    parts += [f"and {len(workers) - _MAX_WORKERS} more workers"] if len(workers) > _MAX_WORKERS else []
    parts += [f"{format_bytes(nbytes[name])} {text}" for name, text in _MOVED.items() if nbytes[name]]
    return [f"Queries of Polars: {', '.join(parts)}."]


def _shown_name(worker: str, cluster: RunningCluster) -> str:
    """The index of a worker's GPU, or on the CPU its name in Dask."""
    return next((f"GPU {gpu.index}" for gpu in cluster.ready.gpus if gpu.uuid == worker), f"worker {worker}")


def _with_names_of_gpus(measured: CellMeasurements, cluster: RunningCluster) -> CellMeasurements:
    """Call workers by the indices of their GPUs, or on the CPU by their names in Dask, and sort them."""
    workers = [replace(worker, name=_shown_name(worker.name, cluster)) for worker in measured.workers]
    workers.sort(key=lambda worker: (len(worker.name), worker.name))  # GPU 2 before GPU 10
    return replace(measured, workers=tuple(workers))


@dataclass(repr=False)
class MeasurementsView(View):
    """The profile of a cell."""

    measured: CellMeasurements
    advice: Sequence[str]  # sentences

    def __str__(self) -> str:
        return "\n".join([format_table(*self._table()), *self._notes(), *(f"- {each}" for each in self.advice)])

    def to_html(self) -> str:
        """The table, and lists of the notes and of the advice."""
        notes = "".join(Note(text).to_html() for text in self._notes())
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.advice)
        return f"<div>{html_table(*self._table())}{notes}{f'<ul>{items}</ul>' if items else ''}</div>"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """The heads, and a row for each of the operations that took longest, with the longest first."""
        operations = self.measured.operations
        columns = [column for column in _COLUMNS if column[0] in _ALWAYS or any(map(column[1], operations.values()))]
        longest = sorted(operations.items(), key=lambda item: -_total(item[1]))[:_MAX_OPERATIONS]
        rows = [[name, *(column[2](operation) for column in columns)] for name, operation in longest]
        return ["operation", *(column[0] for column in columns)], rows

    def _notes(self) -> list[str]:
        measured = self.measured
        parts = [f"{format_seconds(measured.active)} of {format_seconds(measured.duration)} with tasks"]
        parts += [
            f"{worker.name} busy {100 * worker.busy(measured.active, on_gpus=measured.on_gpus):.0f} %"
            for worker in measured.workers[:_MAX_WORKERS]
        ]
        if len(measured.workers) > _MAX_WORKERS:
            parts.append(f"and {len(measured.workers) - _MAX_WORKERS} more workers")
        if measured.transferred:
            parts.append(f"{format_bytes(measured.transferred)} between workers")
        if measured.spilled:
            parts.append(f"{format_bytes(measured.spilled)} spilled to disk")
        if measured.unfinished:
            parts.append(f"{measured.unfinished:,} unfinished tasks are not included")
        if measured.silent:
            parts.append(f"{measured.silent} workers did not report the steps of their tasks")
        hidden = len(measured.operations) - _MAX_OPERATIONS
        return [f"and {hidden} more operations", " · ".join(parts)] if hidden > 0 else [" · ".join(parts)]


def _total(operation: Operation) -> float:
    return operation.seconds + operation.waiting + operation.between_workers + operation.spilling


def _describe_moves(operation: Operation) -> str:
    size = operation.to_gpu_bytes + operation.to_host_bytes
    if not size:
        return DASH
    seconds = operation.to_gpu_seconds + operation.to_host_seconds
    return format_bytes(size) if seconds < SHORTEST else f"{format_seconds(seconds)}, {format_bytes(size)}"


def _block_size(operation: Operation) -> str:
    return DASH if operation.block_size is None else format_bytes(round(operation.block_size))


# The head of each column, whether it has something to show for an operation, and the text of a cell.
_COLUMNS: tuple[tuple[str, Callable[[Operation], float], Callable[[Operation], str]], ...] = (
    ("blocks", lambda each: each.tasks, lambda each: f"{each.tasks:,}"),
    ("block size", lambda each: each.sized, _block_size),
    ("time", lambda each: each.seconds, lambda each: format_seconds(each.seconds)),
    ("GPU time", lambda each: each.gpu_seconds, lambda each: format_seconds(each.gpu_seconds)),
    ("waiting", lambda each: each.waiting, lambda each: format_seconds(each.waiting)),
    ("host ↔ GPU", lambda each: each.to_gpu_bytes + each.to_host_bytes, _describe_moves),
    ("between workers", lambda each: each.between_workers, lambda each: format_seconds(each.between_workers)),
    ("spilling", lambda each: each.spilling, lambda each: format_seconds(each.spilling)),
)
