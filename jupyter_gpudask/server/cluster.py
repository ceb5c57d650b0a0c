"""A cluster: its status, its supervisor process and the last reported state of its workers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import ClusterLostError, GpuDaskError
from ..launcher.cluster import ClusterConnection, ClusterProcess
from ..protocol.messages import Interpreter, Progress, Ready, refusal
from ..protocol.rest import Status, shared_name
from ..protocol.spec import ClusterSpec
from ..protocol.state import CellRun, ClusterState
from ..protocol.verbs import SUPERVISOR, Command, EndReason

logger = logging.getLogger(__name__)

ChangeCallback = Callable[["KernelCluster"], None]

_MAX_CELLS = 6  # five that have ended, and one that runs
_STATE_AGE = 0.2
"""Age in seconds up to which a state is current."""


@dataclass(frozen=True)
class Notice:
    """A notice that a cluster's GPUs are wanted.

    - `user`: who waits for them: ``user anna since 14:05``, or a notebook of the same user.
    - `deadline`: when they are given over, in seconds since the epoch.
    - `ends`: the same, on the clock of `time.monotonic`.
    """

    user: str
    deadline: float
    ends: float


_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")


def dashboard_origin(address: str) -> str | None:
    """Scheme, host and port of a dashboard, such as ``http://10.0.0.1:8787``; `None` if the address has none."""
    match = _ORIGIN.match(address)
    if match is None or address[match.end() :][:1] not in ("", "/") or not 0 < int(match[1]) < 2**16:
        return None
    return match[0]


