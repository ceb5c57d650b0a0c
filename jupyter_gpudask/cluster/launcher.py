"""The parent's side of a supervisor: starts it, waits for its cluster, asks it things, and ends it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from .. import errors
from ..errors import ClusterLostError, ClusterStartError, GpuDaskError, ProtocolError
from ..models import (
    Close,
    Closed,
    ClusterSpec,
    ClusterState,
    Command,
    Event,
    Failed,
    LogText,
    Progress,
    Ready,
    Refused,
    SendLogs,
    SendState,
    Start,
    StateReport,
    parse_event,
)
from .directory import remove_stale_directories

_LINE_LIMIT = 16 * 2**20
_LOG_LINES = 200
_ANSWER_LIMIT = 10.0
_CLOSE_LIMIT = 4.8

ProgressCallback = Callable[[Progress], None]
LostCallback = Callable[[ClusterLostError], None]


class ClusterProcess:
    """A supervisor and its cluster, as their parent sees them; made by `start`.

    Attributes
    ----------
    spec
        What was asked for.
    ready
        What came up: engine, address, credentials, GPUs.
    """

    spec: ClusterSpec
    ready: Ready

    def __init__(self, process: asyncio.subprocess.Process, spec: ClusterSpec) -> None:
        self.spec = spec
        self._process = process
        self._on_lost: LostCallback | None = None
        self._closing = False
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._answers: asyncio.Queue[Event] = asyncio.Queue()
        self._asking = asyncio.Lock()
        self._draining = asyncio.create_task(self._drain_log())
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        spec: ClusterSpec,
        *,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        path: Sequence[str] = (),
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
        on_progress
            Called whenever another worker is up.
        on_lost
            Called once if the supervisor ends without being asked to, after the cluster was up.

        Raises
        ------
        ClusterStartError, GpuUnavailableError, GpuPackagesMissingError
            The cluster did not come up. Nothing is left behind, as when this is cancelled.
        """
        process = await asyncio.create_subprocess_exec(
            python,
            "-P",  # a file beside the notebook that is named like a module must not be taken for it
            "-m",
            "jupyter_gpudask.cluster",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_LIMIT,
            env=None if environment is None else dict(environment),
            start_new_session=True,  # so that an interrupt of the kernel's process group does not reach it
        )
        cluster = cls(process, spec)
        try:
            with contextlib.suppress(ClusterLostError):  # ended already: what follows says how
                cluster._send(Start(spec=spec, parent=os.getpid(), path=tuple(path)))
            cluster.ready = await cluster._wait_until_ready(on_progress)
        except BaseException:
            await asyncio.shield(cluster.close())
            raise
        cluster._on_lost = on_lost
        cluster._reading = asyncio.create_task(cluster._read_events())
        return cluster

    @property
    def pid(self) -> int:
        """The supervisor's process id, which is also the id of its session."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the supervisor is there."""
        return self._process.returncode is None and not self._closing

    def log(self, lines: int = _LOG_LINES) -> str:
        """The last lines that the supervisor logged."""
        return "\n".join(list(self._log)[-lines:])

    async def state(self) -> ClusterState:
        """What the cluster is doing now.

        Raises
        ------
        ClusterLostError
            The supervisor is gone, or does not answer.
        """
        report = await self._ask(SendState())
        if not isinstance(report, StateReport):
            raise ProtocolError(f"The supervisor answered {report.type} to a question for the state.")
        return report.state

    async def worker_log(self, worker: str, lines: int = 50) -> str:
        """The last lines of the log of the worker of that name; empty when it has none.

        Raises
        ------
        ClusterLostError
            The supervisor is gone, or does not answer.
        """
        answer = await self._ask(SendLogs(worker=worker, lines=lines))
        if not isinstance(answer, LogText):
            raise ProtocolError(f"The supervisor answered {answer.type} to a question for a log.")
        return answer.text

    async def close(self) -> None:
        """Close the cluster and end the supervisor: gracefully, and by force after 5 seconds at most."""
        self._closing = True
        reading = self._reading or asyncio.create_task(self._skip_events())
        try:
            with contextlib.suppress(OSError, TimeoutError, ClusterLostError):
                self._send(Close())
                assert self._process.stdin is not None
                self._process.stdin.close()
                async with asyncio.timeout(_CLOSE_LIMIT):
                    await self._process.wait()
        finally:
            await self._clear_away()
            reading.cancel()

    def _send(self, command: Command) -> None:
        assert self._process.stdin is not None
        if self._process.stdin.is_closing():
            raise self._lost()
        self._process.stdin.write(command.model_dump_json().encode() + b"\n")

    async def _receive(self) -> Event | None:
        assert self._process.stdout is not None
        try:
            line = await self._process.stdout.readline()
        except ValueError:
            raise ProtocolError("The supervisor sent a line without end.") from None
        return parse_event(line) if line else None

    async def _wait_until_ready(self, on_progress: ProgressCallback | None) -> Ready:
        while True:
            match await self._receive():
                case Progress() as progress:
                    if on_progress is not None:
                        on_progress(progress)
                case Ready() as ready_event:
                    return ready_event
                case Failed() as failure:
                    raise _error_of(failure)
                case None:
                    await self._process.wait()
                    raise ClusterStartError(f"The cluster's process {self._end()}.", log=await self._whole_log())
                case other:
                    raise ProtocolError(f"The supervisor sent {other.type} before its cluster was up.")

    async def _ask(self, question: Command) -> Event:
        if not self.running:
            raise self._lost()
        async with self._asking:
            while not self._answers.empty():  # what came too late for an earlier question
                self._answers.get_nowait()
            self._send(question)
            try:
                async with asyncio.timeout(_ANSWER_LIMIT):
                    answer = await self._answers.get()
            except TimeoutError:
                raise ClusterLostError(
                    f"The cluster's process has not answered for {_ANSWER_LIMIT:.0f} s.", "Type: %gpudask restart"
                ) from None
        match answer:
            case Refused(reason=reason, fix=fix):
                raise GpuDaskError(reason, fix)
            case Closed():
                raise self._lost()
        return answer

    async def _read_events(self) -> None:
        while True:
            try:
                event = await self._receive()
            except ProtocolError as error:
                self._log.append(str(error))
                continue
            if event is None:
                break
            self._answers.put_nowait(event)
        await self._process.wait()
        await self._whole_log()
        await self._clear_away()
        self._answers.put_nowait(Closed())
        if self._on_lost is not None and not self._closing:
            self._on_lost(self._lost())

    async def _skip_events(self) -> None:
        assert self._process.stdout is not None
        while await self._process.stdout.read(2**16):
            pass

    async def _drain_log(self) -> None:
        assert self._process.stderr is not None
        rest = b""
        while chunk := await self._process.stderr.read(2**16):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-(2**16) :]
            self._log.extend(line.decode(errors="replace") for line in lines)
        if rest:
            self._log.append(rest.decode(errors="replace"))

    async def _whole_log(self) -> str:
        """The log once the process has ended; a child that still holds its end of the pipe is not waited for."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._draining), 0.5)
        return self.log(20)

    async def _clear_away(self) -> None:
        """Make sure that nothing of the supervisor's session is left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        self._draining.cancel()
        remove_stale_directories()

    def _end(self) -> str:
        code = self._process.returncode
        if code is None:
            return "is gone"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def _lost(self) -> ClusterLostError:
        text = self.log(5)
        return ClusterLostError(
            f"The cluster's process {self._end()}; what its workers held is lost.",
            "Type: %gpudask restart" + (f"\n{text}" if text else ""),
        )


def _error_of(failure: Failed) -> GpuDaskError:
    kind = getattr(errors, failure.kind, ClusterStartError)
    if kind is ClusterStartError:
        return ClusterStartError(failure.reason, failure.fix, failure.log)
    error: GpuDaskError = kind.__new__(kind)
    GpuDaskError.__init__(error, failure.reason, failure.fix)
    return error
