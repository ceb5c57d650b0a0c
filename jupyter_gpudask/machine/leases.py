"""Leases on GPUs: files in a folder of the user, each locked as long as the process that holds the GPUs lives.

Every supervisor takes its leases here, so that no two clusters of one user get the same GPU, even from two Jupyter
servers. A lease ends with its process, however the process ends, because Linux releases the lock. If the administrator
has set a directory for all users, a lease has a second file there, without the name of the notebook: see
`lease_registry`.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from jupyter_core.paths import jupyter_runtime_dir

from .lease_registry import LeaseRegistry, PublicLease, clock_time
from .locked_files import create_locked, remove_if_stale, remove_locked, stale_files, valid_files
from .waiting_line import IDLE_SUFFIX, WaitingLine

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from .lease_registry import OwnPublicLease
    from .waiting_line import Place

logger = logging.getLogger(__name__)

_SUFFIX = ".lease"
_MUTEX = "mutex"
_LONGEST_HOLDER = 300


@dataclass(frozen=True)
class Lease:
    """GPUs and their holder.

    - `gpus`: UUIDs.
    - `holder`: the name of the holder: a notebook, or a program.
    - `kernel_id`: the kernel of the cluster; empty if unknown.
    - `pid`: the process that holds them, on its own host and in its own container; 0 if it is known only from the
      directory for all users.
    - `share`: whether other clusters that share may hold them too.
    - `public`: the name of its file in the directory for all users; empty without one.
    - `accelerates`: whether the process is a kernel that uses them itself, after ``%gpudask accelerate``, and not a
      supervisor.
    """

    gpus: tuple[str, ...]
    holder: str
    kernel_id: str
    pid: int
    share: bool
    public: str = ""
    accelerates: bool = False

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process is an accelerated kernel, and this its lease."""
        return self.accelerates and self.pid == os.getpid()

    @property
    def is_own(self) -> bool:
        """Whether it is in this user's folder, and not only in the directory for all users."""
        return self.pid != 0

    @classmethod
    def from_content(cls, content: bytes) -> Self | None:
        """Read the content of a file; `None` if it is not a lease."""
        try:
            values = json.loads(content)
            return cls(**{**values, "gpus": tuple(values["gpus"])})
        except (ValueError, TypeError, KeyError):
            return None


class OwnLease:
    """A lease of this process; it ends with `release` or with the process."""

    def __init__(self, lease: Lease, folder: Path, public: OwnPublicLease | None = None) -> None:
        self._lease, self._public = lease, public
        self._path, self._lock = _write(lease, folder)

    def release(self, reason: str = "") -> None:
        """End the lease, and for a `reason` record the use of the GPUs in the directory for all users."""
        remove_locked(self._path, self._lock)
        if self._public is not None:
            self._public.release(reason)

    def rename(self, holder: str) -> None:
        """Change the name of the holder, inside `LeaseFolder.lock`; an `OSError` leaves the lease unchanged."""
        lease = replace(self._lease, holder=holder)
        new, lock = _write(lease, self._path.parent)
        new.replace(self._path)
        os.close(self._lock)
        self._lease, self._lock = lease, lock


def _write(lease: Lease, folder: Path) -> tuple[Path, int]:
    values = asdict(lease) | {"holder": lease.holder[:_LONGEST_HOLDER]}
    return create_locked(folder, _SUFFIX, json.dumps(values).encode())


