"""The metrics of the last minutes, for browsers that connect later."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from ...protocol.stream import GpuMetrics, MachineMetrics, Sample, WorkerMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...protocol.rest import ClusterInfo, GpuInfo, GpuList
    from .machine_reader import MachineState

_M = TypeVar("_M", bound=BaseModel)

_LONGEST_GAP = 10.0
"""Seconds between two samples above which no transfer rate is computed: it would be an average over too long."""


class History:
    """A ring buffer of samples, stored as JSON, since the same samples are sent to all browsers.

    Parameters
    ----------
    length
        Maximum number of samples.
    """

    def __init__(self, length: int) -> None:
        self._samples: deque[tuple[float, str]] = deque(maxlen=length)
        self._last: dict[str, GpuInfo] = {}
        self._last_machine: MachineState | None = None
        self._last_time = 0.0

    def add(
        self,
        time: float,
        gpus: GpuList,
        clusters: Iterable[ClusterInfo],
        machine: MachineState,
        pcie: Mapping[str, int] | None = None,
    ) -> None:
        """Append a sample; `pcie` has the transfer rates of GPUs without a counter of their traffic over PCIe."""
        seconds = time - self._last_time
        sample = Sample(
            time=time,
            machine=_machine_metrics(machine, self._last_machine, seconds),
            gpus={
                gpu.uuid: _metrics(gpu, self._last.get(gpu.uuid), seconds, (pcie or {}).get(gpu.uuid))
                for gpu in gpus.gpus
            },
            workers={
                cluster.kernel_id: {worker.name: _pick(WorkerMetrics, worker) for worker in cluster.state.workers}
                for cluster in clusters
                if cluster.state is not None
            },
        )
        self._last, self._last_machine, self._last_time = {gpu.uuid: gpu for gpu in gpus.gpus}, machine, time
        self._samples.append((time, sample.model_dump_json()))

    def since(self, time: float) -> list[str]:
        """The samples after `time`, as JSON, oldest first."""
        return [text for when, text in self._samples if when > time]


def _metrics(gpu: GpuInfo, before: GpuInfo | None, seconds: float, pcie: int | None) -> GpuMetrics:
    """The metrics of `gpu`; its transfer rates, except for `pcie`, are computed from `before`, `seconds` ago."""
    rates: dict[str, int | None] = {}
    if before is not None and 0 < seconds <= _LONGEST_GAP:
        rates = {
            "nvlink": _rate(before.nvlink_bytes, gpu.nvlink_bytes, seconds),
            "pcie": _rate(before.pcie_bytes, gpu.pcie_bytes, seconds) if pcie is None else pcie,
        }
    return _pick(GpuMetrics, gpu, **rates)


def _machine_metrics(machine: MachineState, before: MachineState | None, seconds: float) -> MachineMetrics:
    """The metrics of the machine; all but its memory are computed from `before`, its state `seconds` ago."""
    if before is None or not 0 < seconds <= _LONGEST_GAP:
        return MachineMetrics(memory_used=machine.memory_used)
    passed = machine.cpu_total - before.cpu_total
    busy = (machine.cpu_busy - before.cpu_busy) / passed if passed > 0 else None
    return MachineMetrics(
        cpu=None if busy is None else round(100 * min(1.0, max(0.0, busy)), 1),
        memory_used=machine.memory_used,
        disk=_rate(before.disk_bytes, machine.disk_bytes, seconds),
        network=_rate(before.network_bytes, machine.network_bytes, seconds),
    )


def _rate(before: int | None, now: int | None, seconds: float) -> int | None:
    """The rate at which a counter grows; `None` if it is unknown, or the counter was reset."""
    if before is None or now is None or now < before:
        return None
    return round((now - before) / seconds)


def _pick(kind: type[_M], state: BaseModel, **others: Any) -> _M:
    """A `kind` with the attributes that it has in common with `state`, and `others`."""
    shared = kind.model_fields.keys() & type(state).model_fields.keys()
    return kind.model_construct(**{name: getattr(state, name) for name in shared}, **others)
