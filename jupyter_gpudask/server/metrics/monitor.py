"""The state of GPUs and clusters on request; GPU metrics are cached, so NVML is read once for all requests."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ...protocol.rest import ClusterInfo, ErrorDetails
from .gpu_reader import GpuReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from concurrent.futures import Executor

    from ...protocol import ClusterState, GpuState, WorkerState
    from ...protocol.rest import GpuInfo, GpuList
    from ..clusters.cluster import KernelCluster
    from ..clusters.kernels import ServerKernels
    from ..clusters.manager import ClusterManager

    Notebooks = Mapping[str, tuple[str, ...]]

INTERVAL = 1.0
"""Seconds between two reads of the GPUs while a browser is connected."""

DASHBOARD_PATH = "gpudask/dashboard"
"""Path of the proxied Dask dashboards, relative to the server's base URL."""

JOINED_PATH = "gpudask/joined"
"""Path of the dashboards of clusters that somebody else started; a secret follows."""


class Monitor:
    """Reads the GPUs of the machine and describes the clusters of a server.

    Attributes
    ----------
    max_age
        Age in seconds up to which cached GPU metrics are used; the `Broadcaster` raises it while it reads periodically.
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
        if any(state is not None and state.engine == "cuda" for state in states):
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
    cluster: KernelCluster,
    notebooks: Mapping[str, tuple[str, ...]],
    kernels: ServerKernels,
    gpus: Iterable[GpuState],
) -> ClusterInfo:
    """Describe a cluster for the browser; credentials and secrets are left out.

    Parameters
    ----------
    cluster
        The cluster.
    notebooks
        Paths of the notebooks of each kernel.
    kernels
        The kernels of the server.
    gpus
        The GPUs of the machine, whose metrics are merged into the states of the workers.
    """
    ready, progress, error = cluster.ready, cluster.progress, cluster.error
    notice = cluster.notice if cluster.status == "ready" else None
    state = cluster.state if ready else None
    paths = notebooks.get(cluster.kernel_id, ())
    return ClusterInfo(
        kernel_id=cluster.kernel_id,
        name=", ".join(path.rpartition("/")[2] for path in paths) or kernels.name(cluster.kernel_id),
        notebooks=paths,
        status=cluster.status,
        reason=error.reason if error else "",
        fix=error.fix if error else "",
        error=ErrorDetails.of(error),
        log=error.log if error else "",
        held_gpus=error.held if error else (),
        spec=cluster.spec,
        since=cluster.since,
        workers_ready=progress.ready if progress else 0,
        workers_total=progress.total if progress else 0,
        notes=_notes(state) if state else progress.notes if progress and not ready else (),
        wanted_by=notice.user if notice else "",
        given_over_at=notice.deadline if notice else None,
        engine=ready.engine if ready else None,
        stand_in=ready.stand_in if ready else "",
        gpus=tuple(gpu.uuid for gpu in ready.gpus) if ready else (),
        pid=(ready.pid or None) if ready else None,
        joined=cluster.joined,
        limits=ready.limits if ready else {},
        dashboard=f"{DASHBOARD_PATH}/{cluster.kernel_id}/" if cluster.has_dashboard else None,
        automatic=cluster.automatic,
        state=None if state is None else with_gpu_metrics(state, gpus),
    )


def _notes(state: ClusterState) -> tuple[str, ...]:
    others = state.others_unfinished
    return (*state.notes, *([f"{others} unfinished task{'s' * (others > 1)} of others."] if others else []))


def with_gpu_metrics(state: ClusterState, gpus: Iterable[GpuState]) -> ClusterState:
    """Merge the metrics of `gpus` into the states of the workers; supervisors of the server do not read NVML."""
    if state.engine != "cuda":
        return state
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    return state.model_copy(update={"workers": tuple(_with_gpu(worker, by_uuid) for worker in state.workers)})


def _with_gpu(worker: WorkerState, gpus: dict[str, GpuState]) -> WorkerState:
    # The class of a cluster profile selects its GPUs itself, and may name its workers after them.
    gpu = gpus.get(worker.gpu_uuid or worker.name)
    if gpu is None:
        return worker
    return worker.model_copy(
        update={
            "gpu_index": gpu.index,
            "gpu_uuid": gpu.uuid,
            "utilization": gpu.utilization,
            "device_memory_used": gpu.memory_used,
            "device_memory_total": gpu.memory_total,
        }
    )
