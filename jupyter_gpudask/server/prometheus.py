"""Metrics for Prometheus: the clusters and the GPUs in Jupyter Server's ``/metrics``."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import psutil
from prometheus_client import Counter as CounterMetric
from prometheus_client import Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from ..protocol.rest import Status
from ..protocol.state import GpuState
from .cluster import KernelCluster
from .manager import ClusterManager
from .monitor import INTERVAL, Monitor

_START_BUCKETS = (1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120)
_STATUSES: tuple[Status, ...] = ("starting", "ready", "closing", "closed", "failed")


class PrometheusMetrics(Collector):
    """Collects the metrics when they are requested.

    A request waits neither for the driver nor for a cluster: it gets the last readings, and starts new ones, which the
    next request gets.
    """

    def __init__(self, manager: ClusterManager, monitor: Monitor, registry: CollectorRegistry) -> None:
        self._manager, self._monitor, self._registry = manager, monitor, registry
        self._user = psutil.Process().username()
        self._is_reading = False
        own = CollectorRegistry()  # so that `close` takes all of them out at once
        self._starts = Histogram(
            "gpudask_cluster_start_seconds",
            "Duration of the starts that succeeded.",
            buckets=_START_BUCKETS,
            registry=own,
        )
        self._failures = CounterMetric(
            "gpudask_cluster_failures",
            "Clusters that did not start, or were lost, by the class of the error.",
            ["reason"],
            registry=own,
        )
        self._cells = CounterMetric(
            "gpudask_cells", "Cells that ended, by whether their cluster has GPUs.", ["engine"], registry=own
        )
        self._fallback_blocks = CounterMetric(
            "gpudask_fallback_blocks",
            "Blocks that cells computed on the host because CuPy or cuDF lack the operation.",
            registry=own,
        )
        self._own = own
        self._stop_observing = manager.observe(self._on_status)
        registry.register(self)

    def close(self) -> None:
        """Remove the metrics from the registry."""
        self._stop_observing()
        self._registry.unregister(self)

    def count_cell(self, cluster: KernelCluster, fallback_blocks: int) -> None:
        """Count a cell of a kernel that has ended, and its blocks that were computed on the host."""
        if cluster.ready is not None:
            self._cells.labels(cluster.ready.engine).inc()
            self._fallback_blocks.inc(fallback_blocks)

    def describe(self) -> Iterable[Metric]:
        """Nothing, so that registering does not read anything."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics, as of the last reading."""
        self._read_for_the_next_request()
        yield from self._own.collect()
        yield self._clusters()
        yield self._held()
        gpus, ready = self._monitor.last, [cluster.ready for cluster in self._manager.clusters.values()]
        holders = Counter(gpu.uuid for each in ready if each is not None for gpu in each.gpus)
        yield from gpu_metrics(gpus, {(gpu.uuid, self._user): holders[gpu.uuid] for gpu in gpus})

    def _on_status(self, cluster: KernelCluster) -> None:
        if cluster.status == "ready":
            self._starts.observe(cluster.since - cluster.created)
        elif cluster.status == "failed" and cluster.error is not None:
            self._failures.labels(type(cluster.error).__name__).inc()

    def _clusters(self) -> Metric:
        counts = Counter(cluster.status for cluster in self._manager.clusters.values())
        metric = GaugeMetricFamily("gpudask_clusters", "Clusters of this server's kernels.", labels=["status"])
        for status in _STATUSES:
            metric.add_metric([status], counts[status])
        return metric

    def _held(self) -> Metric:
        counts: Counter[str] = Counter()
        for cluster in self._manager.clusters.values():
            if cluster.ready is not None:
                is_busy = cluster.state is not None and cluster.state.tasks_unfinished
                counts["busy" if is_busy else "idle"] += len(cluster.ready.gpus)
        metric = GaugeMetricFamily(
            "gpudask_gpus_reserved",
            "GPUs that this server's clusters have reserved, by whether the cluster has unfinished tasks.",
            labels=["user", "cluster"],
        )
        for activity in ("busy", "idle"):
            metric.add_metric([self._user, activity], counts[activity])
        return metric

    def _read_for_the_next_request(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # collected in another thread
            return
        if not self._is_reading:
            self._is_reading = True
            self._manager.spawn(self._read())

    async def _read(self) -> None:
        try:
            await self._monitor.gpus(INTERVAL)
            clusters = [cluster for cluster in self._manager.clusters.values() if cluster.ready is not None]
            await asyncio.gather(*(cluster.refresh() for cluster in clusters))
        finally:
            self._is_reading = False


def gpu_metrics(gpus: Iterable[GpuState], holders: Mapping[tuple[str, str], int]) -> Iterator[Metric]:
    """The metrics of GPUs; `holders` are numbers of clusters, by UUID and the name of the user."""
    labels = ["gpu", "uuid"]
    held = GaugeMetricFamily(
        "gpudask_gpu_reservations", "Clusters that have reserved the GPU.", labels=[*labels, "user"]
    )
    busy = GaugeMetricFamily("gpudask_gpu_utilization_ratio", "Part of the time in which a kernel ran.", labels=labels)
    used = GaugeMetricFamily("gpudask_gpu_memory_used_bytes", "Device memory in use.", labels=labels)
    total = GaugeMetricFamily("gpudask_gpu_memory_total_bytes", "Device memory.", labels=labels)
    for gpu in gpus:
        values = [str(gpu.index), gpu.uuid]
        for (uuid, user), number in holders.items():
            if uuid == gpu.uuid:
                held.add_metric([*values, user], number)
        if gpu.utilization is not None:
            busy.add_metric(values, gpu.utilization / 100)
        if gpu.memory_used is not None:
            used.add_metric(values, gpu.memory_used)
        if gpu.memory_total is not None:
            total.add_metric(values, gpu.memory_total)
    return iter((held, busy, used, total))
