"""The connection to a cluster, over the pipes of its supervisor or the Unix socket of the Jupyter server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..errors import ClusterLostError, GpuDaskError, ProtocolError
from ..protocol import (
    Adapt,
    Answer,
    Closed,
    ClusterSpec,
    ClusterState,
    Command,
    Event,
    Failed,
    Kept,
    LogText,
    Progress,
    Ready,
    Refused,
    Release,
    Rename,
    Reset,
    Scale,
    SendLogs,
    SendState,
    StateReport,
    Watch,
    parse_event,
)
from ..protocol.messages.transport import LineTooLongError, MessageStream

logger = logging.getLogger(__name__)

_ANSWER_TIMEOUT = 10.0
_MAX_INVALID_LINES = 20
# However much there is to read, other tasks of the event loop run in between.
_LINES_AT_A_TIME = 10

ProgressCallback = Callable[[Progress], None]
LostCallback = Callable[[ClusterLostError], None]
StateCallback = Callable[[ClusterState], None]

_A = TypeVar("_A", StateReport, LogText, Kept)


class ClusterConnection:
    """Sends commands to a cluster and receives its events.

    Parameters
    ----------
    spec
        The options of the cluster.
    stream
        The pipes or the socket.

    Attributes
    ----------
    spec
        The options of the cluster.
    ready
        Engine, address, credentials and GPUs of the running cluster.
    """

    spec: ClusterSpec
    ready: Ready

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
    def is_owned(self) -> bool:
        """True: the cluster ends with the process that started it."""
        return True

    @property
    def running(self) -> bool:
        """Whether the cluster is running."""
        return not (self._ended or self._closing or self._failure is not None)

    async def state(self) -> ClusterState:
        """The current state of the cluster.

        Raises
        ------
        ClusterLostError
            The cluster has ended, or did not respond.
        """
        return (await self._ask(SendState(), StateReport)).state

    async def worker_log(self, worker: str, lines: int = 50) -> str:
        """The last lines of a worker's log; empty if it has none.

        Raises
        ------
        ClusterLostError
            The cluster has ended, or did not respond.
        """
        return (await self._ask(SendLogs(worker=worker, lines=lines), LogText)).text

    async def scale(self, workers: int) -> ClusterState:
        """Scale to `workers` workers; those that are new come later.

        Raises
        ------
        GpuUnavailableError
            The cluster does not hold that many GPUs.
        ClusterLostError
            The cluster has ended, or did not respond.
        """
        return (await self._ask(Scale(workers=workers), StateReport)).state

    async def adapt(self, minimum: int, maximum: int) -> ClusterState:
        """Close workers that are idle and start them when there is work, within a range.

        Raises
        ------
        GpuUnavailableError
            The cluster does not hold `maximum` GPUs.
        ClusterLostError
            The cluster has ended, or did not respond.
        """
        return (await self._ask(Adapt(minimum=minimum, maximum=maximum), StateReport)).state

    async def reset(self) -> ClusterState:
        """Forget every result, task, actor and name, and keep the workers.

        Raises
        ------
        ClusterLostError
            The cluster has ended, or did not respond.
        """
        return (await self._ask(Reset(), StateReport)).state

    async def release(self) -> ClusterState:
        """Release the finished results that clients hold on the workers; unfinished tasks go on.

        Raises
        ------
        ClusterLostError
            The cluster has ended, or did not respond.
        """
        return (await self._ask(Release(), StateReport)).state

    async def check_libraries(self, names: Sequence[str]) -> None:
        """Check nothing: the workers have the environment of the kernel."""

    async def report_automatic(self, *, on: bool) -> None:
        """Report nothing: only a Jupyter server shows it."""

    async def report_cell(self, fallback_blocks: int) -> None:
        """Report nothing: only a Jupyter server counts cells."""

    async def keep(self) -> str:
        """Nobody: only a Jupyter server asks an idle cluster for its GPUs."""
        return ""

    async def leave(self) -> None:
        """Do nothing: the cluster is closed afterwards."""

    def watch(self, interval: float, on_state: StateCallback | None = None) -> None:
        """Call `on_state` with the state every `interval` seconds; 0 stops that."""
        self._on_state = on_state
        if self.running:
            self._send(Watch(interval=interval))

    def rename(self, holder: str) -> None:
        """Change the name under which the GPUs are held.

        Raises
        ------
        ClusterLostError
            The cluster has ended.
        """
        self._send(Rename(holder=holder))

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

    async def _ask(self, question: Command, kind: type[_A]) -> _A:
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
                                raise GpuDaskError.restored(refused.state)
                            case answer if isinstance(answer, kind) and answer.answers == asked:
                                return answer
            except TimeoutError:
                raise ClusterLostError("process-silent", limit=_ANSWER_TIMEOUT) from None

    async def _read_events(self) -> None:
        invalid = lines = 0
        while invalid < _MAX_INVALID_LINES:
            try:
                event = await self._stream.receive(parse_event)
            except LineTooLongError:
                invalid = _MAX_INVALID_LINES
                continue
            except ProtocolError as error:
                invalid += 1
                self._log_invalid_line(str(error))
                continue
            finally:
                lines += 1
                if lines % _LINES_AT_A_TIME == 0:
                    await asyncio.sleep(0)
            if event is None:
                break
            self._handle(event)
        else:
            self._failure = Failed.from_error(ProtocolError("not-messages"))
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

    def _log_invalid_line(self, text: str) -> None:
        """Log why a line is not an event."""
        logger.debug("%s", text)

    async def _after_end(self) -> None:
        """Called after the last event, whether or not the end was requested."""

    async def _ended_before_ready(self) -> GpuDaskError:
        """The error to raise if the events end before the cluster is ready."""
        raise NotImplementedError

    def _lost(self) -> ClusterLostError:
        """The error to raise if the cluster ended unexpectedly."""
        if self._failure is not None:
            return ClusterLostError.restored(self._failure.state)
        return ClusterLostError("ended")
