"""Leases on GPUs: files in a folder of the user, each locked as long as the process that holds the GPUs lives.

Every supervisor takes its leases here, so that no two clusters of one user get the same GPU, even from two Jupyter
servers. A lease ends with its process, however the process ends, because Linux releases the lock. If the administrator
has set a directory for all users, a lease has a second file there, without the name of the notebook: see
`lease_registry`. So has a start that waits.

Starts that wait for GPUs stand in a queue, first come, first served. A start waits behind the starts that wait for a
GPU which it could get, and not behind starts that wait for other GPUs. Idle clusters have a separate queue; the cluster
that has been idle longest is asked for its GPUs first: see `clusters_to_ask`. Every server computes this from the same
files, so that no more clusters are asked than a start needs. The content of another user's file only decides whether an
idle cluster is asked, and in which order. Whether a cluster is idle is decided by its own server.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from jupyter_core.paths import jupyter_runtime_dir

from .lease_registry import (
    LeaseRegistry,
    OwnPublicLease,
    PublicLease,
    clock_time,
    create_locked,
    read_lease,
    remove_if_stale,
    remove_locked,
    stale_files,
    user_since,
    valid_files,
    write_lease,
)

_WAITING_SUFFIX = ".waiting"
_NAME_SUFFIX = ".name"
IDLE_SUFFIX = ".idle"


@dataclass(frozen=True, order=True)
class Waiting:
    """A start that waits, or a cluster that is idle; sorted by its time.

    - `since`: when it entered the line, in nanoseconds since the epoch: the last change of its file (``st_ctime_ns``),
      which nobody can set back.
    - `device`, `inode`: its file, which has one place however many hard links it has.
    - `lease`: the GPUs any of which it could get, or which the cluster holds, and whether it would share them.
    - `holder`, `kernel_id`: the name of the notebook and its kernel, of a start of this user; empty if unknown.
    """

    since: int
    device: int
    inode: int
    lease: PublicLease = field(compare=False)
    holder: str = field(default="", compare=False)
    kernel_id: str = field(default="", compare=False)

    @property
    def description(self) -> str:
        """Who waits: ``analysis.ipynb since 14:05``, or of another user ``user anna since 14:05``."""
        since = self.since / 1e9
        return f"{self.holder} since {clock_time(since)}" if self.holder else user_since(self.lease.uid, since)


@dataclass(frozen=True)
class Place:
    """A place in the queue, which ends with `leave` or with the process."""

    path: Path
    lock: int
    gpus: frozenset[str]
    name: OwnLease | None = None

    @property
    def order(self) -> tuple[int, int, int]:
        """What the line is sorted by; see `Waiting`."""
        return _order(os.fstat(self.lock))

    def leave(self) -> None:
        """Leave the line."""
        with suppress(OSError):  # without its lock it is no place, and the next start that waits removes it
            self.path.unlink(missing_ok=True)
        os.close(self.lock)
        if self.name is not None:
            self.name.release()


class WaitingLine:
    """The queue of all users, or of this user's clusters.

    `names`: the folder of this user for the names of those who stand in it, by default `folder`.
    """

    def __init__(self, folder: Path, suffix: str = _WAITING_SUFFIX, names: Path | None = None) -> None:
        self._folder, self._suffix, self._names = folder, suffix, names or folder

    def enter(
        self,
        gpus: Sequence[str],
        *,
        share: bool = False,
        since: float | None = None,
        count: int = 0,
        holder: str = "",
        kernel_id: str = "",
    ) -> Place:
        """Stand at the end of the line; files of this user's processes that have ended are removed.

        Only while the directory is locked: another process would remove a file that is not locked yet.

        - `gpus`: the UUIDs of the GPUs any of which the start could get.
        - `share`: whether it would share them.
        - `since`, `count`: see `PublicLease`.
        - `holder`, `kernel_id`: the name of the notebook and its kernel, which other users do not see.

        Raises `OSError` if the directory cannot be written to.
        """
        for path in (*stale_files(self._folder, self._suffix), *stale_files(self._names, _NAME_SUFFIX)):
            remove_if_stale(path)
        written = write_lease(self._folder, self._suffix, gpus, share=share, since=since, count=count)
        name = None
        if holder:
            with suppress(OSError):  # it waits without its name
                lease = Lease((), holder, kernel_id, os.getpid(), share, written[0].name)
                name = OwnLease(lease, self._names, suffix=_NAME_SUFFIX)
        return Place(*written, frozenset(gpus), name)

    def before(self, place: Place | None, gpus: Iterable[str]) -> list[Waiting]:
        """The starts that wait for one of these GPUs, before `place` if that is given, the first one first."""
        own, wanted = None if place is None else place.order, set(gpus)
        return [
            waiting
            for waiting in self.read()
            if wanted.intersection(waiting.lease.gpus)
            and (own is None or (waiting.since, waiting.device, waiting.inode) < own)
        ]

    def read(self) -> list[Waiting]:
        """The starts that wait, the first one first."""
        files = [(file[2], lease) for file in valid_files(self._folder, self._suffix) if (lease := read_lease(*file))]
        is_any_own = any(lease.uid == os.geteuid() for _, lease in files)
        named = _read(self._names, _NAME_SUFFIX) if is_any_own else []
        names = {(os.geteuid(), each.public): (each.holder, each.kernel_id) for each in named}
        return sorted(
            Waiting(*_order(status), lease, *names.get((lease.uid, lease.name), ())) for status, lease in files
        )


def _order(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ctime_ns, status.st_dev, status.st_ino


def clusters_to_ask(
    line: Sequence[Waiting], leases: Sequence[PublicLease], idle: Sequence[Waiting], max_gpus: int | None = None
) -> dict[Waiting, Waiting]:
    """Choose the idle clusters that are asked for their GPUs.

    For each start that nobody stands before, those are chosen that have been idle longest, as many as it needs. If it
    could not begin with the GPUs of all of them, none is asked. GPUs that several clusters share are not asked for. If
    its user would hold too many GPUs, only the clusters of the same user are asked.

    - `line`: the starts that wait, the first one first.
    - `idle`: the clusters that are idle, the one first that has been so longest. Of a GPU that its owner does not hold,
      nothing is expected.
    - `max_gpus`: the largest number of GPUs of a user; `None` for no limit.

    Returns the start that waits, for each cluster that is asked.
    """
    asked: dict[Waiting, Waiting] = {}
    behind: set[str] = set()
    for waiting in line:
        wanted = set(waiting.lease.gpus)
        if not wanted & behind:
            others = not _exceeds(max_gpus, waiting, leases)
            candidates = [cluster for cluster in idle if others or cluster.lease.uid == waiting.lease.uid]
            asked |= dict.fromkeys(_clusters_for(waiting, wanted, leases, candidates), waiting)
        behind |= wanted
    return asked


def _count_needed(waiting: Waiting) -> int:
    gpus = len(set(waiting.lease.gpus))
    return min(waiting.lease.count or gpus, gpus)


def _exceeds(max_gpus: int | None, waiting: Waiting, leases: Sequence[PublicLease]) -> bool:
    """Whether the user of a start would hold more GPUs than allowed, so that it would fail."""
    leased = {uuid for lease in leases if lease.uid == waiting.lease.uid for uuid in lease.gpus}
    return max_gpus is not None and len(leased) + _count_needed(waiting) > max_gpus


def _clusters_for(
    waiting: Waiting, wanted: set[str], leases: Sequence[PublicLease], idle: Sequence[Waiting]
) -> list[Waiting]:
    conflicting = [lease for lease in leases if not (lease.share and waiting.lease.share)]
    holders = Counter(uuid for lease in conflicting for uuid in set(lease.gpus))
    missing = _count_needed(waiting) - len(wanted - set(holders))
    leased_by = {(lease.uid, uuid) for lease in conflicting for uuid in lease.gpus}
    chosen: list[Waiting] = []
    counted: set[str] = set()
    for cluster in idle:
        gained = {
            uuid
            for uuid in wanted.intersection(cluster.lease.gpus) - counted
            if holders[uuid] == 1 and (cluster.lease.uid, uuid) in leased_by
        }
        if missing > 0 and gained:
            chosen.append(cluster)
            counted |= gained
            missing -= len(gained)
    return chosen if missing <= 0 else []


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
    - `share`: whether other clusters that share may reserve them too.
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

    def __init__(
        self, lease: Lease, folder: Path, public: OwnPublicLease | None = None, *, suffix: str = _SUFFIX
    ) -> None:
        self._lease, self._public = lease, public
        self._path, self._lock = _write(lease, folder, suffix)

    def release(self, reason: str = "") -> None:
        """End the lease, and for a `reason` record the use of the GPUs in the directory for all users."""
        remove_locked(self._path, self._lock)
        if self._public is not None:
            self._public.release(reason)

    def rename(self, holder: str) -> None:
        """Change the name of the holder, inside `LeaseFolder.lock`; an `OSError` leaves the lease unchanged."""
        lease = replace(self._lease, holder=holder)
        new, lock = _write(lease, self._path.parent, _SUFFIX)
        new.replace(self._path)
        os.close(self._lock)
        self._lease, self._lock = lease, lock


def _write(lease: Lease, folder: Path, suffix: str) -> tuple[Path, int]:
    values = asdict(lease) | {"holder": lease.holder[:_LONGEST_HOLDER]}
    return create_locked(folder, suffix, json.dumps(values).encode())


def _read(folder: Path, suffix: str) -> list[Lease]:
    found = (Lease.from_content(content) for _, content, _ in valid_files(folder, suffix))
    return [lease for lease in found if lease is not None]


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
        self.line, self.idle = WaitingLine(place, names=self.path), WaitingLine(place, IDLE_SUFFIX)

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
        return _read(self.path, _SUFFIX)

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
