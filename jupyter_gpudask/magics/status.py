"""What the commands of ``%gpudask`` show; in a notebook, ``status`` is updated every second."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from IPython.display import display, update_display

from ..errors import GpuDaskError, NoClusterError
from ..quantities import format_bytes
from .output import DASH, FONT_SIZE, Note, TableView, View, format_table, html_table, state_at

if TYPE_CHECKING:
    from ..client.calls import HeldReport
    from ..protocol.state import ClusterState, GpuState, WorkerState

_REST = "(no variable)"

_UPDATE_INTERVAL = 1.0


class StatusView(View):
    """The state of each worker, as a table; grouped by host if the cluster has several or somebody else started it.

    The column ``status`` is there only if a worker does not run as it should.

    In the latter case the columns ``running`` and ``assigned`` count the tasks of this kernel, ``others`` those of
    other clients.
    """

    _HEADS = ("worker", "busy", "device memory", "pool", "spilled", "memory", "running", "assigned")

    def __init__(self, state: ClusterState) -> None:
        self.state = state

    def __str__(self) -> str:
        return "\n".join([format_table(*self._table()), *self._notes(), state_at(self.state.time)])

    def to_html(self) -> str:
        """The table."""
        table = html_table(*self._table())
        # As large in saved HTML as in a widget.
        style = f'style="font-size: {FONT_SIZE}; line-height: 1.4"'
        return table + "".join(
            f"<div {style}>{escape(note)}</div>" for note in [*self._notes(), state_at(self.state.time)]
        )

    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        from ..protocol.state import names_of

        workers = self.state.workers
        heads: tuple[str, ...] = self._HEADS
        names = names_of(workers, with_hosts=False)  # they have a column
        rows = [_row(name, worker) for name, worker in zip(names, workers, strict=True)]
        is_joined = self.state.others_unfinished is not None
        if is_joined:
            heads = (*heads, "others")
            rows = [(*row, str(worker.others)) for row, worker in zip(rows, workers, strict=True)]
        if any(worker.status != "running" for worker in workers):
            heads = (*heads, "status")
            status = ["ok" if worker.status == "running" else worker.status for worker in workers]
            rows = [(*row, each) for row, each in zip(rows, status, strict=True)]
        hosts = [worker.host for worker in workers]
        return _with_hosts(heads, rows, hosts) if is_joined or len(set(hosts)) > 1 else (heads, rows)

    def _notes(self) -> list[str]:
        """What the table does not show: all tasks, lost hosts, jobs without a worker, adaptive scaling."""
        state = self.state
        running = sum(worker.executing for worker in state.workers)
        waiting = max(0, state.tasks_unfinished - running)
        notes = [f"Tasks: {running:,} running, {waiting:,} waiting.", *state.notes]
        if state.adaptive_range is not None:
            notes.append("Adaptive: {} to {} workers, as the work requires.".format(*state.adaptive_range))
        if state.others_unfinished is not None:
            notes.append(f"Unfinished tasks of others: {state.others_unfinished:,}.")
        return notes


def _row(name: str, worker: WorkerState) -> tuple[str, ...]:
    spilled = [amount for amount in (worker.spilled_to_host, worker.spilled_to_disk) if amount is not None]
    return (
        name,
        DASH if worker.utilization is None else f"{worker.utilization:.0f} %",
        _used_of(worker.device_memory_used, worker.device_memory_total),
        _used_of(worker.pool_used, worker.pool_size),
        format_bytes(sum(spilled)) if spilled else DASH,
        DASH if worker.memory is None else format_bytes(worker.memory),
        str(worker.executing),
        str(worker.waiting),
    )


def _with_hosts(
    heads: tuple[str, ...], rows: list[tuple[str, ...]], hosts: list[str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A first column ``host``, which is given once for adjacent rows of a host."""
    wider = [("" if host == last else host, *row) for row, host, last in zip(rows, hosts, ["", *hosts], strict=False)]
    return ("host", *heads), wider


