"""The parent's end of a conversation with a cluster: questions and answers, metrics, and word of its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from ..errors import ClusterLostError, ClusterStartError, GpuDaskError, ProtocolError
from ..protocol import (
    Answer,
    Closed,
    ClusterSpec,
    ClusterState,
    Command,
    Empty,
    Event,
    Failed,
    LogText,
    Progress,
    Ready,
    Refused,
    Rename,
    Scale,
    SendLogs,
    SendState,
    StateReport,
    Watch,
)
from ..protocol.events import EndlessLineError, error_of, read_event

logger = logging.getLogger(__name__)

LINE_LIMIT = 2 * 2**20
"""Bytes of the longest line that is read; the longest log that can be sent is a quarter of a MiB."""

_ANSWER_LIMIT = 10.0
_GARBAGE_LIMIT = 20
# Reading may not hold up a loop that has other things to do, however much there is to read.
_LINES_AT_A_TIME = 10

ProgressCallback = Callable[[Progress], None]
LostCallback = Callable[[ClusterLostError], None]
StateCallback = Callable[[ClusterState], None]

_A = TypeVar("_A", StateReport, LogText)


class ClusterLink:
    """A cluster as its parent sees it, at the other end of a pipe or a socket.

    Parameters
    ----------
    spec
        What was asked for.
    reader, writer
        The events and the commands, one JSON object a line.

    Attributes
    ----------
    spec
        What was asked for.
    ready
        What came up: engine, address, credentials, GPUs.
    """

    spec: ClusterSpec
    ready: Ready

    def __init__(self, spec: ClusterSpec, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.spec = spec
        self._reader = reader
        self._writer = writer
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
        """Whether the cluster is there."""
        return not (self._ended or self._closing)

    async def state(self) -> ClusterState:
        """What the cluster is doing now.

        Raises
        ------
        ClusterLostError
            It is gone, or does not answer.
        """
        return (await self._ask(SendState(), StateReport)).state

    async def worker_log(self, worker: str, lines: int = 50) -> str:
        """The last lines of the log of the worker of that name; empty when it has none.

        Raises
        ------
        ClusterLostError
            The cluster is gone, or does not answer.
        """
        return (await self._ask(SendLogs(worker=worker, lines=lines), LogText)).text

    async def scale(self, workers: int) -> ClusterState:
        """Have `workers` workers from now on; those that are new come later.

        Raises
        ------
        GpuUnavailableError
            The cluster does not hold so many GPUs.
        ClusterLostError
            It is gone, or does not answer.
        """
        return (await self._ask(Scale(workers=workers), StateReport)).state

    async def empty(self) -> ClusterState:
        """Forget every result, task, actor and name, and keep the workers.

        Raises
        ------
        ClusterLostError
            The cluster is gone, or does not answer.
        """
        return (await self._ask(Empty(), StateReport)).state

    def watch(self, interval: float, on_state: StateCallback | None = None) -> None:
        """Have `on_state` called with the state every `interval` seconds; 0 ends that."""
        self._on_state = on_state
        if self.running:
            self._send(Watch(interval=interval))

    def rename(self, holder: str) -> None:
        """Have others told that `holder` holds the GPUs.

        Raises
        ------
        ClusterLostError
            The cluster is gone.
        """
        self._send(Rename(holder=holder))

    def _begin_reading(self, on_lost: LostCallback | None) -> None:
        """Read what comes from now on; `on_lost` is called once if the cluster ends without being asked to."""
        self._on_lost = on_lost
        self._reading = asyncio.create_task(self._read_events())

    def _send(self, command: Command) -> None:
        if self._writer.is_closing():
            raise self._lost()
        self._writer.write(command.model_dump_json().encode() + b"\n")

    async def _wait_until_ready(self, on_progress: ProgressCallback | None) -> Ready:
        while True:
            match await read_event(self._reader):
                case Progress() as progress:
                    if on_progress is not None:
                        on_progress(progress)
                case Ready() as ready_event:
                    return ready_event
                case Failed() as failure:
                    raise error_of(failure)
                case None:
                    raise await self._start_ended()
                case other:
                    raise ProtocolError(f"The cluster's process sent {other.type} before its cluster was up.")

    async def _ask(self, question: Command, kind: type[_A]) -> _A:
        if not self.running:
            raise self._lost()
        async with self._asking:
            self._asked = asked = self._asked + 1
            self._send(question.model_copy(update={"id": asked}))
            try:
                async with asyncio.timeout(_ANSWER_LIMIT):
                    while True:
                        match await self._answers.get():
                            case Closed():
                                raise self._lost()
                            case Refused() as refused if refused.answers in {asked, None}:
                                raise GpuDaskError(refused.reason, refused.fix)
                            case answer if isinstance(answer, kind) and answer.answers == asked:
                                return answer
            except TimeoutError:
                raise ClusterLostError(
                    f"The cluster's process has not answered for {_ANSWER_LIMIT:.0f} s.", "Type: %gpudask restart"
                ) from None

    async def _read_events(self) -> None:
        garbage = lines = 0
        while garbage < _GARBAGE_LIMIT:
            try:
                event = await read_event(self._reader)
            except EndlessLineError:
                garbage = _GARBAGE_LIMIT
                continue
            except ProtocolError as error:
                garbage += 1
                self._note(str(error))
                continue
            finally:
                lines += 1
                if lines % _LINES_AT_A_TIME == 0:
                    await asyncio.sleep(0)
            if event is None:
                break
            self._take(event)
        else:
            self._failure = Failed(
                kind="ProtocolError",
                reason="The cluster's process sends what is no message.",
                fix="Install the same jupyter_gpudask in the kernel's environment and in the server's.",
            )
        await self._after_end()
        self._ended = True
        self._answers.put_nowait(Closed())
        if self._on_lost is not None and not self._closing:
            self._on_lost(self._lost())

    def _take(self, event: Event) -> None:
        if isinstance(event, Failed):
            self._failure = event
        if isinstance(event, StateReport) and self._on_state is not None:
            self._on_state(event.state)
        if self._asking.locked() and isinstance(event, Answer):
            self._answers.put_nowait(event)

    def _note(self, text: str) -> None:
        """Keep a line that is no event for whoever looks for a reason."""
        logger.debug("%s", text)

    async def _after_end(self) -> None:
        """Called when no more events come, whether or not that was asked for."""

    async def _start_ended(self) -> GpuDaskError:
        """What to tell when the events end before the cluster is up."""
        return ClusterStartError("The cluster's process is gone.")

    def _lost(self) -> ClusterLostError:
        """What to tell when the cluster ended by itself."""
        if self._failure is not None:
            return ClusterLostError(self._failure.reason, self._failure.fix, self._failure.log)
        return ClusterLostError("The cluster is gone; what its workers held is lost.", "Type: %gpudask restart")
