"""Metrics of a worker for one cell: the peak of its device memory, and the energy used by its GPU."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from distributed import WorkerPlugin

from ..machine.nvml import read_energy
from .memory import take_peak

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Worker

BEGIN_CELL = "gpudask-begin-cell"
"""The message from a kernel to the scheduler, and from there to the workers, that a cell begins.

It is sent before the first graph of the cell, in the same streams, so that it arrives before the tasks.
"""

_LATE = 0.1


class CellMetricsPlugin(WorkerPlugin):
    """Starts the counters of a cell when the message `BEGIN_CELL` arrives.

    - `energy_before`: the energy counter of the worker's GPU then, in joules; `None` without one, and if the message
      was handled later than a tenth of a second after it was sent: the energy would be that of a part of the cell.
    - `workers`: the number of workers to which the message was sent.
    """

    name = "gpudask-cell-metrics"
    energy_before: float | None = None
    workers = 0

    def setup(self, worker: Worker) -> None:
        """Register the handler; called by Dask before the worker receives messages."""
        worker.stream_handlers[BEGIN_CELL] = partial(self._begin, str(worker.name))

    def _begin(self, name: str, *, sent: float, workers: int) -> None:
        take_peak()
        self.workers = workers
        self.energy_before = None if time.time() - sent > _LATE else read_energy(name)


class WorkerCellMetrics(NamedTuple):
    """The metrics of one worker during a cell.

    - `peak`: the peak of allocated device memory, in bytes.
    - `energy`: the energy that its GPU has used, in joules.
    - `workers`: the number of workers when the cell began.
    """

    name: str
    peak: int | None
    energy: float | None
    workers: int


def take_cell_metrics(dask_worker: Worker) -> WorkerCellMetrics:
    """The metrics of the cell that began last; called by `distributed.Client.run`."""
    name, plugin = str(dask_worker.name), cast("CellMetricsPlugin", dask_worker.plugins[CellMetricsPlugin.name])
    energy = energy_between(plugin.energy_before, read_energy(name))
    return WorkerCellMetrics(name, take_peak(), energy, plugin.workers)


def total_energy(metrics: Sequence[WorkerCellMetrics]) -> float | None:
    """The energy of all GPUs in joules; `None` if that of one is not known, or if a worker was lost or did not answer.

    `metrics`: of the workers that have answered.
    """
    energies = [each.energy for each in metrics if each.energy is not None and each.workers == len(metrics)]
    return sum(energies) if energies and len(energies) == len(metrics) else None


def energy_between(before: float | None, after: float | None) -> float | None:
    """The difference of two readings of a counter; `None` if one is missing, or the counter was reset."""
    return None if before is None or after is None or after < before else after - before