class GpusView(View):
    """The GPUs of the machine with their metrics, and by UUID the clusters that have reserved them, as a table."""

    _HEADS = ("GPU", "name", "busy", "memory", "temperature", "power", "reserved by", "processes")

    def __init__(self, gpus: Sequence[GpuState], holders: Mapping[str, Sequence[str]]) -> None:
        self.gpus = tuple(gpus)
        self.holders = dict(holders)
        self._caption = state_at(time.time())

    def __str__(self) -> str:
        if not self.gpus:
            return "This machine has no GPU."
        return f"{format_table(self._HEADS, self._rows())}\n{self._caption}"

    def to_html(self) -> str:
        """The table."""
        return html_table(self._HEADS, self._rows(), caption=self._caption) if self.gpus else super().to_html()

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                str(gpu.index),
                gpu.name,
                DASH if gpu.utilization is None else f"{gpu.utilization:.0f} %",
                _used_of(gpu.memory_used, gpu.memory_total),
                DASH if gpu.temperature is None else f"{gpu.temperature:.0f} °C",
                DASH if gpu.power is None else f"{gpu.power:.0f} W",
                ", ".join(self.holders.get(gpu.uuid, ())) or DASH,
                ", ".join(
                    f"pid {process.pid}" + (f" ({format_bytes(process.memory)})" if process.memory else "")
                    for process in gpu.processes
                )
                or DASH,
            )
            for gpu in self.gpus
        ]


class HeldView(TableView):
    """The results on the workers.

    - `total`: their size in bytes, each counted once.
    - `workers`: their size on each worker in bytes, by the worker's name in Dask.
    - `variables`: the size of the results that each variable holds, in bytes.
    - `polars`: the device memory that Polars' engine keeps, in bytes; `None` without an engine.
    """

    def __init__(
        self,
        report: HeldReport,
        gpus: Mapping[str, int | None],
        deleted: Sequence[str],
        *,
        polars: int | None = None,
    ) -> None:
        self.polars = polars
        self.total = report.total
        order = [*gpus, *report.workers]  # a worker may have been added since
        self.workers = {name: report.workers[name] for name in dict.fromkeys(order) if name in report.workers}
        rows = sorted(((name, *counts) for name, counts in report.counts.items() if counts[0]), key=lambda row: -row[2])
        self.variables = {name: size for name, _, size in rows if name}
        self._rows = [(name or _REST, f"{number:,}", format_bytes(size)) for name, number, size in rows]
        self._before = [f"Deleted: {', '.join(deleted)}."] if deleted else []
        self._before.append(self._describe(gpus))
        names = ",".join(list(self.variables)[:2])
        self._after = [f"To release results, type: %gpudask held --release {names}"] if names else []
        if report.counts.get("", (0, 0))[0]:
            self._after.append("Values of earlier cells may hold the others. To delete them, type: %reset -f out")
        if polars is not None:
            kept = "no device memory" if not polars else f"{format_bytes(polars)} of device memory"
            self._after.append(f"Polars' engine keeps {kept}. To end it, type: %gpudask free")

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        return ("variable", "results", "size"), self._rows

    def _lines(self) -> tuple[list[str], list[str]]:
        return self._before, self._after

    def _describe(self, gpus: Mapping[str, int | None]) -> str:
        if not self.total:
            return "The workers hold no results."
        names = {name: f"worker {name}" if gpus.get(name) is None else f"GPU {gpus[name]}" for name in self.workers}
        places = [f"{names[name]} {format_bytes(size)}" for name, size in self.workers.items() if size]
        return f"The workers hold {format_bytes(self.total)} of results: {', '.join(places)}."


class FreeView(View):
    """How much device memory was released, by GPU of a worker and for the kernel, and how much is still in use."""

    def __init__(self, freed: dict[str, int], workers: tuple[WorkerState, ...], *, pool: bool) -> None:
        self.freed = freed
        self._workers = workers
        self._pool = pool

    def __str__(self) -> str:
        lines = [f"{format_bytes(sum(self.freed.values()))} of device memory freed."]
        lines += [f"  {name}: {format_bytes(freed)}" for name, freed in self.freed.items() if freed]
        in_use = sum(worker.pool_used or 0 for worker in self._workers)
        if in_use:
            lines.append(
                f"{format_bytes(in_use)} is in use by results on the workers. "
                "To see which variables hold them, type: %gpudask held"
            )
        if self._pool:
            lines.append("The pool stays reserved. To release it, type: %gpudask restart --pool none")
        return "\n".join(lines)

    def to_html(self) -> str:
        """The lines, with their indentation."""
        return f'<div style="white-space: pre-wrap">{escape(str(self))}</div>'


