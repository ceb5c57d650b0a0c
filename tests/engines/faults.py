"""Faults of engines: a server that never answers."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
from helpers import command_line, wait_until

if TYPE_CHECKING:
    from servers import NotebookKernel

_START_LIMIT = 60.0  # of starts with a timeout of at most 10 s, with what an import of Dask takes on a busy machine


class SilentServer:
    """A server that accepts connections and never answers.

    Attributes
    ----------
    port
        Its port on the loopback interface.
    """

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._accepted: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._accepted.append(self._socket.accept()[0])

    def clients(self) -> list[str]:
        """The command lines of the processes that are connected."""
        return [
            command_line(psutil.Process(connection.pid))
            for connection in psutil.net_connections("tcp")
            if connection.raddr and connection.raddr.port == self.port and connection.status == "ESTABLISHED"
            if connection.pid
        ]

    @property
    def accepted(self) -> int:
        """How many connections there have been."""
        return len(self._accepted)

    def refusal(self, kernel: NotebookKernel, preset: str) -> str:
        """What a start with a preset that connects to this server says; in time, and no connection is left."""
        began = time.monotonic()
        reply = kernel.run(f"%gpudask start --preset {preset}", timeout=4 * _START_LIMIT)
        assert time.monotonic() - began < _START_LIMIT
        assert self.accepted > 0
        wait_until(lambda: self.clients() == [])
        return reply.error_value + reply.printed

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(30)
        for connection in self._accepted:
            connection.close()
