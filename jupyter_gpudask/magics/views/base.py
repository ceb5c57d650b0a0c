"""What the magics show: objects with a text for terminals and HTML for notebooks."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

from IPython.display import display

from ...quantities import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distributed import Client
    from IPython.core.interactiveshell import InteractiveShell

    from ...protocol import ClusterState, GpuState, Ready, WorkerState
    from ...session.running_cluster import RunningCluster

_DASH = "–"


class View:
    """Something to look at; `str` is its text, `to_html` its HTML."""

    def to_html(self) -> str:
        """The HTML, safe to show."""
        return f"<div>{escape(str(self))}</div>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self.to_html()}

    def __repr__(self) -> str:
        return str(self)


@dataclass(repr=False)
class Note(View):
    """One quiet line."""

    STYLE: ClassVar[str] = "color: var(--jp-ui-font-color2, gray); font-size: var(--jp-ui-font-size1, 13px)"

    text: str

    def __str__(self) -> str:
        return self.text

    def to_html(self) -> str:
        """The line, smaller and in the secondary colour of the theme."""
        return f'<div style="{self.STYLE}">{escape(self.text)}</div>'


def show_note(shell: InteractiveShell, text: str) -> None:
    """Show one quiet line under the cell, or print it in a terminal."""
    if hasattr(shell, "kernel"):
        display(Note(text))
    else:
        sys.stdout.write(f"{text}\n")


@dataclass(repr=False)
class StartProgress(View):
    """How far the start is: `ready` of `total` workers, after `seconds`."""

    ready: int
    total: int
    seconds: int

    def __str__(self) -> str:
        if not self.total:
            return f"Starting a cluster ... {self.seconds} s"
        return f"Starting: {self.ready} of {self.total} workers are up ... {self.seconds} s"

    def to_html(self) -> str:
        """The line with a progress bar."""
        value = f'value="{self.ready}" max="{self.total}"' if self.total else ""
        return f'<div role="status"><progress {value} aria-label="workers"></progress> {escape(str(self))}</div>'


class ClusterView(View):
    """A cluster that was started, or runs already.

    Parameters
    ----------
    cluster
        The cluster.
    state
        What it is doing now, if it runs already.

    Attributes
    ----------
    client
        The Dask client, which is also Dask's default.
    """

    def __init__(self, cluster: RunningCluster, state: ClusterState | None = None) -> None:
        self.client: Client = cluster.client
        self._ready, self._state = cluster.ready, state
        self._spec = cluster.spec

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def to_html(self) -> str:
        """The same lines, the first in bold."""
        first, *rest = self._lines()
        return f"<div><b>{escape(first)}</b>" + "".join(f"<br>{escape(line)}" for line in rest) + "</div>"

    def _lines(self) -> list[str]:
        lines = [describe_cluster(self._ready, self._state)]
        if self._state is not None:
            lines[0] += ": it runs already"
        if self._ready.stand_in:
            lines.append(f"{self._ready.stand_in} Cells run on NumPy and pandas.")
        if self._spec.protocol == "ucx":
            lines.append("UCX knows no TLS: other users of this machine who find its ports can use this cluster.")
        elif self._ready.credentials is None:
            lines.append("This cluster has no TLS: whoever finds its ports can use it.")
        if self._ready.dashboard_port:
            address = f"http://127.0.0.1:{self._ready.dashboard_port}/status?token={self._ready.dashboard_token}"
            lines.append(f"Dask's dashboard: {address}")
        return lines


def describe_cluster(ready: Ready, state: ClusterState | None = None) -> str:
    """A cluster in a few words, such as ``2 × NVIDIA H200`` or ``CPU stand-in, 4 workers``.

    Parameters
    ----------
    ready
        What came up at its start.
    state
        What it is doing now; after a ``scale`` the GPUs that have a worker are told too: ``1 of 2 × NVIDIA H200``.
    """
    workers, gpus = ready.workers, ready.gpus
    if state is not None and state.workers_wanted:
        workers = state.workers_wanted
    if ready.engine == "cpu":
        return f"CPU stand-in, {workers} worker{'s' if workers != 1 else ''}"
    if not gpus:
        return f"{workers} GPU worker{'s' if workers != 1 else ''}"
    names = sorted({gpu.name for gpu in gpus})
    scaled = f"{workers} of " if workers < len(gpus) else ""
    return f"{scaled}{len(gpus)} × {' and '.join(names)}"


class StatusView(View):
    """What each worker of a cluster is doing, as a table.

    Attributes
    ----------
    state
        The metrics.
    """

    _HEADS = ("worker", "GPU", "busy", "device memory", "pool", "spilled", "memory", "running", "waiting", "status")

    def __init__(self, state: ClusterState) -> None:
        self.state = state

    def __str__(self) -> str:
        return format_table(self._HEADS, self._rows())

    def to_html(self) -> str:
        """The table."""
        return html_table(self._HEADS, self._rows())

    def _rows(self) -> list[tuple[str, ...]]:
        return [self._row(number, worker) for number, worker in enumerate(self.state.workers)]

    def _row(self, number: int, worker: WorkerState) -> tuple[str, ...]:
        spilled = [amount for amount in (worker.spilled_to_host, worker.spilled_to_disk) if amount is not None]
        return (
            str(number),
            _DASH if worker.gpu_index is None else str(worker.gpu_index),
            _DASH if worker.utilization is None else f"{worker.utilization:.0f} %",
            _of(worker.device_memory_used, worker.device_memory_total),
            _of(worker.pool_used, worker.pool_size),
            format_bytes(sum(spilled)) if spilled else _DASH,
            _DASH if worker.memory is None else format_bytes(worker.memory),
            str(worker.executing),
            str(worker.waiting),
            worker.status,
        )


class GpusView(View):
    """The GPUs of the machine, as a table.

    Attributes
    ----------
    gpus
        The metrics.
    holders
        Which clusters hold each, in words, by UUID.
    """

    _HEADS = ("GPU", "name", "busy", "memory", "temperature", "power", "held by", "processes")

    def __init__(self, gpus: Sequence[GpuState], holders: Mapping[str, Sequence[str]]) -> None:
        self.gpus = tuple(gpus)
        self.holders = dict(holders)

    def __str__(self) -> str:
        return format_table(self._HEADS, self._rows()) if self.gpus else "This machine has no GPU."

    def to_html(self) -> str:
        """The table."""
        return html_table(self._HEADS, self._rows()) if self.gpus else super().to_html()

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                str(gpu.index),
                gpu.name,
                _DASH if gpu.utilization is None else f"{gpu.utilization:.0f} %",
                _of(gpu.memory_used, gpu.memory_total),
                _DASH if gpu.temperature is None else f"{gpu.temperature:.0f} °C",
                _DASH if gpu.power is None else f"{gpu.power:.0f} W",
                ", ".join(self.holders.get(gpu.uuid, ())) or _DASH,
                ", ".join(
                    f"pid {process.pid}" + (f" ({format_bytes(process.memory)})" if process.memory else "")
                    for process in gpu.processes
                )
                or _DASH,
            )
            for gpu in self.gpus
        ]


class LogsView(View):
    """The last lines of some logs, by name."""

    def __init__(self, logs: dict[str, str]) -> None:
        self.logs = logs

    def __str__(self) -> str:
        return "\n\n".join(f"{name}:\n{text or '(nothing)'}" for name, text in self.logs.items())

    def to_html(self) -> str:
        """One foldable part for each log."""
        return "".join(
            f"<details><summary>{escape(name)}</summary><pre>{escape(text or '(nothing)')}</pre></details>"
            for name, text in self.logs.items()
        )


def format_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for terminals."""
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows)]
    return "\n".join(line.rstrip() for line in lines)


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], align: str = "right") -> str:
    """A table for notebooks."""
    style = f'style="text-align: {align}; padding: 0.1em 0.4em"'  # a widget's own style has no room between cells
    head = "".join(f'<th scope="col" {style}>{escape(cell)}</th>' for cell in heads)
    body = "".join("<tr>" + "".join(f"<td {style}>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _of(used: int | None, total: int | None) -> str:
    if used is None:
        return _DASH
    return format_bytes(used) if total is None else f"{format_bytes(used)} of {format_bytes(total)}"