class KernelCluster:
    """A cluster, which is used once: a restart creates a new one.

    - `kernel_id`: its kernel; for a shared cluster, which belongs to none, an id of `shared_id`.
    - `on_change`: called after every change of the status, the progress of the start, or the state of the workers.
    - `joined`: the connection to the kernel, which answers for a cluster that somebody else started.

    - `status`: ``starting``, then ``ready``, ``closing`` and ``closed``; or ``failed``.
    - `created`, `since`: when the start was requested, and when the cluster got this status, in seconds since the
      epoch.
    - `error`: why the cluster failed or was closed; `None` if it did not fail, and if the user closed it.
    - `process`: the supervisor process; `None` unless the cluster is ready.
    - `interpreter`: the interpreter and environment that the supervisor runs with; `None` until they are known.
    - `progress`: how many workers have started; `None` before the supervisor reports it.
    - `name`: the name of a shared cluster; empty for a kernel's.
    - `users`: the kernels that are connected to a shared cluster of this server.
    - `shared`: the shared cluster of this server to which the kernel is connected; `None` for others.
    - `joined`: the place of the scheduler, if somebody else started the cluster and the kernel is connected to it.
    - `dashboard`: scheme, host and port of the dashboard of such a cluster; `None` if it is off.
    - `dashboard_token`: what this dashboard requires; empty if it requires nothing.
    - `automatic`: whether the kernel runs every cell as if ``%%gpudask`` stood above it.
    - `unused`: whether its kernel was restarted, and since then no cell was reported, and no task or result was seen.
    - `last_busy`: when the cluster last had work, on the clock of `time.monotonic`.
    - `notice`: the notice that its GPUs are wanted and are given over; `None` if they are not.
    - `closes_at`: when the cluster will be closed at the end of its maximum lifetime, in seconds since the epoch;
      `None` until its user is warned.
    - `secret`: the secret that Dask's dashboard requires in the header of each request. For the dashboard of a cluster
      that somebody else started, it is in the path at the Jupyter server.
    """

    def __init__(
        self, kernel_id: str, spec: ClusterSpec, on_change: ChangeCallback, joined: ClusterConnection | None = None
    ) -> None:
        self.kernel_id = kernel_id
        self.spec = spec
        self.status: Status = "starting" if joined is None else "ready"
        self.created = self.since = time.time()
        self.error: GpuDaskError | None = None
        self.process: ClusterConnection | None = joined
        self._failed_process: ClusterConnection | None = None
        self.interpreter: Interpreter | None = None
        self.progress: Progress | None = None
        self.closes_at: float | None = None
        self._state: ClusterState | None = None
        self.name = shared_name(kernel_id)
        self.users: set[str] = set()
        self.shared: KernelCluster | None = None
        self.joined = "" if joined is None else joined.ready.place
        self.dashboard = None if joined is None else dashboard_origin(joined.ready.dashboard)
        self.dashboard_token = "" if joined is None else joined.ready.dashboard_token
        self.automatic = False
        self.unused = False
        self.last_busy = time.monotonic()
        self.notice: Notice | None = None
        self.secret = secrets.token_urlsafe(32)
        self._cells: deque[CellRun] = deque(maxlen=_MAX_CELLS)
        self._holder = ""
        self._updated = 0.0
        self._resetting = asyncio.Lock()
        self._observers: list[ChangeCallback] = [on_change]

    @property
    def ready(self) -> Ready | None:
        """The supervisor's report of the running cluster; `None` unless the cluster is ready."""
        return self.process.ready if self.process is not None else None

    @property
    def state(self) -> ClusterState | None:
        """The last reported state of the workers, and when the cluster will be closed."""
        return None if self._state is None else self._state.model_copy(update={"closes_at": self.closes_at})

    @state.setter
    def state(self, state: ClusterState | None) -> None:
        self._state = state

    @property
    def kernel_ids(self) -> tuple[str, ...]:
        """The kernels that use it."""
        return (self.kernel_id, *sorted(self.users))

    @property
    def has_dashboard(self) -> bool:
        """Whether the cluster is ready and has a dashboard."""
        ready = (self.shared or self).ready
        return ready is not None and bool(ready.dashboard_port or self.dashboard)

    def check_possible(self, action: str) -> None:
        """Raise `NotOwnedError` if the cluster is of somebody else, and does not support an action."""
        if self.joined and self.ready is not None and action in self.ready.limits:
            raise refusal(self.joined, action)

    @property
    def alive(self) -> bool:
        """Whether the cluster is starting or ready."""
        return self.status in ("starting", "ready")

    @property
    def cells(self) -> tuple[CellRun, ...]:
        """The last cells that its kernel has reported, the newest last, which may be running."""
        return tuple(self._cells)

    def add_cell(self, cell: CellRun) -> None:
        """Keep a cell that its kernel has reported, in place of an earlier report of it."""
        if self._cells and self._cells[-1].began == cell.began:
            self._cells.pop()
        self._cells.append(cell)

    def end_cell(self) -> CellRun | None:
        """End the cell that runs, if there is one, as failed: its kernel will not report its end."""
        if not self._cells or self._cells[-1].seconds is not None:
            return None
        cell = self._cells[-1]
        self._cells[-1] = cell.model_copy(update={"seconds": max(0.0, time.time() - cell.began), "failed": True})
        return self._cells[-1]

    def observe(self, observer: ChangeCallback) -> Callable[[], None]:
        """Call `observer` as `on_change` is called, until the returned function is called."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    async def start(self, interpreter: Interpreter, *, holder: str, **limits: Any) -> None:
        """Start the cluster and wait until it is ready; if that fails or is cancelled, no process is left.

        - `holder`: the name under which other notebooks see the GPU lease.
        - `**limits`: the other fields of `jupyter_gpudask.protocol.Start`.
        """
        self._holder, self.interpreter = holder, interpreter
        own = interpreter.environment
        environment = self.spec.shared_environment(own) if self.name else own
        process = await ClusterProcess.start(
            self.spec,
            **vars(interpreter) | {"environment": environment},
            holder=holder,
            kernel_id=self.kernel_id,
            gpu_metrics=False,  # the server reads them once for all clusters
            dashboard_secret=self.secret,
            on_progress=self._on_progress,
            on_lost=self._on_lost,
            **limits,
        )
        if not process.running:  # it ended right after its start
            ended = ClusterLostError("ended-after-start", log=process.log())
            await process.close()
            raise self.error or ended
        self.process = process
        self.last_busy = time.monotonic()  # the duration of the start does not count as idle time
        self._set_status("ready")

    def fail(self, error: GpuDaskError) -> None:
        """Set the status to ``failed``."""
        self.error = error
        self._set_status("failed")

    def mark_closing(self, error: GpuDaskError | None) -> None:
        """Set the status to ``closing``, before `close`; `error` is the reason, unless the user closed the cluster."""
        self.error = error
        self._set_status("closing")

    async def close(self, reason: EndReason = "stopped") -> None:
        """Close the cluster if it is running, or what is left of it if it has failed; takes at most 6 seconds."""
        process, self.process, self._failed_process = self.process or self._failed_process, None, None
        if process is not None:
            await process.close(reason)
        if self.status != "failed":
            self._set_status("closed")

    def request_states(self, interval: float) -> None:
        """Have the supervisor report the state of the workers every `interval` seconds; 0 stops the reports."""
        if self.process is not None and self.process.running:
            with contextlib.suppress(ClusterLostError):  # it is ending, which `on_lost` reports
                self.process.watch(interval, self._on_state)

    def rename(self, holder: str) -> None:
        """Set the name under which other notebooks see the GPU lease."""
        if self.status == "ready" and self.process is not None and holder != self._holder:
            self._holder = holder
            with contextlib.suppress(ClusterLostError):
                self.process.rename(holder)

    def notify_about_gpus(self, notice: Notice | None) -> None:
        """Set or withdraw the notice that the GPUs are wanted."""
        if notice != self.notice:
            self.notice = notice
            self._notify()

    def warn_of_end(self, when: float) -> None:
        """Set when the cluster will be closed."""
        self.closes_at = when
        self._notify()

    async def refresh(self, max_age: float = _STATE_AGE) -> bool:
        """Update the state of the workers, unless it is so new; `False` if that failed, which is logged."""
        if self.ready is None:
            return False
        if self.state is None or time.monotonic() - self._updated > max_age:
            try:
                self._update(await self._read_state())
            except GpuDaskError as error:
                logger.warning("The cluster of kernel %s did not report its state: %s", self.kernel_id, error)
                return False
        return True

    async def change(self, command: Command) -> None:
        """Carry out a command that changes the cluster, and keep its new state."""
        self.state = await self._running_process().call(command)

    async def reset(self) -> None:
        """Release all results and other state of the cluster; the worker processes keep running."""
        async with self._resetting:
            self.state = await self._running_process().reset()
            self.unused = True

    async def is_unused(self) -> bool:
        """Whether nobody has used the cluster since its kernel was restarted, and no result is reserved."""
        async with self._resetting:
            if self.ready is None:
                return self.unused
            return self.unused and await self.refresh(0) and self.unused

    async def logs(self, lines: int = 200) -> dict[str, str]:
        """The last lines of the logs, by worker name, and ``supervisor``, which is also kept for a failed cluster."""
        process = self.process
        if process is None:
            return {SUPERVISOR: self.error.log if self.error else ""}
        return await process.logs(lines)

    async def _read_state(self) -> ClusterState:
        return await self._running_process().state()

    def _running_process(self) -> ClusterConnection:
        if self.process is None:
            raise ClusterLostError("not-running", status=self.status)
        return self.process

    def _set_status(self, status: Status) -> None:
        self.status, self.since = status, time.time()
        self._notify()

    def _notify(self) -> None:
        for observer in list(self._observers):
            observer(self)

    def _on_progress(self, progress: Progress) -> None:
        self.progress = progress
        self._notify()

    @property
    def has_processes(self) -> bool:
        """Whether it has failed, and its processes may not have ended yet; a `close` waits for them."""
        return self._failed_process is not None

    def _on_lost(self, loss: ClusterLostError) -> None:
        self._failed_process, self.process = self.process, None
        if self.alive:
            self.fail(loss)

    def _on_state(self, state: ClusterState) -> None:
        self._update(state)
        self._notify()

    def _update(self, state: ClusterState) -> None:
        is_busy = state.tasks_unfinished or any(worker.executing or worker.waiting for worker in state.workers)
        if is_busy or _work_done(state) != _work_done(self.state):  # the latter, for tasks between two reports
            self.last_busy = time.monotonic()
        if state.tasks_unfinished or state.result_bytes:
            self.unused = False
        self.state = state
        self._updated = time.monotonic()


def _work_done(state: ClusterState | None) -> tuple[dict[str, int], int]:
    if state is None:
        return {}, 0
    return {worker.name: worker.executed or 0 for worker in state.workers}, state.result_bytes
