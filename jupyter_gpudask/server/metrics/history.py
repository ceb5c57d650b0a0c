"""The metrics of the last minutes, for browsers that come later."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from ...protocol.stream import GpuMetrics, Sample, WorkerMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol.rest import ClusterInfo, GpuInfo, GpuList

_M = TypeVar("_M", bound=BaseModel)

_LONGEST_GAP = 10.0
"""Between two moments that are further apart, in seconds, nobody knows when the bytes went."""


class History:
    """A ring of samples, kept as JSON: the same ones are sent to many.

    Parameters
    ----------
    length
        How many.
    """

    def __init__(self, length: int) -> None:
        self._samples: deque[tuple[float, str]] = deque(maxlen=length)
        self._last: dict[str, GpuInfo] = {}
        self._last_time = 0.0

    def add(self, time: float, gpus: GpuList, clusters: Iterable[ClusterInfo]) -> None:
        """Keep the metrics of one moment."""
        seconds = time - self._last_time
        sample = Sample(
            time=time,
            gpus={gpu.uuid: _metrics(gpu, self._last.get(gpu.uuid), seconds) for gpu in gpus.gpus},
            workers={
                cluster.kernel_id: {worker.name: _pick(WorkerMetrics, worker) for worker in cluster.state.workers}
                for cluster in clusters
                if cluster.state is not None
            },
        )
        self._last, self._last_time = {gpu.uuid: gpu for gpu in gpus.gpus}, time
        self._samples.append((time, sample.model_dump_json()))

    def since(self, time: float) -> list[str]:
        """The samples that are newer than `time`, as JSON, oldest first."""
        return [text for when, text in self._samples if when > time]


def _metrics(gpu: GpuInfo, before: GpuInfo | None, seconds: float) -> GpuMetrics:
    """The metrics of `gpu`, which was as `before` so many seconds ago."""
    rates: dict[str, int | None] = {}
    if before is not None and 0 < seconds <= _LONGEST_GAP:
        rates = {
            "nvlink": _rate(before.nvlink_bytes, gpu.nvlink_bytes, seconds),
            "pcie": _rate(before.pcie_bytes, gpu.pcie_bytes, seconds),
        }
    return _pick(GpuMetrics, gpu, **rates)


def _rate(before: int | None, now: int | None, seconds: float) -> int | None:
    """How fast a count grows; `None` where it is not known, or began anew."""
    if before is None or now is None or now < before:
        return None
    return round((now - before) / seconds)


def _pick(kind: type[_M], state: BaseModel, **others: Any) -> _M:
    """The metrics of `state` that `kind` has, and others."""
    shared = kind.model_fields.keys() & type(state).model_fields.keys()
    return kind.model_construct(**{name: getattr(state, name) for name in shared}, **others)
