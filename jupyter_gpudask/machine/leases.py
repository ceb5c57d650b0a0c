"""Leases on GPUs: files in a folder of the user, each locked as long as the process that holds the GPUs lives.

Every supervisor takes its leases here, so that no two clusters of one user get the same GPU, also not from two Jupyter
servers. A lease ends with its process, however that ends, because Linux releases the lock.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from jupyter_core.paths import jupyter_runtime_dir

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

logger = logging.getLogger(__name__)

_SUFFIX = ".lease"
_UNFINISHED = ".unfinished"
_MUTEX = "mutex"


@dataclass(frozen=True)
class Lease:
    """GPUs and their holder.

    Attributes
    ----------
    gpus
        UUIDs.
    holder
        The name of the holder: a notebook, or a program.
    kernel_id
        The kernel of the cluster; empty if unknown.
    pid
        The process that holds them, on its own host and in its own container.
    share
        Whether other clusters that share may hold them too.
    """

    gpus: tuple[str, ...]
    holder: str
    kernel_id: str
    pid: int
    share: bool

    @classmethod
    def from_file(cls, path: Path) -> Self | None:
        """Read a file; `None` if it is not a lease."""
        try:
            content = json.loads(path.read_text())
            return cls(**{**content, "gpus": tuple(content["gpus"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None


class HeldLease:
    """A lease of this process; it ends with `release` or with the process."""

    def __init__(self, lease: Lease, folder: Path) -> None:
        self._lease = lease
        unfinished, self._lock = _write(lease, folder)
        self._path = unfinished.rename(unfinished.with_suffix(_SUFFIX))

    def release(self) -> None:
        """End the lease."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:  # without its lock it is not a lease, and the next process that takes one removes it
            logger.warning("The lease %s cannot be removed: %s", self._path, error)
        os.close(self._lock)

    def rename(self, holder: str) -> None:
        """Change the name of the holder; only inside `LeaseFolder.locked`.

        Raises
        ------
        OSError
            The file cannot be written; the lease is unchanged.
        """
        lease = replace(self._lease, holder=holder)
        unfinished, lock = _write(lease, self._path.parent)
        unfinished.replace(self._path)
        os.close(self._lock)
        self._lease, self._lock = lease, lock


def _write(lease: Lease, folder: Path) -> tuple[Path, int]:
    """Write a locked file under a temporary name, so that readers never find an incomplete one."""
    # The pid is not unique: containers and hosts can share a home directory.
    lock, name = tempfile.mkstemp(_UNFINISHED, f"{lease.pid}-", folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        content = json.dumps(asdict(lease)).encode()
        while content:
            content = content[os.write(lock, content) :]
    except OSError:
        Path(name).unlink(missing_ok=True)
        os.close(lock)
        raise
    return Path(name), lock


class LeaseFolder:
    """The leases of this user.

    Parameters
    ----------
    path
        By default a folder in Jupyter's runtime directory.

    Attributes
    ----------
    path
        The folder.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or Path(jupyter_runtime_dir()) / "gpudask-leases"

    @contextmanager
    def locked(self) -> Iterator[list[Lease]]:
        """The current leases, while no other process can take one; stale ones are removed.

        Raises
        ------
        OSError
            The folder cannot be created or written to.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mutex = os.open(self.path / _MUTEX, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(mutex, fcntl.LOCK_EX)
            for path in [*self._files(), *self.path.glob(f"*{_UNFINISHED}")]:
                if not _is_held(path):
                    path.unlink(missing_ok=True)
            yield self.read()
        finally:
            os.close(mutex)

    def take(self, gpus: Sequence[str], *, holder: str, kernel_id: str, share: bool) -> HeldLease:
        """Take a lease on the GPUs with these UUIDs; only inside `locked`."""
        lease = Lease(tuple(gpus), holder or f"process {os.getppid()}", kernel_id, os.getpid(), share)
        return HeldLease(lease, self.path)

    def read(self) -> list[Lease]:
        """The leases whose process lives."""
        leases = (Lease.from_file(path) for path in self._files() if _is_held(path))
        return [lease for lease in leases if lease is not None]

    def remove_stale(self) -> None:
        """Remove the leases of processes that have ended."""
        try:
            if any(not _is_held(path) for path in self._files()):
                with self.locked():
                    pass
        except OSError as error:  # they hold nothing, and the next process that takes a lease removes them
            logger.warning("Stale leases cannot be removed from %s: %s", self.path, error)

    def _files(self) -> list[Path]:
        return sorted(self.path.glob(f"*{_SUFFIX}"))


THIS_KERNEL = "this kernel"
"""The name of the holder if it is the supervisor of the kernel that asks."""


def holders_of(leases: Iterable[Lease], *, supervisor: int | None = None) -> dict[str, list[str]]:
    """The names of the holders of each GPU that is held, by UUID.

    Parameters
    ----------
    leases
        The leases of all clusters.
    supervisor
        The pid of the supervisor of the kernel that asks, if it has one.
    """
    holders: dict[str, list[str]] = {}
    for lease in leases:
        for uuid in lease.gpus:
            holders.setdefault(uuid, []).append(THIS_KERNEL if lease.pid == supervisor else lease.holder)
    return holders


def _is_held(path: Path) -> bool:
    """Whether the process that wrote the file lives. The lock is shared, so that several processes can check."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(lock)
