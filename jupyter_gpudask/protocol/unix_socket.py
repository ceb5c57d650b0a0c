"""The Unix socket by which a kernel finds the Jupyter server that started it, and nobody else gets in."""

from __future__ import annotations

import hashlib
import os
import socket
import struct
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX, _SUFFIX = "gpudask-", ".sock"


def socket_path(runtime: Path, server: int) -> Path:
    """The socket of the server with that pid, in this container of this host: others may share the folder.

    Parameters
    ----------
    runtime
        Jupyter's runtime folder, where the connection files of its kernels are.
    server
        The pid; a kernel has it as ``JPY_PARENT_PID``.
    """
    return runtime / f"{_PREFIX}{_place()}-{server}{_SUFFIX}"


def bind_socket(path: Path) -> socket.socket:
    """A socket at `path` that only this user can connect to; those that the dead have left here are removed.

    One of another host does not answer, whoever lives, and stays.
    """
    for other in path.parent.glob(f"{_PREFIX}{_place()}-*{_SUFFIX}"):
        if other == path or not _answers(other):
            other.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        os.fchmod(bound.fileno(), 0o600)  # before it is there for others to see
        with _short(path) as name:
            bound.bind(name)
        bound.listen()
    except OSError:
        bound.close()
        raise
    return bound


def connect_socket(path: Path) -> socket.socket | None:
    """A connection to the socket at `path`, if a process of this user answers there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            connection.connect(name)
        if peer_of(connection)[1] == os.getuid():
            connection.setblocking(False)  # noqa: FBT003 - as Python names it
            return connection
    except OSError:
        pass
    connection.close()
    return None


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The pid and the uid of the process at the other end, as Linux tells them. Source: unix(7), SO_PEERCRED."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid


def _place() -> str:
    """Where a pid means one process: some characters for this run of this host's Linux and this namespace of pids.

    Source: random(4), boot_id; pid_namespaces(7).
    """
    try:
        host = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:  # some sandboxes have none
        host = os.uname().nodename
    return hashlib.sha256(f"{host} {Path('/proc/self/ns/pid').readlink()}".encode()).hexdigest()[:12]


def _answers(path: Path) -> bool:
    connection = connect_socket(path)
    if connection is None:
        return False
    connection.close()
    return True


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """Another name of `path`, for the name of a socket has at most 107 bytes."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
