"""Run functions in the workers of a client with a time limit, among them the reading of the metrics of a cell."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..worker.preload import take_cell_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from distributed import Client

    from .waiting_client import WaitingClient


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


class CellMetrics:
    """Device memory and energy of the workers during a cell.

    The counters begin when the workers are asked, which is when this is created. Nothing waits for their answers but
    the first graph that the client then submits, and that not for busy workers.

    Parameters
    ----------
    client
        A client of the cluster.

    Attributes
    ----------
    peaks
        After `finish`, the peak of device memory allocated on each worker, in bytes, by worker name.
    energy
        After `finish`, the energy that the GPUs have used, in joules; `None` if it is not known of each.
    """

    def __init__(self, client: WaitingClient) -> None:
        self.peaks: dict[str, int] = {}
        self.energy: float | None = None
        self._begun: Future[Any] | None = _start(client, take_cell_metrics)
        client.answer_first(self._begun, on_late=self._forget_start)

    def finish(self, client: Client, limit: float) -> None:
        """Read the metrics at the end of the cell.

        Parameters
        ----------
        client
            A client of the cluster, which the cell may have restarted.
        limit
            Seconds; workers that have not responded by then are left out.
        """
        before: dict[str, float | None] = {}
        if self._begun is not None:
            with suppress(Exception):  # a missing metric must not fail the cell
                before = {name: energy for name, _, energy in self._begun.result(0).values()}
        ended = list(run_on_workers(client, take_cell_metrics, limit).values())
        self.peaks = {name: peak for name, peak, _ in ended if peak is not None}
        self.energy = energy_between(before, {name: energy for name, _, energy in ended})

    def _forget_start(self) -> None:
        """The counters of busy workers begin somewhere in the cell."""
        self._begun = None


def energy_between(start: Mapping[str, float | None], end: Mapping[str, float | None]) -> float | None:
    """The sum of the differences of counters; `None` if one is missing, or was reset."""
    if not end or start.keys() != end.keys():
        return None
    total = 0.0
    for name, after in end.items():
        before = start[name]
        if before is None or after is None or after < before:
            return None
        total += after - before
    return total


def _start(client: Client, function: Callable[..., Any], **options: Any) -> Future[Any]:
    loop: Any = client.loop
    call = client._run(function, on_error="ignore", **options)  # noqa: SLF001 - `run` has no timeout
    return asyncio.run_coroutine_threadsafe(call, loop.asyncio_loop)
