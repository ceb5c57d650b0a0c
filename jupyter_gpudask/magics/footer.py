"""The line under a cell that says what it did on the cluster; while the cell runs longer, what it is doing."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING

from IPython.display import display

from ..errors import GpuDaskError
from .cell_views import CellProgress, CellSummary
from .views import View, describe_cluster

if TYPE_CHECKING:
    from types import TracebackType

    from IPython.core.display_functions import DisplayHandle
    from IPython.core.interactiveshell import InteractiveShell

    from ..models import ClusterState
    from .running import RunningCluster
    from .session import Session

_QUIET = 2.0
_INTERVAL = 1.0
_PATIENCE = 2.0
_LIBRARIES = {"cupy": "CuPy", "cudf": "cuDF", "numpy": "NumPy", "pandas": "pandas"}


class Footer:
    """Around a cell; shows nothing if the cell gave the cluster nothing to do.

    Parameters
    ----------
    shell
        Where the cell runs.
    session, cluster
        Its cluster.
    backends
        What arrays and dataframes are made of in the cell.
    on_host
        Collections that stayed on the CPU, by name, with the line; filled while the cell runs.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        session: Session,
        cluster: RunningCluster,
        backends: tuple[str, str],
        on_host: dict[str, int],
    ) -> None:
        self._in_notebook = hasattr(shell, "kernel")
        self._session, self._cluster = session, cluster
        self._backends, self._on_host = backends, on_host
        self._handle: DisplayHandle | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._began = time.monotonic()
        self._submitted_before = self._cluster.tasks_submitted
        self._cluster.forget_peaks()
        context = copy_context()  # what a thread displays goes to the cell in whose context it runs
        threading.Thread(target=context.run, args=(self._show_live,), name="gpudask-live", daemon=True).start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        seconds = time.monotonic() - self._began
        self._over.set()
        self._current.wait_until_counted(_PATIENCE)
        with self._lock:
            if self._submitted:
                self._show(self._summary(seconds), last=True)

    @property
    def _submitted(self) -> int:
        submitted = self._cluster.tasks_submitted - self._submitted_before
        return submitted if self._current is self._cluster else submitted + self._current.tasks_submitted

    @property
    def _current(self) -> RunningCluster:
        """The kernel's cluster, which the cell may have replaced by another."""
        return self._session.cluster or self._cluster

    def _summary(self, seconds: float) -> CellSummary:
        state = None
        with suppress(GpuDaskError):
            state = self._session.state()
        ready = self._current.ready
        peaks = self._current.take_peaks(_PATIENCE)
        busiest = max(peaks, key=lambda name: peaks[name], default=None)
        index = next((worker.gpu_index for worker in state.workers if worker.name == busiest), None) if state else None
        return CellSummary(
            libraries=tuple(_LIBRARIES[name] for name in self._backends),
            cluster=("the " if ready.engine == "cpu" else "")
            + describe_cluster(ready.engine, ready.workers, ready.gpus),
            seconds=seconds,
            tasks=self._submitted,
            peak=None if busiest is None else peaks[busiest],
            peak_gpu=index,
            spilled=_spilled(state),
            on_host=tuple(sorted(self._on_host.items(), key=lambda item: item[1])),
        )

    def _show_live(self) -> None:
        if not self._in_notebook and not sys.stdout.isatty():
            return
        patience = _QUIET
        while not self._over.wait(patience):
            patience = _INTERVAL
            if not self._submitted:
                continue
            try:
                state = self._session.state()
            except GpuDaskError:
                return
            with self._lock:
                if not self._over.is_set():
                    self._show(CellProgress(state, self._submitted, time.monotonic() - self._began), last=False)

    def _show(self, view: View, *, last: bool) -> None:
        if not self._in_notebook:
            clear = "\r\x1b[K" if sys.stdout.isatty() else ""
            sys.stdout.write(f"{clear}{view}" + ("\n" if last else ""))
            sys.stdout.flush()
        elif self._handle is None:
            self._handle = display(view, display_id=True)
        else:
            self._handle.update(view)


def _spilled(state: ClusterState | None) -> int:
    workers = state.workers if state else ()
    return sum((worker.spilled_to_host or 0) + (worker.spilled_to_disk or 0) for worker in workers)
