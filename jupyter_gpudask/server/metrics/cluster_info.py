"""The data about a cluster in the REST interface and the stream, with the metrics of its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api.rest import ClusterInfo, ErrorDetails

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol import ClusterState, GpuState, WorkerState
    from ..clusters.cluster import KernelCluster
    from ..clusters.kernels import Kernels

DASHBOARD_PATH = "gpudask/dashboard"
"""Path of the proxied Dask dashboards, relative to the server's base URL."""

JOINED_PATH = "gpudask/joined"
"""Path of the dashboards of clusters that somebody else started; a secret follows."""


def cluster_info(
    cluster: KernelCluster,
    notebooks: Mapping[str, tuple[str, ...]],
    kernels: Kernels,
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
