"""The supervisor's end of its pipes: commands in, events out, one JSON object a line."""

from __future__ import annotations

import asyncio
import os
from typing import Self

from . import Command, Event, StateReport, parse_command

_LINE_LIMIT = 16 * 2**20
_UNREAD_LIMIT = 2**20


def take_stdio() -> tuple[int, int]:
    """Keep stdin and stdout for the protocol alone.

    Whatever else reads or prints in this process or in a worker gets ``/dev/null`` and stderr instead.

    Returns
    -------
    (int, int)
        File descriptors to read commands from and to write events to; no child inherits them.
    """
    command_fd, event_fd = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return command_fd, event_fd


class Channel:
    """Reads commands and writes events without ever blocking the loop."""

    def __init__(self, reader: asyncio.StreamReader, transport: asyncio.WriteTransport) -> None:
        self._reader = reader
        self._transport = transport

    @classmethod
    async def open(cls, command_fd: int, event_fd: int) -> Self:
        """Take over two file descriptors of pipes."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LINE_LIMIT)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(command_fd, "rb"))
        transport, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(event_fd, "wb"))
        return cls(reader, transport)

    async def receive(self) -> Command | None:
        """The next command, or `None` when the parent has closed its end.

        Raises
        ------
        ProtocolError
            The line is no command.
        """
        too_long = False
        while True:
            try:
                line = await self._reader.readline()
                break
            except ValueError:  # the reader has dropped what it had, and goes on in the middle of the line
                too_long = True
        if not line:
            return None
        return parse_command(b"(too long)" if too_long else line)

    def send(self, event: Event) -> None:
        """Write one event; one of the states that come by themselves is left out where the parent is too slow."""
        behind = self._transport.get_write_buffer_size() > _UNREAD_LIMIT
        if self._transport.is_closing() or (behind and isinstance(event, StateReport) and event.answers is None):
            return
        self._transport.write(event.model_dump_json().encode() + b"\n")

    async def flush(self, limit: float = 1.0) -> None:
        """Wait until the parent has read everything, at most `limit` seconds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + limit
        while self._transport.get_write_buffer_size() and not self._transport.is_closing() and loop.time() < end:
            await asyncio.sleep(0.005)
