"""The line under a cell: progress while the cell runs, and a summary of its work on the cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from html import escape
from types import TracebackType
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell

from ..errors import GpuDaskError
from ..overlay import CellRecord
from ..quantities import format_bytes, format_count
from ..session.launch import RunningCluster
from ..session.session import Session
from .cell_reports import was_interrupted
from .output import Note, OutputLine, ProgressLine, View, format_time
from .reported_cell import ReportedCell, describe_fallback, describe_place, fallbacks_of
from .settings import MagicsSettings

if TYPE_CHECKING:
    from ..protocol.messages import Ready
    from ..protocol.state import ClusterState, WorkerState
    from .cell_details import CellDetails

_LIVE_DELAY = 2.0
_UPDATE_INTERVAL = 1.0
RESPONSE_TIMEOUT = 2.0
_INTERRUPTED_TIMEOUT = 0.5
_EARLIER_TIMEOUT = 0.5
# A new thread for each cell would take it half a millisecond to start. More than one are needed for nested cells.
_live = ThreadPoolExecutor(4, thread_name_prefix="gpudask-live")
_LIBRARIES = {"cupy": "CuPy", "cudf": "cuDF", "numpy": "NumPy", "pandas": "pandas"}

# In HTML of nbconvert, outputs without a prompt begin 12 px left of a value with one; in its classic template, outputs
# are not indented. The line begins where the output above it does. Outputs in JupyterLab have the class lm-Widget.
_CLASS = "gpudask-footer"
_ALIGNED = (
    "<style>:is(.jp-OutputArea-executeResult+*,:first-child)>:empty+.jp-OutputArea-output:not(.lm-Widget)"
    f">.{_CLASS}{{margin-left:12px}}.output_subarea>.{_CLASS}{{margin-left:-0.6em}}</style>"
)

_MAX_GPUS = 2
_JOULES_PER_WATT_HOUR = 3600
_SECONDS_PER_HOUR = 3600


class Footer:
    """Context manager of a cell; shows nothing if the cell has submitted no tasks.

    `record`: what stayed on the CPU; filled while the cell runs. `reported`: gets what is known of the cell.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        session: Session,
        cluster: RunningCluster,
        backends: tuple[str, str],
        record: CellRecord,
        *,
        reported: ReportedCell,
        settings: MagicsSettings,
    ) -> None:
        self._shell, self._line = shell, OutputLine(shell)
        self._session, self._cluster = session, cluster
        self._backends, self._record, self._settings = backends, record, settings
        self._reported = reported
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._waiting = 0

    def __enter__(self) -> None:
        # Graphs of an earlier cell that the scheduler reads still.
        self._cluster.client.wait_until_counted(_EARLIER_TIMEOUT)
        self._began = time.monotonic()
        client = self._cluster.client
        self._tasks_before = client.tasks_submitted, client.tasks_new
        self._is_measured = self._cluster.begin_cell()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        seconds = self._reported.seconds = time.monotonic() - self._began
        self._current.client.wait_until_counted(RESPONSE_TIMEOUT)
        if self._submitted or self._record.polars_queries:
            self._line.finish(self._summary(seconds), below=True)

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show the progress while the code of the cell runs; in a terminal, only while the cell waits for results."""
        client = self._cluster.client
        before, client.around_waits = client.around_waits, self._wait
        _live.submit(copy_context().run, self._show_live)  # the context of the cell, to which its output goes
        try:
            yield
        finally:
            client.around_waits = before
            self._done.set()
            with self._lock:
                self._line.clear()

    @contextmanager
    def _wait(self) -> Iterator[None]:
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                self._line.clear()

    @property
    def _tasks(self) -> tuple[int, int]:
        """The tasks that the cell has submitted, and how many of them are new."""
        clients = [self._cluster.client, *([] if self._current is self._cluster else [self._current.client])]
        submitted, new = self._tasks_before
        return sum(each.tasks_submitted for each in clients) - submitted, sum(each.tasks_new for each in clients) - new

    @property
    def _submitted(self) -> int:
        return self._tasks[0]

    @property
    def _current(self) -> RunningCluster:
        """The kernel's cluster, which the cell may have restarted."""
        return self._session.cluster or self._cluster

    def _summary(self, seconds: float) -> CellSummary:
        from ..client.calls import start_cell_metrics  # it imports Dask
        from .cell_details import CellDetails

        limit = _INTERRUPTED_TIMEOUT if was_interrupted(self._shell) else RESPONSE_TIMEOUT
        where = {"on_workers": self._is_measured, "on_scheduler": self._submitted > 0}
        metrics = start_cell_metrics(self._current.client, limit, **where)
        state = None
        with suppress(GpuDaskError):
            state = self._session.state()
        result = self._shell.last_execution_result
        # By the clock of the scheduler.
        began = state.time - (time.monotonic() - self._began) if state else 0
        ready = self._current.ready
        totals, peaks, energy = metrics()
        busiest = max(peaks, key=lambda name: peaks[name], default=None)
        self._reported.peak = None if busiest is None else peaks[busiest]
        index = next((worker.gpu_index for worker in state.workers if worker.name == busiest), None) if state else None
        fallbacks = fallbacks_of(self._record.id)
        return CellSummary(
            details=CellDetails.of(
                totals,
                seconds=seconds,
                threads=sum(worker.threads for worker in state.workers) if state else 0,
                device="GPU" if ready.has_gpus else "CPU",
                fallbacks=fallbacks,
            )
            if totals and self._line.in_notebook
            else None,
            libraries=self._libraries(),
            cluster=("the " if self._current.is_owned and not ready.has_gpus else "") + ready.describe(state),
            polars_in_kernel=bool(self._record.polars_queries) and "cudf" not in self._backends,
            seconds=seconds,
            tasks=self._tasks[1],
            cancelled=self._record.cancelled,
            fused=state.work.blocks - state.work.tasks if state else 0,
            peak=None if busiest is None else peaks[busiest],
            peak_gpu=index,
            spilled=sum(
                (each.spilled_to_host or 0) + (each.spilled_to_disk or 0) for each in (state.workers if state else ())
            ),
            energy=energy,
            cost=cost_of(self._settings, ready, seconds),
            on_host=tuple(sorted(self._record.on_host.items(), key=lambda item: item[1])),
            fallbacks=fallbacks,
            lost_hosts=tuple(lost.host for lost in state.lost_hosts if lost.time > began) if state else (),
            lost_workers=self._lost_workers(state, began),
            failed=result is not None and not result.success,
            end=state.end if state else "",
        )

    def _libraries(self) -> tuple[str, ...]:
        libraries = [_LIBRARIES[name] for name in self._backends] if self._submitted else []
        if self._record.polars_queries and "cudf" in self._backends:
            libraries.append("Polars")
        return tuple(libraries)

    def _lost_workers(self, state: ClusterState | None, began: float) -> tuple[tuple[str, str, int], ...]:
        names = {gpu.uuid: f"the worker on GPU {gpu.index}" for gpu in self._current.ready.gpus}
        reasons: dict[tuple[str, str], list[str]] = {}  # those of the memory limit have a different number each time
        for lost in state.worker_exits if state else ():
            if lost.time > began:
                name, how = names.get(lost.worker, f"worker {lost.worker}"), lost.reason * (not lost.over_memory_limit)
                reasons.setdefault((name, how), []).append(lost.reason)
        return tuple((name, each[-1], len(each)) for (name, _), each in reasons.items())

    def _show_live(self) -> None:
        if not self._line.can_change:
            return
        delay = _LIVE_DELAY
        while not self._done.wait(delay):
            delay = _UPDATE_INTERVAL
            if not self._submitted or not self._may_show:
                continue
            try:
                state = self._session.attached().state()
            except GpuDaskError:
                return
            self._reported.update(state)
            with self._lock:
                if self._may_show and self._reported.is_watched and not self._done.is_set():
                    self._line.show(CellProgress(state, time.monotonic() - self._began))

    @property
    def _may_show(self) -> bool:
        """Whether the line does not mix with the output of the cell."""
        return self._line.in_notebook or self._waiting > 0


