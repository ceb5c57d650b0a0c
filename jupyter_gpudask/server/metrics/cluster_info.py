"""What the browser is told about a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.rest import ClusterInfo
from .gpu_metrics import with_gpu_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol import GpuState
    from ..clusters.cluster import KernelCluster
    from ..clusters.kernels import Kernels

DASHBOARD = "gpudask/dashboard"
"""Where Dask's dashboards are, after the server's base URL."""


def describe(
    cluster: KernelCluster,
    notebooks: Mapping[str, tuple[str, ...]],
    kernels: Kernels,
    gpus: Iterable[GpuState],
) -> ClusterInfo:
    """The cluster on these GPUs, without anything that would let somebody into it."""
    ready, progress, end = cluster.ready, cluster.progress, cluster.end
    state = cluster.state if ready else None
    paths = notebooks.get(cluster.kernel_id, ())
    return ClusterInfo(
        kernel_id=cluster.kernel_id,
        name=", ".join(path.rpartition("/")[2] for path in paths) or kernels.name(cluster.kernel_id),
        notebooks=paths,
        status=cluster.status,
        reason=end.reason if end else "",
        fix=end.fix if end else "",
        log=getattr(end, "log", ""),
        spec=cluster.spec,
        since=cluster.since,
        workers_ready=progress.ready if progress else 0,
        workers_total=progress.total if progress else 0,
        engine=ready.engine if ready else None,
        stand_in=ready.stand_in if ready else "",
        gpus=tuple(gpu.uuid for gpu in ready.gpus) if ready else (),
        pid=ready.pid if ready else None,
        dashboard=f"{DASHBOARD}/{cluster.kernel_id}/" if ready and ready.dashboard_port else None,
        state=None if state is None else with_gpu_metrics(state, gpus),
    )
