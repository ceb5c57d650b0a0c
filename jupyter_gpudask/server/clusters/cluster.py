"""One cluster of a kernel, from the order to the end."""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ...errors import ClusterLostError, ClusterStartError, GpuDaskError
from ...launcher.cluster_process import ClusterProcess

if TYPE_CHECKING:
    from ...protocol import ClusterClass, ClusterSpec, ClusterState, Progress, Ready
    from ...protocol.rest import Status
    from .kernels import Interpreter
    from .standby import Standby

logger = logging.getLogger(__name__)

ChangeCallback = Callable[["KernelCluster"], None]

_NOW = 0.2
"""Seconds for which a state is that of now."""


class KernelCluster:
    """A cluster that is starting, ready, closing, closed or failed, in this order, and never goes back.

    Parameters
    ----------
    kernel_id
        Whose it is.
    spec
        What was asked for.
    on_change
        Called after every change of status or progress, and with every state of the workers.

    Attributes
    ----------
    status
        ``starting``, ``ready``, ``closing``, ``closed`` or ``failed``.
    since
        When that began, in seconds since the epoch.
    end
        Why it failed or was closed; `None` while it lives, or when that was asked for.
    process
        Its supervisor, while it is ready.
    state
        What its workers do, as last reported.
    secret
        What opens its dashboard.
    """

    def __init__(self, kernel_id: str, spec: ClusterSpec, on_change: ChangeCallback) -> None:
        self.kernel_id = kernel_id
        self.spec = spec
        self.status: Status = "starting"
        self.since = time.time()
        self.end: GpuDaskError | None = None
        self.process: ClusterProcess | None = None
        self.interpreter: Interpreter | None = None
        self.progress: Progress | None = None
        self.state: ClusterState | None = None
        self.busy_at = time.monotonic()
        self.secret = secrets.token_urlsafe(32)
        self._holder = ""
        self._observers: list[ChangeCallback] = [on_change]

    @property
    def ready(self) -> Ready | None:
        """What came up, while it is up."""
        return self.process.ready if self.process is not None else None

    @property
    def alive(self) -> bool:
        """Whether it is starting or ready."""
        return self.status in ("starting", "ready")

    def observe(self, observer: ChangeCallback) -> Callable[[], None]:
        """Have `observer` called like `on_change`, until what this returns is called."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    async def start(
        self,
        interpreter: Awaitable[Interpreter],
        *,
        holder: str,
        cluster_class: ClusterClass | None,
        standby: Standby,
        max_workers: int | None,
    ) -> None:
        """Start it; afterwards it is ready, or it failed. Cancelled, it leaves nothing behind."""
        self._holder = holder
        try:
            self.interpreter = found = await interpreter
            process = await ClusterProcess.start(
                self.spec,
                python=found.python,
                environment=found.environment,
                path=found.path,
                holder=holder,
                cluster_class=cluster_class,
                standby=await standby.take(found),
                kernel_id=self.kernel_id,
                max_workers=max_workers,
                gpu_metrics=False,  # which the server reads once for all
                dashboard_secret=self.secret,
                on_progress=self._on_progress,
                on_lost=self._on_lost,
            )
        except (GpuDaskError, OSError) as error:
            self.fail(error if isinstance(error, GpuDaskError) else ClusterStartError(f"It did not start: {error}."))
            return
        if not process.running:  # it came up and went down before anybody looked
            self.fail(ClusterLostError("The cluster ended as soon as it was up.", "Restart it.", log=process.log()))
            return
        self.process = process
        self.busy_at = time.monotonic()  # the time that the start took is no time without work
        self._become("ready")

    def fail(self, error: GpuDaskError) -> None:
        """From now on it has failed, because of `error`."""
        self.end = error
        self._become("failed")

    def mark_closing(self, why: GpuDaskError | None) -> None:
        """From now on it is being closed, because of `why`; `close` does it."""
        self.end = why
        self._become("closing")

    async def close(self) -> None:
        """Close it, if it is up; at most 6 seconds."""
        process, self.process = self.process, None
        if process is not None:
            await process.close()
        if self.status != "failed":
            self._become("closed")

    def watch(self, interval: float) -> None:
        """Ask for the state of the workers every `interval` seconds."""
        if self.process is not None and self.process.running:
            with contextlib.suppress(ClusterLostError):  # it is about to end, and whoever waits for it will be told
                self.process.watch(interval, self._on_state)

    def rename(self, holder: str) -> None:
        """Have others told that `holder` holds its GPUs, unless they are."""
        if self.status == "ready" and self.process is not None and holder != self._holder:
            self._holder = holder
            with contextlib.suppress(ClusterLostError):
                self.process.rename(holder)

    async def refresh(self) -> None:
        """Have its state of now, as far as it tells."""
        if self.process is not None and (self.state is None or time.time() - self.state.time > _NOW):
            try:
                self.state = await self.process.state()
            except GpuDaskError as error:
                logger.warning("The state of the cluster of kernel %s is not known: %s", self.kernel_id, error)

    async def logs(self, lines: int) -> dict[str, str]:
        """The last lines of its logs, by the name of the worker; of one that failed, as they were."""
        process = self.process
        if process is None:
            return {"supervisor": getattr(self.end, "log", "")}
        logs = {"supervisor": process.log(lines)}
        for worker in (await process.state()).workers:
            logs[worker.name] = await process.worker_log(worker.name, lines)
        return logs

    def _become(self, status: Status) -> None:
        self.status, self.since = status, time.time()
        self._tell()

    def _tell(self) -> None:
        for observer in list(self._observers):
            observer(self)

    def _on_progress(self, progress: Progress) -> None:
        self.progress = progress
        self._tell()

    def _on_lost(self, loss: ClusterLostError) -> None:
        self.process = None
        if self.alive:
            self.fail(loss)

    def _on_state(self, state: ClusterState) -> None:
        self.state = state
        if state.tasks_unfinished or any(worker.executing or worker.waiting for worker in state.workers):
            self.busy_at = time.monotonic()
        self._tell()
