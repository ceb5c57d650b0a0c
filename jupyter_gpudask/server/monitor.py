"""Read the GPUs, the machine and the clusters, and describe them for browsers."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import psutil

from ..errors import GpuUnavailableError
from ..machine.gpus import list_gpus
from ..machine.leases import Lease, LeaseFolder, Waiting
from ..protocol.engines import has_gpus
from ..protocol.messages import Action
from ..protocol.rest import ClusterInfo, ErrorDetails, GpuHolder, GpuInfo, GpuList, GpuUser, WaitingStart
from ..protocol.state import ClusterState, GpuProcess, GpuState
from .cluster import KernelCluster
from .kernels import KernelProcess, ServerKernels
from .manager import ClusterManager

Notebooks = Mapping[str, tuple[str, ...]]

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
        """Read all GPUs; `supervisors` are kernel ids by the pid of the supervisor, `kernels` processes by pid."""
        kernels = kernels or {}
        try:
            gpus = list_gpus()
        except GpuUnavailableError as error:
            return self._list(error)
        here = {gpu.uuid for gpu in gpus}
        # With a shared home folder there are also leases of other hosts, whose pids have no meaning here.
        folder = LeaseFolder()
        leases = [lease for lease in folder.read() if here.intersection(lease.gpus)]
        supervisors = {lease.pid: lease.kernel_id for lease in leases if lease.kernel_id} | dict(supervisors)
        return self._list(
            self._error_of_missing(gpus),
            gpus=tuple(_gpu_info(gpu, leases, supervisors, kernels) for gpu in gpus),
            waiting=_waiting_starts(folder.line.read(), gpus),
        )

    def _error_of_missing(self, gpus: Sequence[GpuState]) -> GpuUnavailableError | None:
        """The error of GPUs that earlier reads found and this one did not; `None` if there are none."""
        # A GPU with this index and a new UUID: MIG mode was changed. But if a GPU is removed its neighbour, which has a
        # known UUID, gets its index.
        answering = {gpu.index for gpu in gpus if self._seen.get(gpu.uuid, gpu).index == gpu.index}
        others = {uuid: gpu for uuid, gpu in self._seen.items() if gpu.index not in answering}
        self._seen = {gpu.uuid: gpu for gpu in gpus} | others
        missing = [f"{gpu.index} ({gpu.name})" for uuid, gpu in others.items() if all(gpu.uuid != uuid for gpu in gpus)]
        return GpuUnavailableError("gpus-lost", gpus=", ".join(missing)) if missing else None

    def _list(self, error: GpuUnavailableError | None, **found: Any) -> GpuList:
        """The answer with an error, which is logged when it is new."""
        reason, fix = (error.reason, error.fix) if error else ("", "")
        if reason != self._reason:
            logger.warning("%s", reason or "All GPUs respond again.")
            self._reason = reason
        return GpuList(**found, reason=reason, fix=fix, error=ErrorDetails.of(error))


def _gpu_info(
    gpu: GpuState, leases: Sequence[Lease], supervisors: Mapping[int, str], kernels: Mapping[int, KernelProcess]
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
            kernel_id=waiting.kernel_id or None,
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


@dataclass(frozen=True)
class MachineState:
    """The state of the machine at one time; counters start when it was booted.

    - `cpu_busy`, `cpu_total`: seconds that all processors were busy, and that have passed for them.
    - `memory_used`, `memory_total`: host memory in bytes; what the system can free at once, such as cached files, is
      not used.
    - `disk_bytes`: bytes read from and written to disks; `None` if the system does not report them.
    - `network_bytes`: bytes sent and received over network interfaces other than the loopback interface; `None` if
      there are none.
    """

    cpu_busy: float
    cpu_total: float
    memory_used: int
    memory_total: int
    disk_bytes: int | None
    network_bytes: int | None


def read_machine() -> MachineState:
    """The state of the machine; in a container, that of the machine on which it runs."""
    cpu, memory = psutil.cpu_times(), psutil.virtual_memory()
    total = sum(cpu) - cpu.guest - cpu.guest_nice  # these two are also part of `user` and `nice`
    disks = _hardware(psutil.disk_io_counters(perdisk=True) or {}, Path("/sys/block"))
    return MachineState(
        cpu_busy=total - cpu.idle - cpu.iowait,
        cpu_total=total,
        memory_used=memory.total - memory.available,
        memory_total=memory.total,
        disk_bytes=sum(disk.read_bytes + disk.write_bytes for disk in disks.values()) if disks else None,
        network_bytes=_network_bytes(),
    )


def _network_bytes() -> int | None:
    interfaces = psutil.net_io_counters(pernic=True)
    interfaces.pop("lo", None)
    # A container has virtual interfaces only.
    counted = _hardware(interfaces, Path("/sys/class/net")) or interfaces
    return sum(each.bytes_sent + each.bytes_recv for each in counted.values()) if counted else None


def _hardware(devices: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The devices that are hardware: bytes of partitions, bridges and the like are also counted by their device."""
    return {name: counters for name, counters in devices.items() if (folder / name / "device").exists()}


INTERVAL = 1.0
"""Seconds between two reads of the GPUs while a browser is connected."""

DASHBOARD_PATH = "gpudask/dashboard"
"""Path of the proxied Dask dashboards, relative to the server's base URL."""

JOINED_PATH = "gpudask/joined"
"""Path of the dashboards of clusters that somebody else started; a secret follows."""


