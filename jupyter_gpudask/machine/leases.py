"""Which cluster holds which GPU: files that are locked as long as their holder lives, in a folder of the user's.

Every supervisor takes its leases here, whoever started it, so that the notebooks of one user respect each other, also
those of two Jupyter servers and those of none. A lease ends with its process, however that ends: Linux unlocks it.
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
    """Some GPUs and who holds them.

    Attributes
    ----------
    gpus
        UUIDs.
    holder
        In words: a notebook, or a program.
    kernel_id
        The kernel whose cluster it is; empty where that is not known.
    pid
        Of the process that holds them, on its own host and in its own container.
    share
        Whether it lets others hold them too.
    """

    gpus: tuple[str, ...]
    holder: str
    kernel_id: str
    pid: int
    share: bool

    @classmethod
    def from_file(cls, path: Path) -> Self | None:
        """What stands in a file; `None` if that is no lease."""
        try:
            content = json.loads(path.read_text())
            return cls(**{**content, "gpus": tuple(content["gpus"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None


class HeldLease:
    """A lease of this process; it ends with `release`, or with the process."""

    def __init__(self, lease: Lease, folder: Path) -> None:
        self._lease = lease
        unfinished, self._lock = _write(lease, folder)
        self._path = unfinished.rename(unfinished.with_suffix(_SUFFIX))

    def release(self) -> None:
        """Give the GPUs back."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:  # without its lock it is no lease, and whoever takes one next removes it
            logger.warning("The lease %s cannot be removed: %s", self._path, error)
        os.close(self._lock)

    def rename(self, holder: str) -> None:
        """From now on `holder` holds the GPUs; inside `choosing`.

        Raises
        ------
        OSError
            It cannot be written; the lease is as it was.
        """
        lease = replace(self._lease, holder=holder)
        unfinished, lock = _write(lease, self._path.parent)
        unfinished.replace(self._path)
        os.close(self._lock)
        self._lease, self._lock = lease, lock


def _write(lease: Lease, folder: Path) -> tuple[Path, int]:
    """A file that is locked and complete, which readers do not find before it has its name."""
    # The pid alone is not unique: containers, and hosts, may share a home.
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
        By default a folder in Jupyter's runtime folder.

    Attributes
    ----------
    path
        The folder that they are in.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or Path(jupyter_runtime_dir()) / "gpudask-leases"

    @contextmanager
    def choosing(self) -> Iterator[list[Lease]]:
        """The leases there are, while nobody else takes any; those of the dead are cleared away.

        Raises
        ------
        OSError
            There is no such folder and none can be made, or it cannot be written to.
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
        """Hold GPUs of these UUIDs from now on; inside `choosing`."""
        lease = Lease(tuple(gpus), holder or f"process {os.getppid()}", kernel_id, os.getpid(), share)
        return HeldLease(lease, self.path)

    def read(self) -> list[Lease]:
        """The leases of the living."""
        leases = (Lease.from_file(path) for path in self._files() if _is_held(path))
        return [lease for lease in leases if lease is not None]

    def clear_away(self) -> None:
        """Remove what the dead have left."""
        try:
            if any(not _is_held(path) for path in self._files()):
                with self.choosing():
                    pass
        except OSError as error:  # they hold nothing, and whoever takes a lease next removes them
            logger.warning("Leases of the dead cannot be removed from %s: %s", self.path, error)

    def _files(self) -> list[Path]:
        return sorted(self.path.glob(f"*{_SUFFIX}"))


THIS_KERNEL = "this kernel"
"""The holder of what is held by the supervisor of the one who asks."""


def holders_of(leases: Iterable[Lease], *, supervisor: int | None = None) -> dict[str, list[str]]:
    """Who holds each GPU that is held, in words, by UUID.

    Parameters
    ----------
    leases
        Of all clusters.
    supervisor
        The pid of that of the kernel that asks, if it has one.
    """
    holders: dict[str, list[str]] = {}
    for lease in leases:
        for uuid in lease.gpus:
            holders.setdefault(uuid, []).append(THIS_KERNEL if lease.pid == supervisor else lease.holder)
    return holders


def _is_held(path: Path) -> bool:
    """Whether the process that made the file lives. A shared lock asks, so that two who ask do not meet."""
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
