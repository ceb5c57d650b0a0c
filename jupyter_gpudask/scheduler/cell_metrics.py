"""Pass on to the workers that a cell begins; see `worker.cell_metrics`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..worker.cell_metrics import BEGIN_CELL

if TYPE_CHECKING:
    from distributed import Scheduler


def pass_on_beginnings(scheduler: Scheduler) -> None:
    """Register the handler of the message `BEGIN_CELL`; all workers must have the `CellMetricsPlugin`."""

    def begin_cell(client: str) -> None:  # noqa: ARG001 - as Dask calls it
        sent, addresses = time.time(), list(scheduler.workers)
        for address in addresses:
            scheduler.worker_send(address, {"op": BEGIN_CELL, "sent": sent, "workers": len(addresses)})

    scheduler.stream_handlers[BEGIN_CELL] = begin_cell
