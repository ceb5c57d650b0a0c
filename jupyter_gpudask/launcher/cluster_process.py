"""The parent's side of a supervisor: starts it, waits for its cluster, and ends it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from ..errors import ClusterLostError, ClusterStartError, GpuDaskError, GpuUnavailableError
from ..installation import pip_install
from ..machine.directories import remove_stale_directories, temporary_folders
from ..machine.gpus import cuda_driver_version
from ..machine.leases import LeaseFolder
from ..machine.lifeline import kill_session
from ..protocol import Close, ClusterSpec, Start
from .child_process import ChildProcess
from .connection import LINE_LIMIT, ClusterLink, LostCallback, ProgressCallback

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from pathlib import Path

    from ..protocol import ClusterClass

__all__ = ["ClusterProcess", "LostCallback", "ProgressCallback"]

_LOG_LINES = 200
_CLOSE_LIMIT = 4.8
_SILENCE_LIMIT = 30.0
_END_LIMIT = 1.0


class ClusterProcess(ClusterLink):
    """A supervisor and its cluster, as their parent sees them; made by `start`.

    Attributes
    ----------
    spec
        What was asked for.
    ready
        What came up: engine, address, credentials, GPUs.
    """

    def __init__(self, process: ChildProcess, spec: ClusterSpec) -> None:
        super().__init__(spec, process.stdout, process.stdin)
        self._process = process
        self._temporary_folders: set[Path] = set()
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._draining = asyncio.create_task(self._drain_log())
        self._clearing: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        spec: ClusterSpec,
        *,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        path: Sequence[str] = (),
        holder: str = "",
        kernel_id: str = "",
        max_workers: int | None = None,
        gpu_metrics: bool = True,
        dashboard_secret: str | None = None,
        cluster_class: ClusterClass | None = None,
        standby: ChildProcess | None = None,
        on_progress: ProgressCallback | None = None,
        on_lost: LostCallback | None = None,
    ) -> Self:
        """Start a supervisor and wait until its cluster is up.

        Parameters
        ----------
        spec
            What cluster to make.
        python
            The interpreter, of the environment that the workers shall have.
        environment
            Variables of the supervisor, by default those of this process.
        path
            Folders from which workers can import modules besides those of their environment.
        holder, kernel_id, max_workers, gpu_metrics, dashboard_secret, cluster_class
            See `Start`.
        standby
            A supervisor that waits for its order, to be used instead of a new one.
        on_progress
            Called whenever another worker is up.
        on_lost
            Called once if the supervisor ends without being asked to, after the cluster was up.

        Raises
        ------
        ClusterStartError, GpuUnavailableError, GpuPackagesMissingError, GpuHeldError
            The cluster did not come up. Nothing is left behind, as when this is cancelled.
        """
        order = Start(
            spec=spec,
            cluster_class=cluster_class,
            parent=os.getpid(),
            path=tuple(path),
            holder=holder,
            kernel_id=kernel_id,
            max_workers=max_workers,
            environment=None if standby is None or environment is None else dict(environment),
            gpu_metrics=gpu_metrics,
            dashboard_secret=dashboard_secret,
        )
        cluster = cls(standby or await start_supervisor(python, environment), spec)
        cluster._temporary_folders = temporary_folders(environment or os.environ)
        try:
            with contextlib.suppress(ClusterLostError):  # ended already: what follows says how
                cluster._send(order)
            async with asyncio.timeout(spec.start_timeout + _SILENCE_LIMIT):
                cluster.ready = await cluster._wait_until_ready(on_progress)
        except BaseException as error:
            await _finish(cluster.close())
            if isinstance(error, TimeoutError):
                raise ClusterStartError("The cluster's process says nothing.", log=cluster.log(20)) from None
            raise
        cluster._begin_reading(on_lost)
        return cluster

    @property
    def pid(self) -> int:
        """The supervisor's process id, which is also the id of its session."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the supervisor is there."""
        return self._process.returncode is None and super().running

    def log(self, lines: int = _LOG_LINES) -> str:
        """The last lines that the supervisor logged."""
        return "\n".join(list(self._log)[-lines:])

    async def close(self) -> None:
        """Close the cluster and end the supervisor: gracefully, and by force after 5 seconds at most."""
        self._closing = True
        reading = self._reading or asyncio.create_task(self._skip_events())
        try:
            with contextlib.suppress(OSError, TimeoutError, ClusterLostError):
                self._send(Close())
                self._writer.close()
                async with asyncio.timeout(_CLOSE_LIMIT):
                    await self._process.ended()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await self._clear_away()

    async def _after_end(self) -> None:
        if self._failure is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_LIMIT):
                    await self._process.ended()
        await self._whole_log()
        await self._clear_away()

    async def _start_ended(self) -> GpuDaskError:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_LIMIT):
                await self._process.ended()
        log = await self._whole_log()
        if re.search("No module named '?jupyter_gpudask", log):
            return ClusterStartError(
                "The kernel's environment has no jupyter_gpudask.",
                f"Type in the notebook: {pip_install(await asyncio.to_thread(_extra))} and restart the kernel.",
            )
        return ClusterStartError(f"The cluster's process {self._end()}.", log=log)

    async def _skip_events(self) -> None:
        while await self._reader.read(2**16):
            pass

    async def _drain_log(self) -> None:
        rest = b""
        while chunk := await self._process.stderr.read(2**14):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-(2**14) :]
            self._log.extend(line.decode(errors="replace") for line in lines[-_LOG_LINES:])
            await asyncio.sleep(0)  # a flood comes without an end
        if rest:
            self._log.append(rest.decode(errors="replace"))

    async def _whole_log(self) -> str:
        """The log once the process has ended; a child that still holds its end of the pipe is not waited for."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._draining), 0.5)
        return self.log(20)

    async def _clear_away(self) -> None:
        """Make sure that nothing of the supervisor's session is left; once, for its id may then be another's."""
        if self._clearing is None:
            self._clearing = asyncio.create_task(self._clear_away_once())
        await asyncio.shield(self._clearing)

    async def _clear_away_once(self) -> None:
        await _in_thread(lambda: kill_session(self.pid))
        with contextlib.suppress(TimeoutError):  # a pipe that is full is never closed
            await asyncio.wait_for(self._skip_events(), _END_LIMIT)
        await self._process.wait()
        self._draining.cancel()
        self._process.close()
        await _in_thread(self._clear_away_files)

    def _clear_away_files(self) -> None:
        for folder in self._temporary_folders:
            remove_stale_directories(folder)
        LeaseFolder().clear_away()

    def _note(self, text: str) -> None:
        self._log.append(text)

    def _end(self) -> str:
        code = self._process.returncode
        if code is None:
            return "is gone"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def _lost(self) -> ClusterLostError:
        if self._failure is not None:
            return super()._lost()
        reason = f"The cluster's process {self._end()}; what its workers held is lost."
        return ClusterLostError(reason, "Type: %gpudask restart", self.log())


def _extra() -> str:
    """The extra of this package that fits the driver; none where there is no driver."""
    try:
        return "cu13" if cuda_driver_version() >= 13 else "cu12"
    except GpuUnavailableError:
        return ""


async def _in_thread(work: Callable[[], None]) -> None:
    try:
        await asyncio.to_thread(work)
    except RuntimeError:  # the interpreter ends, and starts no more threads
        work()


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Do all of `work`, however often this is cancelled meanwhile."""
    task, cancelled = asyncio.create_task(work), False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


async def start_supervisor(python: str, environment: Mapping[str, str] | None, *options: str) -> ChildProcess:
    """A supervisor that has no order yet; with ``--standby`` it imports what it may need before it gets one.

    Raises
    ------
    ClusterStartError
        The interpreter does not start.
    """
    # -P: a file beside the notebook that is named like a module must not be taken for it
    command = [python, "-P", "-m", "jupyter_gpudask.supervisor", *options]
    try:
        return await ChildProcess.start(command, environment, limit=LINE_LIMIT)
    except OSError as error:
        raise ClusterStartError(f"The interpreter {python} does not start: {error}.") from None