@dataclass(repr=False)
class CellProgress(ProgressLine):
    """The progress of a cell that has run for `seconds` seconds."""

    state: ClusterState
    seconds: float

    def __str__(self) -> str:
        work = self.state.work
        parts = [f"{work.description} done", f"{self.seconds:.0f} s"]
        if work.seconds_left:
            parts.append(f"about {_format_duration(work.seconds_left)} left")
        gpus = [worker for worker in self.state.workers if worker.gpu_index is not None]
        are_few = len(gpus) <= _MAX_GPUS and len({worker.host for worker in gpus}) == 1
        parts += map(_describe_gpu, gpus) if are_few else [_describe_all(gpus)] if gpus else []
        parts += [lost.description for lost in self.state.lost_hosts]
        if self.state.without_workers:
            parts.append(f"the cluster has {self.state.without_workers}")
            parts += [job.description for job in self.state.jobs if not job.has_ended]
        parts += filter(None, [self.state.end])
        return " · ".join(parts)


@dataclass(repr=False)
class CellSummary(View):
    """The summary of a cell."""

    libraries: tuple[str, ...]  # the array and dataframe libraries that were used on the cluster
    cluster: str  # the cluster in a few words
    seconds: float  # the duration of the cell
    tasks: int  # the number of new tasks that the cell has submitted
    # peak, peak_gpu: the highest peak of allocated device memory of any GPU in bytes, and the index of that GPU
    peak: int | None
    peak_gpu: int | None
    spilled: int  # the size of the results that are spilled to host memory or disk, in bytes
    energy: float | None  # the energy that the GPUs have used, in joules
    cost: str | None  # the cost of the cell with its currency
    on_host: tuple[tuple[str, int], ...]  # names of the collections that stayed on the CPU, with their line numbers
    # operations that the GPU libraries lack: name, line number, and number of blocks that were computed on the CPU
    fallbacks: tuple[tuple[str, int, int], ...] = ()
    cancelled: int = 0  # the number of blocks that an interrupt has cancelled
    fused: int = 0  # how many more blocks than tasks that is, because some tasks compute several
    lost_hosts: tuple[str, ...] = ()  # the hosts that stopped responding while the cell ran
    # the workers whose processes ended unexpectedly while the cell ran, how, and how many times
    lost_workers: tuple[tuple[str, str, int], ...] = ()
    failed: bool = False  # whether the cell raised an error
    polars_in_kernel: bool = False  # whether queries of Polars ran on the CPU, in the kernel
    end: str = ""  # when the cluster will be closed, if that is soon
    details: CellDetails | None = None  # what the line unfolds in a notebook
    # when the cell ended, in seconds since the epoch; only the HTML has it, which a saved notebook shows
    ended: float = field(default_factory=time.time)

    def __str__(self) -> str:
        parts = [*self._places(), f"{self.seconds:.{1 if self.seconds < 100 else 0}f} s"]
        if self.tasks:
            parts.append(self._describe_tasks())
        if self.peak is not None:
            where = "" if self.peak_gpu is None else f" on GPU {self.peak_gpu}"
            parts.append(f"peak {format_bytes(self.peak)}{where}")
        if self.spilled:
            parts.append(f"{format_bytes(self.spilled)} spilled")
        if self.energy:
            parts.append(format_energy(self.energy))
        if self.cost is not None:
            parts.append(self.cost)
        on_cpu = [describe_place(name, line) for name, line in self.on_host]
        on_cpu += map(describe_fallback, self.fallbacks)
        if on_cpu:
            parts.append(f"on the CPU: {', '.join(on_cpu)}")
        if self.lost_hosts:
            machines = "machines" if len(self.lost_hosts) > 1 else "machine"
            parts.append(f"lost {machines} {', '.join(self.lost_hosts)}: the others did the work")
        if self.lost_workers:
            parts.append(self._describe_lost_workers())
        if self.end:
            parts.append(self.end)
        return " · ".join(parts)

    def _places(self) -> list[str]:
        places = [f"{_join(self.libraries)} on {self.cluster}"] if self.libraries else []
        return [*places, "Polars on the CPU of the kernel"] if self.polars_in_kernel else places

    def _describe_tasks(self) -> str:
        if not self.cancelled:
            return format_count(self.tasks, "task")
        from ..protocol.state import WorkState  # it imports pydantic

        blocks = self.tasks + self.fused
        work = WorkState(tasks=self.tasks, blocks=blocks, done=max(0, blocks - self.cancelled))
        return f"{work.description}, {self.cancelled:,} cancelled"

    def _describe_lost_workers(self) -> str:
        lost = [f"{name} ({how}{f', {n} times' if n > 1 else ''})" for name, how, n in self.lost_workers]
        again = "" if self.failed else f": {'their' if len(lost) > 1 else 'its'} work was done again"
        return f"lost {', '.join(lost)}{again}"

    def to_html(self) -> str:
        """The line with the time, formatted like a `Note`, which unfolds the details."""
        text = escape(f"{self} · {format_time(self.ended)}")
        start = f'class="{_CLASS}" style="{Note.STYLE}"'
        if self.details is None:
            return f"<div {start}>{text}</div>{_ALIGNED}"
        summary = f'<summary style="cursor: pointer; display: list-item">{text}</summary>'
        return f"<details {start}>{summary}{self.details.to_html()}</details>{_ALIGNED}"


