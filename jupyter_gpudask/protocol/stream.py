"""What the WebSocket ``gpudask/api/stream`` sends: a full state first, then what has changed."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from .rest import ClusterInfo, GpuList


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


class GpuMetrics(_Answer):
    """A GPU at one moment of the past; see `GpuState`.

    Attributes
    ----------
    nvlink, pcie
        What it sent and received over NVLink, and over PCIe, in bytes a second since the moment before.
    """

    utilization: float | None = None
    memory_used: int | None = None
    temperature: float | None = None
    power: float | None = None
    nvlink: int | None = None
    pcie: int | None = None


class WorkerMetrics(_Answer):
    """A worker at one moment of the past; see `WorkerState`."""

    device_memory_used: int | None = None
    pool_used: int | None = None
    spilled_to_host: int | None = None
    spilled_to_disk: int | None = None
    memory: int | None = None
    executing: int = 0
    waiting: int = 0
    executed: int | None = None


class Sample(_Answer):
    """All metrics of one moment.

    Attributes
    ----------
    time
        In seconds since the epoch.
    gpus
        By UUID.
    workers
        By kernel id, and by the name of the worker.
    """

    time: float
    gpus: dict[str, GpuMetrics] = {}
    workers: dict[str, dict[str, WorkerMetrics]] = {}


class StreamMessage(_Answer):
    """One message, at most one a second.

    Attributes
    ----------
    type
        ``full`` for the first message, which has everything; ``changes`` for the others.
    time
        When it was made, in seconds since the epoch.
    gpus
        The GPUs; `None` where nothing about them has changed.
    clusters
        Those that have changed, or all.
    removed
        The kernels whose cluster is forgotten.
    history
        The samples since the moment that was asked for, or since the last message; the newest is last.
    """

    type: Literal["full", "changes"]
    time: float
    gpus: GpuList | None = None
    clusters: tuple[ClusterInfo, ...] = ()
    removed: tuple[str, ...] = ()
    history: tuple[Sample, ...] = ()
