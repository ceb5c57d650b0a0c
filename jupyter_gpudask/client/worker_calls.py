"""Run functions in the workers of a client with a time limit, among them the reading of peak device memory."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..worker.allocator import take_peak

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from distributed import Client

_RESET_TIMEOUT = 0.1


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


def reset_peak_memory(client: Client) -> None:
    """Start a new period for `peak_memory`; does not wait for busy workers."""
    with suppress(Exception):  # a missing metric must not fail the cell
        _start(client, take_peak).result(_RESET_TIMEOUT)


def peak_memory(client: Client, limit: float) -> dict[str, int]:
    """The peak of device memory allocated on each worker since `reset_peak_memory`, in bytes, by worker name.

    Parameters
    ----------
    client
        A client of the cluster.
    limit
        Seconds; workers that have not responded by then are left out.
    """
    results = run_on_workers(client, take_peak, limit)
    return {name: peak for name, peak in results.values() if peak is not None}


def _start(client: Client, function: Callable[..., Any], **options: Any) -> Future[Any]:
    loop: Any = client.loop
    call = client._run(function, on_error="ignore", **options)  # noqa: SLF001 - `run` has no timeout
    return asyncio.run_coroutine_threadsafe(call, loop.asyncio_loop)
