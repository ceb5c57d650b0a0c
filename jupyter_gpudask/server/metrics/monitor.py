"""The state of GPUs and clusters on request; GPU metrics are cached, so NVML is read once for all requests."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from .cluster_info import cluster_info, with_gpu_metrics
from .gpu_reader import GpuReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Executor

    from ...protocol import ClusterState
    from ...protocol.api.rest import ClusterInfo, GpuInfo, GpuList
    from ..clusters.cluster import KernelCluster
    from ..clusters.manager import ClusterManager

    Notebooks = Mapping[str, tuple[str, ...]]

INTERVAL = 1.0
"""Seconds between two reads of the GPUs while a browser is connected."""


class Monitor:
    """Reads the GPUs of the machine and describes the clusters of a server.

    Parameters
    ----------
    manager
        The clusters.

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
