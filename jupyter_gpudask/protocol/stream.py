"""Messages of the WebSocket ``gpudask/api/stream``: the full state first, then changes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from .rest import ClusterInfo, GpuList


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


class GpuMetrics(_Answer):
    """Metrics of a GPU in the history; see `GpuState`.

    - `nvlink`, `pcie`: traffic over NVLink, and over PCIe, sent and received, in bytes per second since the previous
      sample. On GPUs before Hopper whose driver has no 64-bit counter for PCIe, it is that of 20 ms in each direction.
    """

    utilization: float | None = None
    memory_used: int | None = None
    nvlink: int | None = None
    pcie: int | None = None


class MachineMetrics(_Answer):
    """Metrics of the machine in the history.

    - `cpu`: the part of the time since the previous sample in which the processors were busy, in percent of all of
      them.
    - `memory_used`: host memory in use, in bytes.
    - `disk`, `network`: traffic of the disks, and of the network, in both directions, in bytes per second since the
      previous sample.
    """

    cpu: float | None = None
    memory_used: int | None = None
    disk: int | None = None
    network: int | None = None


class WorkerMetrics(_Answer):
    """Metrics of a worker in the history; see `WorkerState`."""

    pool_used: int | None = None
    spilled_to_host: int | None = None
    spilled_to_disk: int | None = None
    memory: int | None = None
    cpu: float | None = None
    executed: int | None = None


class Sample(_Answer):
    """All metrics of one time.

    - `time`: in seconds since the epoch.
    - `gpus`: by UUID.
    - `workers`: by kernel id, then by worker name.
    - `machine`: the machine itself.
    """

    time: float
    gpus: dict[str, GpuMetrics] = {}
    workers: dict[str, dict[str, WorkerMetrics]] = {}
    machine: MachineMetrics = MachineMetrics()


class StreamMessage(_Answer):
    """One message; at most one is sent per second.

    - `type`: ``full`` for the first message, which has the full state; ``changes`` for the others.
    - `time`: when it was created, in seconds since the epoch.
    - `gpus`: the GPUs; `None` if nothing has changed.
    - `clusters`: the clusters that have changed; in the first message, all.
    - `removed`: the kernels whose cluster was removed.
    - `memory_total`: the host memory of the machine, in bytes.
    - `history`: the samples since the requested time or since the last message; the newest is last.
    """

    type: Literal["full", "changes"]
    time: float
    gpus: GpuList | None = None
    clusters: tuple[ClusterInfo, ...] = ()
    removed: tuple[str, ...] = ()
    memory_total: int | None = None
    history: tuple[Sample, ...] = ()


LIVE_OUTPUT = "jupyter_gpudask"
"""The metadata key of an output that is shown as a widget and stored with a static representation."""