class LeaseFolder:
    """The leases of this user, and the public part of other users' leases.

    - `path`: by default a folder in Jupyter's runtime directory.
    - `registry`: the directory for all users, by default that of the environment.

    - `line`: the starts that wait for GPUs, of all users if there is a directory for them.
    - `idle`: the clusters whose GPUs can be asked for, the one first that has been idle longest.
    """

    def __init__(self, path: Path | None = None, registry: LeaseRegistry | None = None) -> None:
        self.path = path or Path(jupyter_runtime_dir()) / "gpudask-leases"
        self._registry = registry or LeaseRegistry.from_environment()
        place = self._registry.path if self._registry else self.path
        self.line, self.idle = WaitingLine(place), WaitingLine(place, IDLE_SUFFIX)

    @contextmanager
    def lock(self) -> Iterator[list[Lease]]:
        """The current leases, while no other process can take one; stale ones are removed."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mutex = os.open(self.path / _MUTEX, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(mutex, fcntl.LOCK_EX)
            for path in stale_files(self.path, _SUFFIX):
                remove_if_stale(path)
            with self._registry.lock() if self._registry else nullcontext():
                yield self.read()
        finally:
            os.close(mutex)

    def take(
        self, gpus: Sequence[str], *, holder: str, kernel_id: str, share: bool, accelerates: bool = False
    ) -> OwnLease:
        """Take a lease on the GPUs with these UUIDs; only inside `lock`."""
        public = self._registry.take(gpus, share=share) if self._registry else None
        lease = Lease(
            gpus=tuple(gpus),
            holder=holder or f"process {os.getppid()}",
            kernel_id=kernel_id,
            pid=os.getpid(),
            share=share,
            public="" if public is None else public.path.name,
            accelerates=accelerates,
        )
        try:
            return OwnLease(lease, self.path, public)
        except OSError:
            if public is not None:
                public.release("")
            raise

    def place_of(self, error: OSError) -> Path:
        """The directory that an error of `lock` or `take` is about."""
        registry = self._registry
        is_public = registry is not None and error.filename and Path(error.filename).is_relative_to(registry.path)
        return registry.path if registry is not None and is_public else self.path

    def read(self) -> list[Lease]:
        """The leases whose process lives. Of those of others only the user and the times are known."""
        own = self._read_own()
        named = {lease.public for lease in own}
        others = [lease for lease in self._registry.read() if lease.name not in named] if self._registry else []
        if not others:
            return own
        idle = {(each.lease.uid, frozenset(each.lease.gpus)): each.lease.since for each in self.idle.read()}

        def holder_of(lease: PublicLease) -> str:
            since = idle.get((lease.uid, frozenset(lease.gpus)))
            return lease.holder + ("" if since is None else f", idle since {clock_time(since)}")

        return own + [Lease(lease.gpus, holder_of(lease), "", 0, lease.share, lease.name) for lease in others]

    def read_public(self) -> list[PublicLease]:
        """The leases whose process lives, with the user id of each holder, which nobody can forge."""
        public = self._registry.read() if self._registry else []
        names = {lease.name for lease in public}
        own = [lease for lease in self._read_own() if lease.public not in names]
        return public + [PublicLease("", lease.gpus, lease.share, os.geteuid(), 0.0) for lease in own]

    def wanted_before(self, place: Place | None, gpus: Iterable[str]) -> list[Lease]:
        """What the starts before `place` in the line wait for, as if they held it; see `WaitingLine.before`."""
        found = self.line.before(place, gpus)
        return [Lease(each.lease.gpus, each.description, "", 0, each.lease.share) for each in found]

    def gpus_of_user(self, *, without: int | None = None) -> set[str]:
        """The UUIDs of the GPUs that clusters of this user hold, but not that of the supervisor `without`."""
        own = self._read_own()
        left_out = {lease.public for lease in own if lease.pid == without}
        found = {uuid for lease in own if lease.pid != without for uuid in lease.gpus}
        for lease in self._registry.read() if self._registry else ():
            if lease.uid == os.geteuid() and lease.name not in left_out:
                found.update(lease.gpus)
        return found

    def _read_own(self) -> list[Lease]:
        found = (Lease.from_content(content) for _, content, _ in valid_files(self.path, _SUFFIX))
        return [lease for lease in found if lease is not None]

    def remove_stale(self) -> None:
        """Remove the leases of processes that have ended."""
        try:
            if stale_files(self.path, _SUFFIX):
                with self.lock():
                    pass
        except OSError as error:  # they hold nothing, and the next process that takes a lease removes them
            logger.warning("Stale leases cannot be removed from %s: %s", self.path, error)


THIS_KERNEL = "this kernel"
"""The name of the holder if it is the supervisor of the kernel that asks."""


def holders_of(leases: Iterable[Lease], *, own: Collection[int | None] = ()) -> dict[str, list[str]]:
    """The names of the holders of each GPU, by UUID; `own` are the pids of the kernel that asks and its supervisor."""
    holders: dict[str, list[str]] = {}
    for lease in leases:
        holder = THIS_KERNEL if lease.pid in own else lease.holder
        for uuid in lease.gpus:
            names = holders.setdefault(uuid, [])
            if holder != THIS_KERNEL or holder not in names:  # its cluster and itself can hold the same GPU
                names.append(holder)
    return holders


def leases_of_others(leases: Iterable[Lease], kernel_id: str) -> list[Lease]:
    """The leases without that of an accelerated kernel, whose cluster may use the same GPU.

    `leases`: the leases of all clusters and kernels. `kernel_id`: the kernel; if it is empty, this process is the
    kernel, or its supervisor.
    """
    pids = (os.getpid(), os.getppid())
    return [
        lease
        for lease in leases
        if not (lease.accelerates and (lease.kernel_id == kernel_id if kernel_id else lease.pid in pids))
    ]
