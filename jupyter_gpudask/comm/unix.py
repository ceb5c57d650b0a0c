"""Dask's communication over Unix sockets, ``unix://DIRECTORY:NUMBER``: for one user on one machine, without TLS.

Only the user of a process can enter the directory of its sockets (mode 0700), and both ends ask Linux for the user at
the other end. Encryption would therefore add nothing, and would cost most of the throughput. Dask finds this module by
the entry point ``distributed.comm.backends`` of the package.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import socket
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import dask.config
from distributed.comm.core import CommClosedError, FatalCommClosedError
from distributed.comm.registry import Backend
from distributed.comm.tcp import MAX_BUFFER_SIZE, TCP, BaseTCPListener, _close_comm
from tornado.iostream import IOStream
from tornado.tcpserver import TCPServer

from ..machine.unix_socket import peer_of, pid_scope, short_name
from . import device_memory
from .pinned_segments import FilledSegments

logger = logging.getLogger(__name__)


def host_of(directory: Path) -> str:
    """A directory of sockets, as Dask's servers take it in their argument `host`."""
    return quote(os.fsencode(directory))


def address_of(directory: str, number: int) -> str:
    """The location of a socket in a quoted directory."""
    return f"{directory}:{number}"


def path_of(address: str) -> Path:
    """The file of the socket at a location."""
    directory, _, number = address.rpartition(":")
    return Path(os.fsdecode(unquote_to_bytes(directory)), number)


SCHEME = "unix"
_PREFIX = f"{SCHEME}://"
_HOST = "127.0.0.1"
_NUMBERS = range(1, 65536)
_RETRY = 0.01
_BUFFER = 2**22
_SHARED_MEMORY, _PID = "gpudask-shared-memory", "gpudask-pid"


class UnixComm(TCP):
    """A connection. Workers send device memory through shared memory: see `device_memory`."""

    def __init__(self, stream: IOStream, local_addr: str, peer_addr: str, deserialize: bool = True) -> None:  # noqa: FBT002 - Dask's
        super(TCP, self).__init__(deserialize=deserialize)  # not TCP's, which sets options that only TCP has
        self._closed = False
        self._local_addr = local_addr
        self._peer_addr = peer_addr
        self._extra: dict[str, Any] = {}
        self.stream = stream
        self._finalizer = weakref.finalize(self, self._get_finalizer())
        self._finalizer.atexit = False
        this = weakref.ref(self)
        stream.set_close_callback(lambda: _close_comm(this))
        self._filled: list[FilledSegments] = []
        weakref.finalize(self, _give_up, self._filled).atexit = False

    def handshake_info(self) -> dict[str, Any]:
        """Override of Dask's method, with its pid, and where that of a worker that shares memory is valid."""
        scope = pid_scope() if device_memory.is_enabled() else ""
        return super().handshake_info() | {_SHARED_MEMORY: scope, _PID: os.getpid()}

    @staticmethod
    def handshake_configuration(local: dict[str, Any], remote: dict[str, Any]) -> dict[str, Any]:
        """Override of Dask's method: whether both processes are such workers, and find each other in /proc."""
        here, there = (each.get(_SHARED_MEMORY, "") for each in (local, remote))
        return TCP.handshake_configuration(local, remote) | {_SHARED_MEMORY: bool(here) and here == there}

    async def write(self, msg: Any, serializers: Any = None, on_error: str = "message") -> int:
        """Override of Dask's method."""
        if serializers is not None or not self.handshake_options.get(_SHARED_MEMORY) or not device_memory.is_enabled():
            written: int = await super().write(msg, serializers, on_error)
            return written
        filled = FilledSegments(self.remote_info[_PID])
        self._filled[:] = [*(each for each in self._filled if not each.are_read), filled]
        self.handshake_options[device_memory.SEGMENTS] = filled  # in the context of the serializers
        try:
            written = await super().write(msg, (device_memory.FAMILY, "dask", "pickle"), on_error)
        except BaseException:
            filled.give_up()
            raise
        return written

    def abort(self) -> None:
        """Override of Dask's method."""
        super().abort()
        _give_up(self._filled)


