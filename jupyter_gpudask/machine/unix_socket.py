"""The Unix socket on which a kernel connects to the Jupyter server that started it; only its user has access."""

from __future__ import annotations

import hashlib
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX, _SUFFIX = "gpudask-", ".sock"
_LONGEST = 107


def socket_path(runtime: Path, server: int) -> Path:
    """The socket of a server; the name also contains the host and the container, which may share the folder.

    `runtime`: Jupyter's runtime directory, which has the connection files of kernels. `server`: the pid of the server;
    in a kernel, ``JPY_PARENT_PID``.
    """
    return runtime / f"{_PREFIX}{pid_scope()}-{server}{_SUFFIX}"


def bind_socket(path: Path) -> socket.socket:
    """Listen at `path`, for this user only; stale sockets of this host and container are removed."""
    for other in path.parent.glob(f"{_PREFIX}{pid_scope()}-*{_SUFFIX}"):
        if other == path or not _is_listening(other):
            other.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        os.fchmod(bound.fileno(), 0o600)  # before others can see it
        with short_name(path) as name:
            bound.bind(name)
        bound.listen()
    except OSError:
        bound.close()
        raise
    return bound


def connect_socket(path: Path) -> socket.socket | None:
    """Connect to the socket at `path`; `None` unless a process of this user listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_name(path) as name:
            connection.connect(name)
        if peer_of(connection)[1] == os.getuid():
            connection.setblocking(False)  # noqa: FBT003 - as Python names it
            return connection
    except OSError:
        pass
    connection.close()
    return None


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The pid and the uid of the process at the other end. Source: unix(7), SO_PEERCRED."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid


def pid_scope() -> str:
    """A hash of the host, its boot and the pid namespace, within which pids are unique.

    Source: random(4), boot_id; pid_namespaces(7).
    """
    try:
        host = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:  # not available in some sandboxes
        host = os.uname().nodename
    return hashlib.sha256(f"{host} {Path('/proc/self/ns/pid').readlink()}".encode()).hexdigest()[:12]


def _is_listening(path: Path) -> bool:
    connection = connect_socket(path)
    if connection is None:
        return False
    connection.close()
    return True


@contextmanager
def short_name(path: Path) -> Iterator[str]:
    """`path`, or if that is too long a short name for it, because the name of a socket has at most 107 bytes.

    The path itself is better: systemd-tmpfiles removes old sockets in /tmp unless /proc/net/unix contains their path.
    """
    if path.is_absolute() and len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
