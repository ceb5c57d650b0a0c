"""The line under a cell: progress while it runs, then a summary."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...quantities import format_bytes
from .base import Note, ProgressLine, View, format_time

if TYPE_CHECKING:
    from ...protocol import ClusterState, WorkerState

_MAX_GPUS = 8
_JOULES_PER_WATT_HOUR = 3600
# With fewer finished tasks, the time that is left is not estimated.
_MIN_DONE, _MIN_SHARE = 10, 0.1


@dataclass(repr=False)
class CellProgress(ProgressLine):
    """The progress of a running cell, which has submitted `tasks` tasks in `seconds` seconds."""

    state: ClusterState
    tasks: int
    seconds: float

    def __str__(self) -> str:
        done = self._done
        parts = [f"{done:,} of {format_count(self.tasks, 'task')} done", f"{self.seconds:.0f} s"]
        if done >= max(_MIN_DONE, _MIN_SHARE * self.tasks) and done < self.tasks:
            parts.append(f"about {_format_duration(self.seconds / done * (self.tasks - done))} left")
        gpus = [worker for worker in self.state.workers if worker.gpu_index is not None]
        hosts = {worker.host for worker in gpus}
        parts += [_describe_gpu(worker, with_host=len(hosts) > 1) for worker in gpus[:_MAX_GPUS]]
        if len(gpus) > _MAX_GPUS:
            parts.append(f"and {len(gpus) - _MAX_GPUS} more GPUs")
        parts += [lost.description for lost in self.state.lost_hosts]
        if self.state.without_workers:
            parts.append(f"the cluster has {self.state.without_workers}")
            parts += [job.description for job in self.state.jobs if not job.has_ended]
        parts += filter(None, [self.state.end])
        return " · ".join(parts)

    @property
    def _done(self) -> int:
        return max(0, self.tasks - self.state.cell_tasks_unfinished)

    def progress(self) -> str:
        """The attributes of the progress bar."""
        return f'value="{self._done}" max="{self.tasks}" aria-label="tasks"'


@dataclass(repr=False)
class CellSummary(View):
    """The summary of a cell.

    Attributes
    ----------
    libraries
        The array and dataframe libraries.
    cluster
        The cluster in a few words.
    seconds
        The duration of the cell.
    tasks
        The number of tasks that the cell has submitted.
    cancelled
        The number of those that an interrupt has cancelled.
    peak, peak_gpu
        The highest peak of allocated device memory of any GPU in bytes, and the index of that GPU.
    spilled
        The size of the results that are spilled to host memory or disk, in bytes.
    energy
        The energy that the GPUs have used, in joules.
    cost
        The cost of the cell with its currency.
    on_host
        Names of the collections that stayed on the CPU, with their line numbers.
    fallbacks
        Operations that the GPU libraries lack: name, line number, and number of blocks that were computed on the CPU.
    lost_hosts
        The hosts that stopped responding while the cell ran.
    lost_workers
        The workers whose processes ended unexpectedly while the cell ran, how, and how many times.
    failed
        Whether the cell raised an error.
    end
        When the cluster will be closed, if that is soon.
    ended
        When the cell ended, in seconds since the epoch; only the HTML has it, which a saved notebook shows.
    """

    libraries: tuple[str, ...]
    cluster: str
    seconds: float
    tasks: int
    peak: int | None
    peak_gpu: int | None
    spilled: int
    energy: float | None
    cost: str | None
    on_host: tuple[tuple[str, int], ...]
    fallbacks: tuple[tuple[str, int, int], ...] = ()
    cancelled: int = 0
    lost_hosts: tuple[str, ...] = ()
    lost_workers: tuple[tuple[str, str, int], ...] = ()
    failed: bool = False
    end: str = ""
    ended: float = field(default_factory=time.time)

    def __str__(self) -> str:
        parts = [
            f"{' and '.join(self.libraries)} on {self.cluster}",
            f"{self.seconds:.{1 if self.seconds < 100 else 0}f} s",
            self._describe_tasks(),
        ]
        if self.peak is not None:
            where = "" if self.peak_gpu is None else f" on GPU {self.peak_gpu}"
            parts.append(f"peak {format_bytes(self.peak)}{where}")
        if self.spilled:
            parts.append(f"{format_bytes(self.spilled)} spilled")
        if self.energy:
            parts.append(format_energy(self.energy))
        if self.cost is not None:
            parts.append(self.cost)
        on_cpu = [_describe_place(name, line) for name, line in self.on_host]
        on_cpu += [f"{_describe_place(name, line)}, {format_count(n, 'block')}" for name, line, n in self.fallbacks]
        if on_cpu:
            parts.append(f"on the CPU: {', '.join(on_cpu)}")
        if self.lost_hosts:
            hosts = "hosts" if len(self.lost_hosts) > 1 else "host"
            parts.append(f"lost {hosts} {', '.join(self.lost_hosts)}: the others did the work")
        if self.lost_workers:
            parts.append(self._describe_lost_workers())
        if self.end:
            parts.append(self.end)
        return " · ".join(parts)

    def _describe_tasks(self) -> str:
        if not self.cancelled:
            return format_count(self.tasks, "task")
        done = max(0, self.tasks - self.cancelled)
        return f"{done:,} of {format_count(self.tasks, 'task')}, {self.cancelled:,} cancelled"

    def _describe_lost_workers(self) -> str:
        lost = [f"{name} ({how}{f', {n} times' if n > 1 else ''})" for name, how, n in self.lost_workers]
        again = "" if self.failed else f": {'their' if len(lost) > 1 else 'its'} work was done again"
        return f"lost {', '.join(lost)}{again}"

    def to_html(self) -> str:
        """The line with the time, formatted like a `Note`."""
        return Note(f"{self} · {format_time(self.ended)}").to_html()


def format_count(number: int, unit: str) -> str:
    """Format a count with its unit, such as ``1,250 tasks``."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def format_energy(joules: float) -> str:
    """Format an energy in watt-hours, such as ``0.35 Wh``."""
    hours = joules / _JOULES_PER_WATT_HOUR
    return f"{hours:,.0f} Wh" if hours >= 100 else f"{hours:.2g} Wh"


def _format_duration(seconds: float) -> str:
    """Format a duration that is only estimated, such as ``40 s``, ``3 min`` or ``1.5 h``."""
    if seconds < 90:
        return f"{max(1, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _describe_gpu(worker: WorkerState, *, with_host: bool) -> str:
    host = f"{worker.host} " if with_host else ""
    busy = "" if worker.utilization is None else f" {worker.utilization:.0f} %"
    memory = "" if worker.device_memory_used is None else f" {format_bytes(worker.device_memory_used)}"
    return f"{host}GPU {worker.gpu_index}{busy}{memory}"


def _describe_place(name: str, line: int) -> str:
    return f"{name} (line {line})" if line else name