class UnixConnector:
    """Connects to a listener of this user."""

    async def connect(self, address: str, deserialize: bool = True, **_: Any) -> UnixComm:  # noqa: FBT002 - Dask's
        """Connect to ``DIRECTORY:NUMBER``; raises `CommClosedError` unless a process of this user listens there."""
        path = path_of(address)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            while True:
                try:
                    with short_name(path) as name:
                        connection.connect(name)
                    break
                except BlockingIOError:  # more connections wait than the listener's backlog has room for
                    await asyncio.sleep(_RETRY)
        except OSError as error:
            connection.close()
            raise CommClosedError(f"in {self}: {error}") from error
        except BaseException:
            connection.close()
            raise
        if not _is_own(connection):
            connection.close()
            raise FatalCommClosedError(f"The socket {path} belongs to another user.")
        local = address_of(address.rpartition(":")[0], 0)
        return UnixComm(_stream(connection), _PREFIX + local, _PREFIX + address, deserialize)


class UnixListener(BaseTCPListener):
    """Listens on a socket in a directory that only its user can enter."""

    prefix = _PREFIX
    comm_class = UnixComm
    encrypted = True  # nothing leaves the operating system

    async def start(self) -> None:
        """Bind the first free number, or the one that was asked for."""
        server: Any = TCPServer(max_buffer_size=int(MAX_BUFFER_SIZE))
        server.handle_stream = self._handle_stream
        directory = path_of(address_of(self.ip, self.port)).parent
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            os.fchmod(bound.fileno(), 0o600)  # before others can see it
            number = self._bind(bound, directory)
            bound.listen(int(dask.config.get("distributed.comm.socket-backlog")))
        except OSError:
            bound.close()
            raise
        self.bound_address = (self.ip, number)
        self.tcp_server = server
        server.add_socket(bound)

    def stop(self) -> None:
        """Stop listening, and remove the socket."""
        if self.tcp_server is not None and self.bound_address is not None:
            path_of(address_of(*self.bound_address)).unlink(missing_ok=True)
        super().stop()

    def _bind(self, bound: socket.socket, directory: Path) -> int:
        if self.port:
            with short_name(directory / str(self.port)) as name:
                bound.bind(name)
            return int(self.port)
        while True:
            number = secrets.choice(_NUMBERS)
            try:
                with short_name(directory / str(number)) as name:
                    bound.bind(name)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            return number

    def _get_server_args(self, **_: Any) -> dict[str, Any]:
        return {}

    async def _handle_stream(self, stream: IOStream, _: Any) -> None:
        if self.tcp_server is None or not _is_own(stream.socket):
            stream.close()
            return
        _enlarge_buffers(stream.socket)
        directory, number = self.get_host_port()
        local, peer = (self.prefix + address_of(directory, each) for each in (number, 0))
        comm = UnixComm(stream, local, peer, self.deserialize)
        comm.allow_offload = self.allow_offload
        try:
            await self.on_connection(comm)
        except CommClosedError:
            logger.info("Connection from %s closed before handshake completed", peer)
            return
        await self.comm_handler(comm)


class UnixBackend(Backend):
    """The backend of the scheme ``unix``."""

    def get_connector(self) -> UnixConnector:
        """A connector."""
        return UnixConnector()

    def get_listener(
        self, loc: str, handle_comm: Callable[[UnixComm], Awaitable[None]], deserialize: bool, **connection_args: Any
    ) -> UnixListener:
        """A listener at ``DIRECTORY:NUMBER``, with 0 for any free number."""
        return UnixListener(loc, handle_comm, deserialize, **connection_args)

    def get_address_host(self, loc: str) -> str:  # noqa: ARG002 - all are on this machine
        """The loopback address: that of the HTTP servers beside."""
        return _HOST

    def get_address_host_port(self, loc: str) -> tuple[str, int]:
        """The loopback address, and the number."""
        return _HOST, int(loc.rpartition(":")[2] or 0)

    def resolve_address(self, loc: str) -> str:
        """The address as it is."""
        return loc

    def get_local_address_for(self, loc: str) -> str:
        """Any free number in the same directory."""
        return address_of(loc.rpartition(":")[0], 0)


def can_listen(directory: Path) -> bool:
    """Whether sockets can be created in `directory`; some network file systems have none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, short_name(directory / "0") as name:
        try:
            probe.bind(name)
        except OSError:
            return False
    (directory / "0").unlink()
    return True


def _give_up(filled: list[FilledSegments]) -> None:
    for each in list(filled):
        each.give_up()


def _is_own(connection: socket.socket) -> bool:
    return peer_of(connection)[1] == os.getuid()


def _stream(connection: socket.socket) -> IOStream:
    _enlarge_buffers(connection)
    return IOStream(connection, max_buffer_size=int(MAX_BUFFER_SIZE))


def _enlarge_buffers(connection: socket.socket) -> None:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
