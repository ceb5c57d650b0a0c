"""Tables of ``%gpudask status``, ``gpus`` and ``logs``."""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING

from ...quantities import format_bytes
from .base import View, format_table, html_table, state_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...protocol import ClusterState, GpuState, JoinedState, WorkerState

_DASH = "–"


class StatusView(View):
    """The state of each worker, as a table; grouped by host if the cluster has several or somebody else started it.

    In the latter case the columns ``running`` and ``assigned`` count the tasks of this kernel, ``others`` those of
    other clients.

    Attributes
    ----------
    state
        The state of the cluster.
    """

    _HEADS = ("worker", "GPU", "busy", "device memory", "pool", "spilled", "memory", "running", "assigned", "status")

    def __init__(self, state: ClusterState) -> None:
        self.state = state

    def __str__(self) -> str:
        return "\n".join([format_table(*self._table()), *self._notes(), state_at(self.state.time)])

    def to_html(self) -> str:
        """The table."""
        table = html_table(*self._table(), caption=state_at(self.state.time))
        return table + "".join(f"<div>{escape(note)}</div>" for note in self._notes())

    def _table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The heads and the rows."""
        rows = [_row(number, worker) for number, worker in enumerate(self.state.workers)]
        hosts = [worker.host for worker in self.state.workers]
        joined = _as_joined(self.state)
        if joined is None:
            return _with_hosts(self._HEADS, rows, hosts) if len(set(hosts)) > 1 else (self._HEADS, rows)
        rows = [(*row[:-1], str(worker.others), row[-1]) for row, worker in zip(rows, joined.workers, strict=True)]
        return _with_hosts((*self._HEADS[:-1], "others", self._HEADS[-1]), rows, hosts)

    def _notes(self) -> list[str]:
        """What the table does not show: lost hosts, jobs without a worker, adaptive scaling, tasks of others."""
        state = self.state
        notes = list(state.notes)
        if state.adaptive_range is not None:
            notes.append("Adaptive: {} to {} workers, as the work requires.".format(*state.adaptive_range))
        joined = _as_joined(state)
        if joined is not None:
            tasks = f"{joined.tasks_unfinished:,} of this kernel, {joined.others_unfinished:,} of others"
            notes.append(f"Unfinished tasks: {tasks}.")
        return notes


def _row(number: int, worker: WorkerState) -> tuple[str, ...]:
    spilled = [amount for amount in (worker.spilled_to_host, worker.spilled_to_disk) if amount is not None]
    return (
        str(number),
        _DASH if worker.gpu_index is None else str(worker.gpu_index),
        _DASH if worker.utilization is None else f"{worker.utilization:.0f} %",
        _used_of(worker.device_memory_used, worker.device_memory_total),
        _used_of(worker.pool_used, worker.pool_size),
        format_bytes(sum(spilled)) if spilled else _DASH,
        _DASH if worker.memory is None else format_bytes(worker.memory),
        str(worker.executing),
        str(worker.waiting),
        "ok" if worker.status == "running" else worker.status,
    )


def _as_joined(state: ClusterState) -> JoinedState | None:
    from ...protocol import JoinedState

    return state if isinstance(state, JoinedState) else None


def _with_hosts(
    heads: tuple[str, ...], rows: list[tuple[str, ...]], hosts: list[str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A first column ``host``, which is given once for adjacent rows of a host."""
    wider = [("" if host == last else host, *row) for row, host, last in zip(rows, hosts, ["", *hosts], strict=False)]
    return ("host", *heads), wider


class GpusView(View):
    """The GPUs of the machine, as a table.

    Attributes
    ----------
    gpus
        The GPUs with their metrics.
    holders
        The clusters that hold each GPU, in words, by UUID.
    """

    _HEADS = ("GPU", "name", "busy", "memory", "temperature", "power", "held by", "processes")

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
                _DASH if gpu.utilization is None else f"{gpu.utilization:.0f} %",
                _used_of(gpu.memory_used, gpu.memory_total),
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
    """The last lines of logs, by name of the worker."""

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
        return _DASH
    return format_bytes(used) if total is None else f"{format_bytes(used)} of {format_bytes(total)}"
