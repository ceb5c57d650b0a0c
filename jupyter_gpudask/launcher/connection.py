"""The connection to a cluster, over the pipes of its supervisor or the Unix socket of the Jupyter server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..errors import ClusterLostError, GpuDaskError, ProtocolError
from ..protocol.messages import Answer, Closed, Event, Failed, Progress, Ready, Refused, StateReport, parse_event
from ..protocol.spec import ClusterSpec
from ..protocol.state import ClusterState
from ..protocol.transport import MessageStream
from ..protocol.verbs import DONE, VERBS, ClusterVerbs, Command, EndReason

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
        """The error to raise if the cluster ended unexpectedly."""
        if self._failure is not None:
            return ClusterLostError.restore(self._failure.state)
        return ClusterLostError("ended")