class Monitor:
    """Reads the GPUs of the machine and describes the clusters of a server.

    - `max_age`: age in seconds up to which cached GPU metrics are used; the `Broadcaster` raises it while it reads
      periodically.
    """

    def __init__(self, manager: ClusterManager) -> None:
        self.max_age = 0.0
        self._manager = manager
        self._reader = GpuReader()
        self._lock = asyncio.Lock()
        self._gpus: GpuList | None = None
        self._read_at = 0.0

    @property
    def last(self) -> Sequence[GpuInfo]:
        """The GPUs as they were last read; empty before the first time."""
        return self._gpus.gpus if self._gpus is not None else ()

    async def gpus(self, max_age: float = 0.0) -> GpuList:
        """The GPUs, with metrics that are at most `max_age` seconds old, or `self.max_age` if that is more."""
        async with self._lock:
            if self._gpus is not None and time.monotonic() - self._read_at < max(max_age, self.max_age):
                return self._gpus
            return await self._read(await self._manager.kernels.notebooks())

    async def read_gpus(self, notebooks: Notebooks, executor: Executor) -> GpuList:
        """Read the GPUs in `executor`, whatever the age of the cached metrics; `notebooks` are those of each kernel."""
        async with self._lock:
            return await self._read(notebooks, executor)

    async def describe(self, *clusters: KernelCluster) -> tuple[ClusterInfo, ...]:
        """What the REST interface reports about clusters."""
        gpus = await self._gpus_of(*(cluster.state for cluster in clusters))
        notebooks = await self._manager.kernels.notebooks()
        return tuple(cluster_info(cluster, notebooks, self._manager.kernels, gpus) for cluster in clusters)

    async def with_gpu_metrics(self, state: ClusterState) -> ClusterState:
        """The state of a cluster, merged with GPU metrics that are at most a second old."""
        return with_gpu_metrics(state, await self._gpus_of(state))

    async def _gpus_of(self, *states: ClusterState | None) -> Sequence[GpuInfo]:
        if any(state is not None and has_gpus(state.engine) for state in states):
            return (await self.gpus(INTERVAL)).gpus
        return ()

    async def _read(self, notebooks: Notebooks, executor: Executor | None = None) -> GpuList:
        processes = self._manager.kernels.processes(notebooks)
        clusters = self._manager.clusters.values()
        supervisors = {cluster.ready.pid: cluster.kernel_id for cluster in clusters if cluster.ready is not None}
        loop = asyncio.get_running_loop()
        self._gpus = await loop.run_in_executor(executor, self._reader.read, supervisors, processes)
        self._read_at = time.monotonic()
        return self._gpus


def cluster_info(
    cluster: KernelCluster, notebooks: Notebooks, kernels: ServerKernels, gpus: Iterable[GpuState]
) -> ClusterInfo:
    """Describe a cluster for the browser; credentials and secrets are left out.

    - `gpus`: the GPUs of the machine, whose metrics are merged into the states of the workers.
    """
    ready, progress, error = cluster.ready, cluster.progress, cluster.error
    notice = cluster.notice if cluster.status == "ready" else None
    state = cluster.state if ready else None
    paths = tuple(path for kernel_id in cluster.kernel_ids for path in notebooks.get(kernel_id, ()))
    return ClusterInfo(
        kernel_id=cluster.kernel_id,
        name=cluster.name or ", ".join(path.rpartition("/")[2] for path in paths) or kernels.name(cluster.kernel_id),
        notebooks=paths,
        status=cluster.status,
        reason=error.reason if error else "",
        fix=error.fix if error else "",
        error=ErrorDetails.of(error),
        log=error.log if error else "",
        reserved_gpus=error.reserved_gpus if error else (),
        spec=cluster.spec,
        since=cluster.since,
        workers_ready=progress.ready if progress else 0,
        workers_total=progress.total if progress else 0,
        notes=_notes(state) if state else progress.notes if progress and not ready else (),
        place=progress.place if progress and cluster.status == "starting" else 0,
        wanted_by=notice.user if notice else "",
        given_over_at=notice.deadline if notice else None,
        engine=ready.engine if ready else None,
        cpu_reason=ready.cpu_reason if ready and cluster.shared is None else "",
        gpus=tuple(gpu.uuid for gpu in ready.gpus) if ready else (),
        pid=(ready.pid or None) if ready else None,
        joined=cluster.joined,
        limits=_limits(cluster),
        dashboard=f"{DASHBOARD_PATH}/{cluster.kernel_id}/" if cluster.has_dashboard else None,
        automatic=cluster.automatic,
        busy=kernels.is_busy(*cluster.kernel_ids),
        cells=cluster.cells,
        state=None if state is None else with_gpu_metrics(state, gpus),
    )


def _limits(cluster: KernelCluster) -> dict[Action, str]:
    """What cannot be done with a cluster; the server shows the dashboard of a shared one, which the kernel lacks."""
    limits = cluster.ready.limits if cluster.ready else {}
    shows = cluster.shared is not None and cluster.has_dashboard
    return {action: why for action, why in limits.items() if not (shows and action == "dashboard")}


def _notes(state: ClusterState) -> tuple[str, ...]:
    others = state.others_unfinished
    return (*state.notes, *([f"{others} unfinished task{'s' * (others > 1)} of others."] if others else []))


def with_gpu_metrics(state: ClusterState, gpus: Iterable[GpuState]) -> ClusterState:
    """Merge the metrics of `gpus` into the states of the workers; supervisors of the server do not read NVML."""
    if not has_gpus(state.engine):
        return state
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    # The class of a cluster preset selects its GPUs itself, and may name its workers after them.
    workers = tuple(worker.with_gpu(by_uuid.get(worker.gpu_uuid or worker.name)) for worker in state.workers)
    return state.model_copy(update={"workers": workers})
