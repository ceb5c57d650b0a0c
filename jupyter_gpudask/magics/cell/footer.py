"""The line under a cell: progress while the cell runs, and a summary of its work on the cluster."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING

from ...errors import GpuDaskError
from ...fallback.log import fallback_log
from ..views.cell import CellProgress, CellSummary
from ..views.cluster import describe_cluster
from ..views.output_line import OutputLine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from IPython.core.interactiveshell import InteractiveShell

    from ...overlay.cell_record import CellRecord
    from ...protocol import ClusterState
    from ...session.running_cluster import RunningCluster
    from ...session.session import Session
    from .interrupt import Interruption
    from .price import Price

_LIVE_DELAY = 2.0
_UPDATE_INTERVAL = 1.0
_RESPONSE_TIMEOUT = 2.0
_EARLIER_TIMEOUT = 0.5
# A new thread for each cell would take it half a millisecond to start. More than one are needed for nested cells.
_live = ThreadPoolExecutor(4, thread_name_prefix="gpudask-live")
_LIBRARIES = {"cupy": "CuPy", "cudf": "cuDF", "numpy": "NumPy", "pandas": "pandas"}


class Footer:
    """Context manager of a cell; shows nothing if the cell has submitted no tasks.

    Parameters
    ----------
    shell
        The shell that runs the cell.
    session, cluster
        The kernel's cluster.
    backends
        The array and dataframe backends of the cell.
    record
        What stayed on the CPU; filled while the cell runs.
    interruption
        What an interrupt has cancelled; known when the cell ends.
    price
        For the cost of the cell.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        session: Session,
        cluster: RunningCluster,
        backends: tuple[str, str],
        record: CellRecord,
        *,
        interruption: Interruption,
        price: Price,
    ) -> None:
        self._shell, self._line = shell, OutputLine(shell)
        self._session, self._cluster = session, cluster
        self._backends, self._record, self._price = backends, record, price
        self._interruption = interruption
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._waiting = 0

    def __enter__(self) -> None:
        self._cluster.wait_until_counted(_EARLIER_TIMEOUT)  # graphs of an earlier cell that the scheduler reads still
        self._began = time.monotonic()
        self._submitted_before = self._cluster.tasks_submitted
        self._metrics = self._cluster.begin_cell()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        seconds = time.monotonic() - self._began
        self._current.wait_until_counted(_RESPONSE_TIMEOUT)
        if self._submitted:
            self._line.finish(self._summary(seconds))

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
    def _submitted(self) -> int:
        submitted = self._cluster.tasks_submitted - self._submitted_before
        return submitted if self._current is self._cluster else submitted + self._current.tasks_submitted

    @property
    def _current(self) -> RunningCluster:
        """The kernel's cluster, which the cell may have restarted."""
        return self._session.cluster or self._cluster

    def _summary(self, seconds: float) -> CellSummary:
        state = None
        with suppress(GpuDaskError):
            state = self._session.state()
        result = self._shell.last_execution_result
        # By the clock of the scheduler.
        began = state.time - (time.monotonic() - self._began) if state else 0
        ready = self._current.ready
        metrics = self._metrics
        if metrics is not None:
            metrics.finish(self._current.client, _RESPONSE_TIMEOUT)
        peaks = {} if metrics is None else metrics.peaks
        busiest = max(peaks, key=lambda name: peaks[name], default=None)
        index = next((worker.gpu_index for worker in state.workers if worker.name == busiest), None) if state else None
        return CellSummary(
            libraries=tuple(_LIBRARIES[name] for name in self._backends),
            cluster=("the " if ready.engine == "cpu" and self._current.is_owned else "")
            + describe_cluster(ready, state),
            seconds=seconds,
            tasks=self._submitted,
            cancelled=self._interruption.cancelled or 0,
            peak=None if busiest is None else peaks[busiest],
            peak_gpu=index,
            spilled=_spilled(state),
            energy=None if metrics is None else metrics.energy,
            cost=self._price.cost(len(ready.gpus), seconds),
            on_host=tuple(sorted(self._record.on_host.items(), key=lambda item: item[1])),
            fallbacks=self._fallbacks(),
            lost_hosts=tuple(lost.host for lost in state.lost_hosts if lost.time > began) if state else (),
            lost_workers=self._lost_workers(state, began),
            failed=result is not None and not result.success,
            end=state.end if state else "",
        )

    def _lost_workers(self, state: ClusterState | None, began: float) -> tuple[tuple[str, str, int], ...]:
        names = {gpu.uuid: f"the worker on GPU {gpu.index}" for gpu in self._current.ready.gpus}
        reasons: dict[tuple[str, str], list[str]] = {}  # those of the memory limit have a different number each time
        for lost in state.worker_exits if state else ():
            if lost.time > began:
                name, how = names.get(lost.worker, f"worker {lost.worker}"), lost.reason * (not lost.over_memory_limit)
                reasons.setdefault((name, how), []).append(lost.reason)
        return tuple((name, each[-1], len(each)) for (name, _), each in reasons.items())

    def _fallbacks(self) -> tuple[tuple[str, int, int], ...]:
        blocks: Counter[tuple[str, int]] = Counter()
        for place, number in fallback_log.blocks_of(self._record.id).items():
            blocks[place.operation, place.line] += number
        return tuple((operation, line, number) for (operation, line), number in sorted(blocks.items(), key=_by_line))

    def _show_live(self) -> None:
        if not self._line.can_change:
            return
        delay = _LIVE_DELAY
        while not self._done.wait(delay):
            delay = _UPDATE_INTERVAL
            if not self._submitted or not self._may_show:
                continue
            try:
                state = self._session.state()
            except GpuDaskError:
                return
            with self._lock:
                if self._may_show and not self._done.is_set():
                    self._line.show(CellProgress(state, self._submitted, time.monotonic() - self._began))

    @property
    def _may_show(self) -> bool:
        """Whether the line does not mix with the output of the cell."""
        return self._line.in_notebook or self._waiting > 0


def _by_line(item: tuple[tuple[str, int], int]) -> tuple[int, str]:
    (operation, line), _ = item
    return line, operation


def _spilled(state: ClusterState | None) -> int:
    workers = state.workers if state else ()
    return sum((worker.spilled_to_host or 0) + (worker.spilled_to_disk or 0) for worker in workers)