@dataclass(frozen=True)
class FallbackRow:
    """An operation that ran on the CPU."""

    operation: str  # the name of the function
    line: int  # the line of its cell; 0 if it is not known
    blocks: int  # the number of blocks or partitions
    seconds: float  # the sum of the times of the blocks, with the copies of the data
    reason: str  # the error in which CuPy or cuDF said that they lack it


class FallbacksView(TableView):
    """The operations as a table, those with the longest time first."""

    def __init__(self, fallbacks: Sequence[FallbackRow]) -> None:
        self.fallbacks = tuple(fallbacks)

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        rows = self.fallbacks
        return ("operation", "line", "blocks", "seconds", "what the library said"), [
            (row.operation, str(row.line or ""), f"{row.blocks:,}", f"{row.seconds:.2f}", row.reason) for row in rows
        ]


class LogsView(View):
    """The last lines of logs, by the GPU of the worker, or by its name."""

    def __init__(self, logs: dict[str, str]) -> None:
        self.logs = logs

    def __str__(self) -> str:
        return "\n\n".join(f"{name}:\n{text or '(empty)'}" for name, text in self.logs.items())

    def to_html(self) -> str:
        """A collapsible section for each log."""
        return "".join(
            f"<details><summary>{escape(name)}</summary><pre>{escape(text or '(empty)')}</pre></details>"
            for name, text in self.logs.items()
        )


def _used_of(used: int | None, total: int | None) -> str:
    if used is None:
        return DASH
    if total is None:
        return format_bytes(used)
    (number, unit), whole = format_bytes(used).split(), format_bytes(total)
    return f"{number} of {whole}" if whole.endswith(f" {unit}") else f"{number} {unit} of {whole}"


class LiveStatusView(StatusView):
    """The state of each worker, updated every second until another one is shown or the cluster is closed.

    Then it becomes a plain table, because JupyterLab cannot show a widget after its kernel has shut down.

    `state`: the state at first. Front ends without widgets show it, and so does a notebook that is saved meanwhile: the
    server extension removes the widget from the saved file.
    """

    _newest: LiveStatusView | None = None

    def __init__(self, state: ClusterState, read: Callable[[], ClusterState]) -> None:
        super().__init__(state)
        self._read = read
        self._display_id = uuid.uuid4().hex
        self._last: dict[str, Any] | None = None
        self.widget: Any = None

    def _ipython_display_(self) -> None:
        from ..protocol.rest import LIVE_OUTPUT

        live = {} if self._last else {LIVE_OUTPUT: {"live": True}}
        display(self._repr_mimebundle_(), metadata=live, raw=True, display_id=self._display_id)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return self._last or {**super()._repr_mimebundle_(**options), **self._live_bundle()}

    def _live_bundle(self) -> dict[str, Any]:
        import ipywidgets

        if self.widget is None:
            self.widget = ipywidgets.HTML(self.to_html())
            # The rules and colors that the theme gives to tables of other outputs.
            self.widget.add_class("jp-RenderedHTMLCommon")
            LiveStatusView._newest = self
            threading.Thread(target=self._refresh, name="gpudask-status", daemon=True).start()
        bundle: dict[str, Any] = self.widget._repr_mimebundle_() or {}
        return {kind: data for kind, data in bundle.items() if kind != "text/plain"}

    def _refresh(self) -> None:
        shown = StatusView(self.state)
        text = str(shown)
        while LiveStatusView._newest is self:
            time.sleep(_UPDATE_INTERVAL)
            try:
                shown = StatusView(self._read())
            except NoClusterError:  # closed by the user: the last state is final, and says when it was
                break
            except GpuDaskError as error:
                ended = StatusView(shown.state.model_copy(update={"closes_at": None}))  # what was announced has come
                note = Note(error.reason)
                text = f"{ended}\n{note}"
                self.widget.value = ended.to_html() + note.to_html()
                break
            text = str(shown)
            self.widget.value = shown.to_html()
        self._last = {"text/plain": text, "text/html": self.widget.value}
        update_display(self._last, raw=True, display_id=self._display_id)
        self.widget.close()
