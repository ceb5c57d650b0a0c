"""The figures of the last minutes, for browsers that come later."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from ..models.stream import GpuFigures, Sample, WorkerFigures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..models.api import ClusterInfo, GpuList

_M = TypeVar("_M", bound=BaseModel)


class History:
    """A ring of samples, kept as JSON: the same ones are sent to many.

    Parameters
    ----------
    length
        How many.
    """

    def __init__(self, length: int) -> None:
        self._samples: deque[tuple[float, str]] = deque(maxlen=length)

    def add(self, time: float, gpus: GpuList, clusters: Iterable[ClusterInfo]) -> None:
        """Keep the figures of one moment."""
        sample = Sample(
            time=time,
            gpus={gpu.uuid: _pick(GpuFigures, gpu) for gpu in gpus.gpus},
            workers={
                cluster.kernel_id: {worker.name: _pick(WorkerFigures, worker) for worker in cluster.state.workers}
                for cluster in clusters
                if cluster.state is not None
            },
        )
        self._samples.append((time, sample.model_dump_json()))

    def since(self, time: float) -> list[str]:
        """The samples that are newer than `time`, as JSON, oldest first."""
        return [text for when, text in self._samples if when > time]


def _pick(kind: type[_M], state: BaseModel) -> _M:
    """The figures of `state` that `kind` has."""
    return kind.model_construct(**{name: getattr(state, name) for name in kind.model_fields})
