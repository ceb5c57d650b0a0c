"""Read the GPUs for the browser: NVML's metrics, the holders of leases, and the processes on each GPU."""

from __future__ import annotations

import logging
import os
from itertools import islice
from typing import TYPE_CHECKING, Any

import psutil

from ...errors import GpuUnavailableError
from ...machine.gpus import list_gpus
from ...machine.leases import Lease, LeaseFolder
from ...protocol.rest import ErrorDetails, GpuHolder, GpuInfo, GpuList, GpuUser, WaitingStart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...machine.waiting_line import Waiting
    from ...protocol import GpuProcess, GpuState
    from ..clusters.kernels import KernelProcess

logger = logging.getLogger(__name__)

# The driver itself uses some hundred MB of an H200.
_DRIVER_MEMORY = 2**30
_MOST_WAITING = 50


class GpuReader:
    """Reads the GPUs, and logs a problem once, not with each read. It blocks, and is not thread-safe."""

    def __init__(self) -> None:
        self._seen: dict[str, GpuState] = {}
        self._reason = ""

    def read(self, supervisors: Mapping[int, str], kernels: Mapping[int, KernelProcess] | None = None) -> GpuList:
        """Read all GPUs.

        Parameters
        ----------
        supervisors
            Kernel ids of this server's clusters, by the pid of the supervisor.
        kernels
            Processes of this server's kernels, by pid.
        """
        kernels = kernels or {}
        try:
            gpus = list_gpus()
        except GpuUnavailableError as error:
            return self._listed(error)
        here = {gpu.uuid for gpu in gpus}
        # With a shared home folder there are also leases of other hosts, whose pids have no meaning here.
        folder = LeaseFolder()
        leases = [lease for lease in folder.read() if here.intersection(lease.gpus)]
        supervisors = {lease.pid: lease.kernel_id for lease in leases if lease.kernel_id} | dict(supervisors)
        return self._listed(
            self._missing(gpus),
            gpus=tuple(_gpu_info(gpu, leases, supervisors, kernels) for gpu in gpus),
            waiting=_waiting_starts(folder.line.read(), gpus),
        )

    def _missing(self, gpus: Sequence[GpuState]) -> GpuUnavailableError | None:
        """The error of GPUs that earlier reads found and this one did not; `None` if there are none."""
        # A GPU with this index and a new UUID: MIG mode was changed. But if a GPU is removed its neighbour, which has a
        # known UUID, gets its index.
        answering = {gpu.index for gpu in gpus if self._seen.get(gpu.uuid, gpu).index == gpu.index}
        others = {uuid: gpu for uuid, gpu in self._seen.items() if gpu.index not in answering}
        self._seen = {gpu.uuid: gpu for gpu in gpus} | others
        missing = [f"{gpu.index} ({gpu.name})" for uuid, gpu in others.items() if all(gpu.uuid != uuid for gpu in gpus)]
        return GpuUnavailableError("gpus-lost", gpus=", ".join(missing)) if missing else None

    def _listed(self, error: GpuUnavailableError | None, **found: Any) -> GpuList:
        """The answer with an error, which is logged when it is new."""
        reason, fix = (error.reason, error.fix) if error else ("", "")
        if reason != self._reason:
            logger.warning("%s", reason or "All GPUs respond again.")
            self._reason = reason
        return GpuList(**found, reason=reason, fix=fix, error=ErrorDetails.of(error))


def _gpu_info(
    gpu: GpuState,
    leases: Sequence[Lease],
    supervisors: Mapping[int, str],
    kernels: Mapping[int, KernelProcess],
) -> GpuInfo:
    holders = tuple(
        # Without the kernel of an accelerated notebook: the panel would look for its cluster.
        GpuHolder(
            name=lease.holder, kernel_id=None if lease.accelerates else lease.kernel_id or None, share=lease.share
        )
        for lease in leases
        if gpu.uuid in lease.gpus
    )
    users = tuple(_gpu_user(process, supervisors, kernels) for process in gpu.processes)
    return GpuInfo(**dict(gpu), holders=holders, users=users, hidden_use=not holders and _has_hidden_use(gpu))


def _waiting_starts(line: Sequence[Waiting], gpus: Sequence[GpuState]) -> tuple[WaitingStart, ...]:
    """The starts that wait for GPUs of this machine; what other users have written is limited to what it can mean."""
    here = [(waiting, tuple(gpu.uuid for gpu in gpus if gpu.uuid in waiting.lease.gpus)) for waiting in line]
    starts = (
        WaitingStart(
            user=waiting.description,
            own=waiting.lease.uid == os.geteuid(),
            since=waiting.since / 1e9,
            gpus=wanted,
            count=min(max(waiting.lease.count, 1), len(wanted)),
        )
        for waiting, wanted in here
        if wanted
    )
    return tuple(islice(starts, _MOST_WAITING))


def _has_hidden_use(gpu: GpuState) -> bool:
    sizes = [process.memory for process in gpu.processes]
    known = [size for size in sizes if size is not None]
    if gpu.memory_used is None or len(known) < len(sizes):
        return False
    return gpu.memory_used - sum(known) > _DRIVER_MEMORY


def _gpu_user(process: GpuProcess, supervisors: Mapping[int, str], kernels: Mapping[int, KernelProcess]) -> GpuUser:
    pid = process.pid
    try:
        session = os.getsid(pid)
        details = psutil.Process(pid).as_dict(["name", "username"])
    except (OSError, psutil.Error):  # it has ended, or is in another container
        return GpuUser(pid=pid, memory=process.memory)
    kernel = kernels.get(session)  # a kernel is a session leader, as is a supervisor
    return GpuUser(
        pid=pid,
        name=details["name"],
        user=details["username"],
        memory=process.memory,
        kernel_id=kernel.kernel_id if kernel else supervisors.get(session),
        notebook=kernel.notebook if kernel else None,
    )
