"""Run functions in the workers of a client, with a time limit: import modules, and read the metrics of a cell."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ..worker.cell_metrics import WorkerCellMetrics, take_cell_metrics, total_energy
from ..worker.environment import versions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from distributed import Client


def run_on_workers(client: Client, function: Callable[..., Any], limit: float) -> dict[str, Any]:
    """Run `function` in each worker; the results of those that respond within `limit` seconds, by address."""
    if client.status != "running":
        return {}
    end = time.monotonic() + limit
    addresses = client.scheduler_info(-1)["workers"]
    calls = [_start(client, function, workers=[address]) for address in addresses]
    results: dict[str, Any] = {}
    for call in calls:
        try:
            results |= call.result(max(0.0, end - time.monotonic()))
        except Exception:  # noqa: BLE001 - a missing metric must not fail the cell
            call.cancel()
    return results


def import_on_cluster(client: Client, names: Sequence[str], limit: float) -> None:
    """Import modules in the workers and in the scheduler within `limit` seconds each; the first task would do it."""
    run_on_workers(client, partial(versions_of, names), limit)
    with suppress(Exception):  # the first task does it then
        run_on_scheduler = client._run_on_scheduler  # noqa: SLF001 - the public one has no timeout
        client.sync(run_on_scheduler, versions_of, names, callback_timeout=limit)


class CellMetrics:
    """Device memory and energy of the workers during a cell.

    The counters begin with `KernelClient.begin_cell`.

    Attributes
    ----------
    peaks
        After `finish`, the peak of device memory allocated on each worker, in bytes, by worker name.
    energy
        After `finish`, the energy that the GPUs have used, in joules; `None` if it is not known of each.
    """

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self.energy: float | None = None

    def finish(self, client: Client, limit: float) -> None:
        """Read the metrics at the end of the cell.

        Parameters
        ----------
        client
            A client of the cluster, which the cell may have restarted.
        limit
            Seconds; workers that have not responded by then are left out.
        """
        ended: list[WorkerCellMetrics] = list(run_on_workers(client, take_cell_metrics, limit).values())
        self.peaks = {each.name: each.peak for each in ended if each.peak is not None}
        self.energy = total_energy(ended)


def _start(client: Client, function: Callable[..., Any], **options: Any) -> Future[Any]:
    loop: Any = client.loop
    call = client._run(function, on_error="ignore", **options)  # noqa: SLF001 - `run` has no timeout
    return asyncio.run_coroutine_threadsafe(call, loop.asyncio_loop)
