"""The connection to a cluster, over the pipes of its supervisor or the Unix socket of the Jupyter server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

from ..errors import ClusterLostError, ClusterStartError, GpuDaskError, ProtocolError
from ..installation import pip_install
from ..machine.directories import remove_stale_directories, temporary_folders
from ..machine.gpus import extra_for_gpus
from ..machine.leases import LeaseFolder
from ..machine.lifeline import kill_session
from ..protocol.messages import Answer, Closed, Event, Failed, Progress, Ready, Refused, StateReport, parse_event
from ..protocol.spec import ClusterSpec
from ..protocol.state import ClusterState
from ..protocol.transport import EVENT_LIMIT, MessageStream, read_from, write_to
from ..protocol.verbs import DONE, SUPERVISOR, VERBS, ClusterVerbs, Command, EndReason, Start

_ANSWER_TIMEOUT = 10.0
# However much there is to read, other tasks of the event loop run in between.
_LINES_AT_A_TIME = 10

ProgressCallback = Callable[[Progress], None]
LostCallback = Callable[[ClusterLostError], None]
StateCallback = Callable[[ClusterState], None]


class Cluster(ClusterVerbs):
    """A running cluster, as its user sees it, whoever started it.

    - `ready`: engine, address, credentials and GPUs of the cluster, and what cannot be done with it.
    """

    spec: ClusterSpec
    ready: Ready

    @property
    def pid(self) -> int:
        """The process id of the supervisor, which is also the id of its session; 0 if there is none."""
        return self.ready.pid

    async def check_libraries(self, names: Sequence[str]) -> None:
        """Raise `BackendUnavailableError` if a worker lacks one of these libraries; here all have one environment."""

    async def detach(self) -> None:
        """End the connection, and leave the cluster running."""

    async def leave(self) -> None:
        """Remove what this process has added to a cluster that keeps running; called before the client is closed."""

    async def close(self, reason: EndReason = "stopped") -> None:
        """Close the cluster if it is one of this process; called after the client was closed."""


class ClusterConnection(Cluster):
    """Sends commands to a cluster and receives its events."""

    def __init__(self, spec: ClusterSpec, stream: MessageStream) -> None:
        self.spec = spec
        self._stream = stream
        self._on_lost: LostCallback | None = None
        self._on_state: StateCallback | None = None
        self._closing = False
        self._ended = False
        self._failure: Failed | None = None
        self._answers: asyncio.Queue[Answer | Closed] = asyncio.Queue()
        self._asking = asyncio.Lock()
        self._asked = 0
        self._reading: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether the cluster is running."""
        return not (self._ended or self._closing or self._failure is not None)

    def call(self, command: Command) -> Awaitable[Any]:
        """Send a command, at once if it has no answer; raises `ClusterLostError` if nobody answers."""
        if VERBS[command.type].answer is not None:
            return self._ask(command)
        self._send(command)
        return DONE

    def watch(self, interval: float = 1.0, on_state: StateCallback | None = None) -> Awaitable[None]:
        """Call `on_state` with the state every `interval` seconds; 0 stops that."""
        self._on_state = on_state
        return super().watch(interval) if self.running else DONE

    async def follow(self) -> None:
        """Receive events until the other side disconnects, for a cluster that is ready."""
        self._begin_reading(None)
        assert self._reading is not None
        try:
            await self._reading
        finally:
            self._reading.cancel()

    async def detach(self) -> None:
        """End the connection; the other side keeps the cluster, whose end is not reported any more."""
        self._closing = True
        if self._reading is not None:
            self._reading.cancel()
        self._stream.close()

    def _begin_reading(self, on_lost: LostCallback | None) -> None:
        """Start to read events; `on_lost` is called once if the cluster ends unexpectedly.

        If the supervisor says why, that is before its processes have ended: `close` waits for these.
        """
        self._on_lost = on_lost
        self._reading = asyncio.create_task(self._read_events())

    def _send(self, command: Command) -> None:
        if self._stream.is_closing:
            raise self._lost()
        self._stream.send(command)

    async def _wait_until_ready(self, on_progress: ProgressCallback | None) -> Ready:
        while True:
            match await self._stream.receive(parse_event):
                case Progress() as progress:
                    if on_progress is not None:
                        on_progress(progress)
                case Ready() as ready_event:
                    return ready_event
                case Failed() as failure:
                    raise failure.to_error()
                case None:
                    raise await self._ended_before_ready()
                case other:
                    raise ProtocolError("event-too-early", event=other.type)

    async def _ask(self, question: Command) -> Any:
        if not self.running:
            raise self._lost()
        async with self._asking:
            self._asked = asked = self._asked + 1
            self._send(question.model_copy(update={"id": asked}))
            try:
                async with asyncio.timeout(_ANSWER_TIMEOUT):
                    while True:
                        match await self._answers.get():
                            case Closed():
                                raise self._lost()
                            case Refused() as refused if refused.answers in {asked, None}:
                                raise GpuDaskError.restore(refused.state)
                            case Refused():
                                pass
                            case answer if answer.answers == asked:
                                return answer.result
            except TimeoutError:
                raise ClusterLostError("process-silent", limit=_ANSWER_TIMEOUT) from None

    async def _read_events(self) -> None:
        lines = 0
        try:
            while (event := await self._stream.receive(parse_event)) is not None:
                self._handle(event)
                lines += 1
                if lines % _LINES_AT_A_TIME == 0:
                    await asyncio.sleep(0)
        except ProtocolError as error:
            self._failure = Failed.from_error(ProtocolError("not-messages", log=str(error)))
        await self._after_end()
        self._ended = True
        self._answers.put_nowait(Closed())
        self._report_loss()

    def _handle(self, event: Event) -> None:
        if isinstance(event, Failed):
            self._failure = event
            self._report_loss()
        if isinstance(event, StateReport) and self._on_state is not None:
            self._on_state(event.state)
        if self._asking.locked() and isinstance(event, Answer):
            self._answers.put_nowait(event)

    def _report_loss(self) -> None:
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None and not self._closing:
            on_lost(self._lost())

    async def _after_end(self) -> None:
        """Called after the last event, whether or not the end was requested."""

    async def _ended_before_ready(self) -> GpuDaskError:
        """The error to raise if the events end before the cluster is ready."""
        raise NotImplementedError

    def _lost(self) -> ClusterLostError:
        if self._failure is not None:
            return ClusterLostError.restore(self._failure.state)
        return ClusterLostError("ended")