def _join(names: tuple[str, ...]) -> str:
    """Names as a list, such as ``CuPy, cuDF and Polars``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def format_energy(joules: float) -> str:
    """Format an energy in watt-hours, such as ``0.35 Wh``."""
    hours = joules / _JOULES_PER_WATT_HOUR
    return f"{hours:,.0f} Wh" if hours >= 100 else f"{hours:.2g} Wh"


def _format_duration(seconds: float) -> str:
    """Format a duration that is only estimated, such as ``40 s``, ``3 min`` or ``1.5 h``."""
    if seconds < 90:
        return f"{max(1, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _describe_gpu(worker: WorkerState) -> str:
    busy = "" if worker.utilization is None else f" {worker.utilization:.0f} %"
    memory = "" if worker.device_memory_used is None else f" {format_bytes(worker.device_memory_used)}"
    return f"GPU {worker.gpu_index}{busy}{memory}"


def _describe_all(workers: Sequence[WorkerState]) -> str:
    """The mean utilization of the GPUs of workers, and the memory that is used of all together."""
    utilizations = [worker.utilization for worker in workers if worker.utilization is not None]
    busy = f" {sum(utilizations) / len(utilizations):.0f} %" if utilizations else ""
    used = sum(worker.device_memory_used or 0 for worker in workers)
    return f"{len(workers)} GPUs{busy}" + (f" {format_bytes(used)}" if used else "")


def cost_of(settings: MagicsSettings, ready: Ready, seconds: float) -> str | None:
    """The cost of holding the GPUs of a cluster for some seconds, such as ``0.0057 USD``; `None` without a price.

    The price is that of the kernel, or else that of the Jupyter server that holds the cluster.
    """
    set_here = bool(settings.price_per_gpu_hour)
    price, currency = (settings if set_here else ready).price_per_gpu_hour, (settings if set_here else ready).currency
    cost = price * len(ready.gpus) * seconds / _SECONDS_PER_HOUR
    if not cost:
        return None
    return f"{cost:.2f} {currency}" if cost >= 1 else f"{cost:.2g} {currency}"
