"""Messages of the WebSocket ``gpudask/api/stream``: the full state first, then changes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from .rest import ClusterInfo, GpuList


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


class GpuMetrics(_Answer):
    """Metrics of a GPU in the history; see `GpuState`.

    Attributes
    ----------
    nvlink, pcie
        Traffic over NVLink, and over PCIe, sent and received, in bytes per second since the previous sample.
    """

    utilization: float | None = None
    memory_used: int | None = None
    temperature: float | None = None
    power: float | None = None
    nvlink: int | None = None
    pcie: int | None = None


class WorkerMetrics(_Answer):
    """Metrics of a worker in the history; see `WorkerState`."""

    device_memory_used: int | None = None
    pool_used: int | None = None
    spilled_to_host: int | None = None
    spilled_to_disk: int | None = None
    memory: int | None = None
    executing: int = 0
    waiting: int = 0
    executed: int | None = None


class Sample(_Answer):
    """All metrics of one time.

    Attributes
    ----------
    time
        In seconds since the epoch.
    gpus
        By UUID.
    workers
        By kernel id, then by worker name.
    """

    time: float
    gpus: dict[str, GpuMetrics] = {}
    workers: dict[str, dict[str, WorkerMetrics]] = {}


class StreamMessage(_Answer):
    """One message; at most one is sent per second.

    Attributes
    ----------
    type
        ``full`` for the first message, which has the full state; ``changes`` for the others.
    time
        When it was created, in seconds since the epoch.
    gpus
        The GPUs; `None` if nothing has changed.
    clusters
        The clusters that have changed; in the first message, all.
    removed
        The kernels whose cluster was removed.
    history
        The samples since the requested time or since the last message; the newest is last.
    """

    type: Literal["full", "changes"]
    time: float
    gpus: GpuList | None = None
    clusters: tuple[ClusterInfo, ...] = ()
    removed: tuple[str, ...] = ()
    history: tuple[Sample, ...] = ()
