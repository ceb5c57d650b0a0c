"""Handle the message that a cell begins, and pass it on to the workers; see `worker.cell_metrics`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..worker.cell_metrics import BEGIN_CELL
from .cell_tasks import watch_cell_tasks

if TYPE_CHECKING:
    from distributed import Scheduler


def handle_beginnings(scheduler: Scheduler, *, pass_on: bool) -> None:
    """Register the handler of the message `BEGIN_CELL`.

    Parameters
    ----------
    scheduler
        The scheduler.
    pass_on
        Whether the workers get the message, too; then all must have the `CellMetricsPlugin`.
    """
    tasks = watch_cell_tasks(scheduler)

    def begin_cell(client: str) -> None:  # noqa: ARG001 - as Dask calls it
        tasks.begin_cell()
        sent, addresses = time.time(), list(scheduler.workers) if pass_on else []
        for address in addresses:
            scheduler.worker_send(address, {"op": BEGIN_CELL, "sent": sent, "workers": len(addresses)})

    scheduler.stream_handlers[BEGIN_CELL] = begin_cell
