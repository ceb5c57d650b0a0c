"""The transport between kernels, the Jupyter server and supervisors: JSON lines over pipes or a Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable
from typing import IO, Self, TypeVar

from ..errors import ClusterLostError, ProtocolError
from .messages import PROTOCOL_VERSION, Message, StateReport
from .state import ClusterState
from .verbs import ClusterVerbs

logger = logging.getLogger(__name__)


COMMAND_LIMIT = 16 * 2**20
"""Bytes of the longest command that is read."""

EVENT_LIMIT = 2 * 2**20
"""Bytes of the longest event that is read; the longest log that can be sent has a quarter of a MiB."""

_FLUSH_LIMIT = 1.0
_FLUSH_POLL = 0.005

_M = TypeVar("_M")


async def read_from(pipe: IO[bytes], limit: int) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    """A reader of a pipe, with lines of at most `limit` bytes, and its transport."""
    reader = asyncio.StreamReader(limit)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    return reader, transport


async def write_to(pipe: IO[bytes]) -> asyncio.StreamWriter:
    """A writer to a pipe."""
    loop, protocol = asyncio.get_running_loop(), asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)


class MessageStream:
    """Messages to and from another process, one JSON object a line.

    - `reader`, `writer`: the two directions. The limit of the reader is that of a line.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._is_inside_line = False

    @classmethod
    async def from_pipes(cls, read_fd: int, write_fd: int, *, limit: int) -> Self:
        """Take over two file descriptors of pipes."""
        reader, _ = await read_from(os.fdopen(read_fd, "rb"), limit)
        return cls(reader, await write_to(os.fdopen(write_fd, "wb")))

    @classmethod
    async def from_socket(cls, connection: socket.socket, *, limit: int) -> Self:
        """Take over a connected Unix socket."""
        return cls(*await asyncio.open_unix_connection(sock=connection, limit=limit))

    async def receive(self, parse: Callable[[bytes], _M]) -> _M | None:
        """Receive the next message.

        `parse`: parses a line: `parse_command`, `parse_event` or `parse_request`. Returns `None` when the other process
        has closed its end. Raises `ProtocolError` if the line is not such a message. The next one can be received.
        """
        try:
            while self._is_inside_line:
                with contextlib.suppress(ProtocolError):
                    await self._read_line()
            line = await self._read_line()
        except ConnectionError:
            return None
        return parse(line) if line else None

    def send(self, message: Message) -> None:
        """Send a message; it never blocks, and does nothing when the stream is closed."""
        if not self.is_closing:
            self._writer.write(message.model_dump_json().encode() + b"\n")

    @property
    def is_closing(self) -> bool:
        """Whether messages can no longer be sent."""
        return self._writer.is_closing()

    @property
    def backlog(self) -> int:
        """Bytes that were sent and that the other process has not read."""
        return self._writer.transport.get_write_buffer_size()

    async def flush(self) -> None:
        """Wait until everything is written, at most a second."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _FLUSH_LIMIT
        while self.backlog and not self.is_closing and loop.time() < end:
            await asyncio.sleep(_FLUSH_POLL)

    async def skip(self) -> None:
        """Read and ignore everything until the other process has closed its end."""
        while await self._reader.read(2**16):
            pass

    def close(self) -> None:
        """Close the sending direction; of a socket, both."""
        self._writer.close()

    async def _read_line(self) -> bytes:
        try:
            line = await self._reader.readuntil()
        except asyncio.IncompleteReadError as error:
            line = error.partial
        except asyncio.LimitOverrunError as error:
            self._is_inside_line = True
            await self._reader.readexactly(error.consumed)
            raise ProtocolError("not-a-message", version=PROTOCOL_VERSION, error="the line is too long") from None
        self._is_inside_line = False
        return line


_MAX_BACKLOG = 2**20


class Reporter(ClusterVerbs):
    """Answers commands about a cluster that come on a stream, on which it also sends reports of the state."""

    _stream: MessageStream
    _watching: asyncio.Task[None] | None = None

    async def watch(self, interval: float = 1.0) -> None:
        """Report the state every `interval` seconds; 0 stops the reports."""
        if self._watching is not None:
            self._watching.cancel()
        self._watching = asyncio.create_task(self._report_every(interval)) if interval else None

    async def state_to_report(self) -> ClusterState | None:
        """The state; `None` if there is nothing to report."""
        return await self.state()

    async def _report_every(self, interval: float) -> None:
        """Report until this is cancelled; a parent that does not keep up misses reports."""
        problem = ""
        while True:
            if self._stream.backlog <= _MAX_BACKLOG:
                try:
                    state = await self.state_to_report()
                except ClusterLostError:  # reported elsewhere, if the cluster stays lost
                    state = None
                except Exception as error:  # one failure must not end the reports for good
                    state = None
                    if str(error) != problem:
                        logger.warning("The state of the cluster cannot be reported: %s", error, exc_info=error)
                    problem = str(error)
                if state is not None:
                    problem = ""
                    self._stream.send(StateReport(state=state))
            await asyncio.sleep(interval)
