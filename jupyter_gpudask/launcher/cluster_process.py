"""A supervisor's process, as its parent sees it: start it, wait for its cluster, and end it."""

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
from ..protocol.transport import EVENT_LIMIT, MessageStream
from ..protocol.verbs import SUPERVISOR
from .child_process import ChildProcess
from .connection import ClusterConnection, LostCallback, ProgressCallback

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path

    from ..protocol.verbs import EndReason

__all__ = ["ClusterProcess", "LostCallback", "ProgressCallback"]

_LOG_LINES = 200
_CLOSE_TIMEOUT = 4.8
_CANCEL_TIMEOUT = 1.0
_START_MARGIN = 30.0
_EXIT_TIMEOUT = 1.0


class ClusterProcess(ClusterConnection):
    """A supervisor that this process started, and its cluster; created by `start`."""

    def __init__(self, process: ChildProcess, spec: ClusterSpec) -> None:
        super().__init__(spec, MessageStream(process.stdout, process.stdin))
        self._process = process
        self._temporary_folders: set[Path] = set()
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._draining = asyncio.create_task(self._drain_log())
        self._cleaning_up: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        spec: ClusterSpec,
        *,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        on_progress: ProgressCallback | None = None,
        on_lost: LostCallback | None = None,
        **request: Any,
    ) -> Self:
        """Start a supervisor and wait until its cluster is ready.

        Parameters
        ----------
        spec
            The options of the cluster.
        python
            The interpreter; its environment is that of the workers.
        environment
            Environment variables of the supervisor, by default those of this process.
        on_progress
            Called whenever another worker is up.
        on_lost
            Called once if the supervisor ends unexpectedly after the cluster was ready.
        **request
            The other fields of `Start`.

        Raises
        ------
        ClusterStartError, GpuUnavailableError, GpuPackagesMissingError, GpuHeldError
            The cluster did not start. Nothing is left behind, nor if this is cancelled.
        """
        command = Start(spec=spec, **request)
        cluster = cls(await _start_supervisor(python, environment), spec)
        cluster._temporary_folders = temporary_folders(environment or os.environ)
        try:
            with contextlib.suppress(ClusterLostError):  # it has ended already; the events say why
                cluster._send(command)
            async with asyncio.timeout(None if spec.wait else spec.start_timeout + _START_MARGIN):
                cluster.ready = await cluster._wait_until_ready(on_progress)
        except BaseException as error:
            # Without a class, everything runs on this machine and can be killed; jobs must be cancelled.
            await _finish(cluster._close(_CANCEL_TIMEOUT if command.cluster_class is None else _CLOSE_TIMEOUT))
            if isinstance(error, TimeoutError):
                raise ClusterStartError("no-answer", log=cluster.log(20)) from None
            raise
        cluster._begin_reading(on_lost)
        return cluster

    @property
    def pid(self) -> int:
        """The supervisor's process id, which is also the id of its session."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the supervisor is running."""
        return self._process.returncode is None and super().running

    def log(self, lines: int = _LOG_LINES) -> str:
        """The last lines of the supervisor's log."""
        return "\n".join(list(self._log)[-lines:])

    async def worker_log(self, worker: str, lines: int = 50) -> str:
        """The last lines of the log of a worker, or of the supervisor."""
        return self.log(lines) if worker == SUPERVISOR else await super().worker_log(worker, lines)

    async def close(self, reason: EndReason = "stopped") -> None:
        """Close the cluster and end the supervisor, by force if it takes longer than 5 seconds."""
        await self._close(_CLOSE_TIMEOUT, reason)

    async def _close(self, limit: float, reason: EndReason = "stopped") -> None:
        self._closing = True
        reading = self._reading or asyncio.create_task(self._stream.skip())
        try:
            with contextlib.suppress(OSError, TimeoutError, ClusterLostError):
                self._send(Close(reason=reason))
                self._stream.close()
                async with asyncio.timeout(limit):
                    await self._process.ended()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await self._clean_up()

    async def _after_end(self) -> None:
        if self._failure is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_TIMEOUT):
                    await self._process.ended()
        await self._whole_log()
        await self._clean_up()

    async def _ended_before_ready(self) -> GpuDaskError:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_TIMEOUT):
                await self._process.ended()
        log = await self._whole_log()
        if re.search("No module named '?jupyter_gpudask", log):
            return ClusterStartError("kernel-without-package", install=pip_install(await asyncio.to_thread(_extra)))
        return ClusterStartError("process-ended", end=self._describe_exit(), log=log)

    async def _drain_log(self) -> None:
        rest = b""
        while chunk := await self._process.stderr.read(2**14):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-(2**14) :]
            self._log.extend(line.decode(errors="replace") for line in lines[-_LOG_LINES:])
            await asyncio.sleep(0)  # however much is logged, other tasks of the event loop run
        if rest:
            self._log.append(rest.decode(errors="replace"))

    async def _whole_log(self) -> str:
        """The log after the process has ended; this does not wait for a child that still has the pipe open."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._draining), 0.5)
        return self.log(20)

    async def _clean_up(self) -> None:
        """End what is left of the supervisor's session; once, because its id can be reused afterwards."""
        if self._cleaning_up is None:
            self._cleaning_up = asyncio.create_task(self._clean_up_once())
        await asyncio.shield(self._cleaning_up)

    async def _clean_up_once(self) -> None:
        await _in_thread(lambda: kill_session(self.pid))
        with contextlib.suppress(TimeoutError):  # a full pipe is never closed
            await asyncio.wait_for(self._stream.skip(), _EXIT_TIMEOUT)
        await self._process.wait()
        self._draining.cancel()
        self._process.close()
        await _in_thread(self._remove_leftover_files)

    def _remove_leftover_files(self) -> None:
        for folder in self._temporary_folders:
            remove_stale_directories(folder)
        LeaseFolder().remove_stale()

    def _log_invalid_line(self, text: str) -> None:
        self._log.append(text)

    def _describe_exit(self) -> str:
        code = self._process.returncode
        if code is None:
            return "has ended"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def _lost(self) -> ClusterLostError:
        if self._failure is not None:
            return super()._lost()
        return ClusterLostError("process-lost", end=self._describe_exit(), log=self.log())


def _extra() -> str:
    """The extra of this package for the driver's CUDA version; empty without a driver."""
    try:
        return "cu13" if cuda_driver_version() >= 13 else "cu12"
    except GpuUnavailableError:
        return ""


async def _in_thread(work: Callable[[], None]) -> None:
    try:
        await asyncio.to_thread(work)
    except RuntimeError:  # the interpreter is shutting down and starts no threads
        work()


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Complete `work` even if this is cancelled meanwhile."""
    task, cancelled = asyncio.create_task(work), False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


async def _start_supervisor(python: str, environment: Mapping[str, str] | None) -> ChildProcess:
    """Start a supervisor that waits for its first command.

    Raises
    ------
    ClusterStartError
        The interpreter does not start.
    """
    # -P: do not import modules from the notebook's folder
    command = [python, "-P", "-m", "jupyter_gpudask.supervisor"]
    try:
        return await ChildProcess.start(command, environment, limit=EVENT_LIMIT)
    except OSError as error:
        raise ClusterStartError("interpreter-failed", python=python, error=error) from None