class ChildProcess:
    """Like `asyncio.subprocess.Process`, but started in a thread.

    `asyncio.create_subprocess_exec` forks in the event loop, which blocks until the program runs.

    - `pid`: the process id, which is also the session id; it is not reused before `wait` returns.
    """

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    def __init__(self, process: subprocess.Popen[bytes], ended: Future[int]) -> None:
        self.pid = process.pid
        self._process = process
        self._ended = ended
        self._transports: list[asyncio.BaseTransport] = []

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str] | None, *, limit: int) -> Self:
        """Start `command` in a session of its own.

        - `environment`: environment variables, by default those of this process.
        - `limit`: the maximum length of a line that is read from it, in bytes.

        Raises `OSError` if it cannot be started. Nothing is left behind, nor if this is cancelled.
        """
        starting = asyncio.create_task(cls._start(command, environment, limit))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                await (await starting).kill()
            raise

    @property
    def returncode(self) -> int | None:
        """The exit status, as in `subprocess.Popen`; `None` while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait_for_end(self) -> None:
        """Wait until it has ended; its pid stays reserved."""
        await asyncio.wrap_future(self._ended)

    async def wait(self) -> None:
        """Wait until it has ended, and release its pid."""
        await self.wait_for_end()
        self._process.wait()

    async def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        await self.wait()
        self.close()

    def close(self) -> None:
        """Close its pipes."""
        for transport in self._transports:
            transport.close()

    @classmethod
    async def _start(cls, command: Sequence[str], environment: Mapping[str, str] | None, limit: int) -> Self:
        process, ended = await asyncio.to_thread(_begin, command, environment)
        child = cls(process, ended)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        child.stdin = await write_to(process.stdin)
        child.stdout, out = await read_from(process.stdout, limit)
        child.stderr, err = await read_from(process.stderr, limit)
        child._transports = [child.stdin.transport, out, err]
        return child


def _begin(
    command: Sequence[str], environment: Mapping[str, str] | None
) -> tuple[subprocess.Popen[bytes], Future[int]]:
    """Start the process; a future has its exit status when it has ended."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(  # noqa: S603 - the kernel's own interpreter
        command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        bufsize=0,
        env=environment,
        start_new_session=True,  # so that an interrupt of the kernel's process group does not reach it
    )
    ended: Future[int] = Future()
    ended.set_running_or_notify_cancel()  # cancelling a wait does not cancel it
    waiting = threading.Thread(
        target=lambda: ended.set_result(_wait_for_end(process)), name="gpudask-wait", daemon=True
    )
    waiting.start()
    return process, ended


def _wait_for_end(process: subprocess.Popen[bytes]) -> int:
    """Wait for the exit status, and leave a zombie, so that Linux does not reuse the pid and the session id."""
    try:
        end = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:  # other code has waited for all children of this process
        end = None
    if end is None:
        return process.wait()
    return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status


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

        - `python`: the interpreter; its environment is that of the workers.
        - `environment`: environment variables of the supervisor, by default those of this process.
        - `on_progress`: called whenever another worker is up.
        - `on_lost`: called once if the supervisor ends unexpectedly after the cluster was ready.
        - `**request`: the other fields of `Start`.

        Raises `ClusterStartError`, `GpuUnavailableError`, `GpuPackagesMissingError` or `GpuReservedError` if the
        cluster did not start. Nothing is left behind, nor if this is cancelled.
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
                self._send(VERBS["close"].command.model_validate({"reason": reason}))
                self._stream.close()
                await asyncio.wait_for(self._process.wait_for_end(), limit)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await self._clean_up()

    async def _after_end(self) -> None:
        if self._failure is None:
            await self._wait_for_exit()
        await self._whole_log()
        await self._clean_up()

    async def _wait_for_exit(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait_for_end(), _EXIT_TIMEOUT)

    async def _ended_before_ready(self) -> GpuDaskError:
        await self._wait_for_exit()
        log = await self._whole_log()
        if re.search("No module named '?jupyter_gpudask", log):
            return ClusterStartError(
                "kernel-without-package", install=pip_install(await asyncio.to_thread(extra_for_gpus))
            )
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

    def _describe_exit(self) -> str:
        code = self._process.returncode
        if code is None:
            return "has ended"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def _lost(self) -> ClusterLostError:
        if self._failure is not None:
            return super()._lost()
        return ClusterLostError("process-lost", end=self._describe_exit(), log=self.log())


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
    # -P: do not import modules from the notebook's folder
    command = [python, "-P", "-m", "jupyter_gpudask.supervisor"]
    # cuml.accel sets this in a kernel, so that Python loads it in all processes that the kernel starts. It initializes
    # CUDA, so that no worker can be forked.
    environment = {name: value for name, value in (environment or os.environ).items() if name != "CUML_ACCEL_ENABLED"}
    try:
        return await ChildProcess.start(command, environment, limit=EVENT_LIMIT)
    except OSError as error:
        raise ClusterStartError("interpreter-failed", python=python, error=error) from None
