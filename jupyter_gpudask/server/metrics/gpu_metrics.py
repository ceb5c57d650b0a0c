"""The metrics of GPUs in the states of clusters, whose supervisors leave NVML to the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol import ClusterState, GpuState, WorkerState


def with_gpu_metrics(state: ClusterState, gpus: Iterable[GpuState]) -> ClusterState:
    """The same state, with what `gpus` say of the GPUs of its workers."""
    if state.engine != "cuda":
        return state
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    return state.model_copy(update={"workers": tuple(_joined(worker, by_uuid) for worker in state.workers)})


def _joined(worker: WorkerState, gpus: dict[str, GpuState]) -> WorkerState:
    # A class of the administrator's decides on its GPUs by itself, and may name its workers after them.
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
