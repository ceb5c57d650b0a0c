"""How the ranks of Polars' engine communicate: on one machine, so that nobody else can connect to them.

RapidsMPF's communicator listens on all interfaces, without authentication, and UCX's transport by TCP on each. On one
machine nothing of this is needed: one rank has nobody to communicate with; several find each other by the address that
cudf-polars sends through Dask, and use shared memory of this user and CUDA IPC.
"""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

_SETUP = ("_setup_root", "_setup_worker")
_TRANSPORTS = "self,posix,cma,cuda"
# Of Linux: <asm-generic/socket.h>, and a filter of one instruction, which keeps no byte of a packet.
_SO_ATTACH_FILTER, _SO_LOCK_FILTER = 26, 44
_RETURN_CONSTANT = 0x06


class PortsError(RuntimeError):
    """The communicator of this rank listens, and its ports could not be closed."""


@dataclass(frozen=True)
class Ranks:
    """The ranks of an engine: their number, whether all are on this machine, and whether they may listen."""

    number: int
    are_local: bool
    may_listen: bool

    def set_up(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of cudf-polars, which sets up a rank on this machine so that nobody can connect to it."""
        if not self.are_local or not isinstance(function, partial) or function.func.__name__ not in _SETUP:
            return function
        names = _single_rank() if self.number == 1 else {"new_communicator": self._closed(function.func)}
        return partial(_with_globals(function.func, names), *function.args, **function.keywords)

    def _closed(self, setup: Callable[..., Any]) -> Callable[..., Any]:
        create = setup.__globals__["new_communicator"]

        def new_communicator(*args: Any, **kwargs: Any) -> Any:
            before = {inode for inode, _ in _listening()}
            with _environment("UCX_TLS", _TRANSPORTS):
                communicator = create(*args, **kwargs)
            try:
                for inode, each in _listening():
                    if inode not in before:
                        _drop_packets(each)
            except OSError as error:
                if not self.may_listen:
                    raise PortsError(str(error)) from None
            return communicator

        return new_communicator


def _single_rank() -> dict[str, Any]:
    """What the functions of cudf-polars call for the communicator, for RapidsMPF's one that has a single rank."""
    from rapidsmpf.communicator import single

    def new_communicator(*, options: Any, progress_thread: Any, **_: Any) -> Any:
        return single.new_communicator(options, progress_thread)

    return {
        "new_communicator": new_communicator,
        "get_root_ucxx_address": lambda _: b"",
        "barrier": lambda _: None,
    }


def _with_globals(function: Any, names: dict[str, Any]) -> Callable[..., Any]:
    """A copy of a function in which some global names are others."""
    names = function.__globals__ | names
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def _listening() -> Iterator[tuple[int, socket.socket]]:
    """The TCP sockets on which this process listens, by their inodes."""
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it was closed meanwhile
            descriptor = int(path.name)
            status = os.fstat(descriptor)
            if not stat.S_ISSOCK(status.st_mode):
                continue
            each = socket.socket(fileno=os.dup(descriptor))
            with each:
                is_tcp = each.family in (socket.AF_INET, socket.AF_INET6) and each.type == socket.SOCK_STREAM
                if is_tcp and each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    yield status.st_ino, each


def _drop_packets(listener: socket.socket) -> None:
    """Make a socket receive no packet any more, so that nobody can connect to it."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN_CONSTANT, 0, 0, 0))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))
    listener.setsockopt(socket.SOL_SOCKET, _SO_LOCK_FILTER, 1)
