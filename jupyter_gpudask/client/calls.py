"""Ask the scheduler and the workers within a time limit: metrics of a cell, held results, the end of its tasks."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

from dask.base import is_dask_collection
from distributed import Client, Future
from distributed.client import futures_of

from ..scheduler.cells import OperationTotals, StuckWorker, cancel_tasks, cell_operations, note_cancellation
from ..scheduler.results import HeldReport, report_held
from ..worker.imports import import_cudf
from ..worker.interruption import imports_module
from ..worker.joined import versions_of
from ..worker.memory import WorkerCellMetrics, take_cell_metrics, total_energy
from ..worker.polars_rank import prepare_rank

__all__ = ["HeldReport", "OperationTotals", "StuckWorker", "imports_module"]  # re-exported

_STOP_TIMEOUT = 1.2
_RESPONSE_TIMEOUT = 1.9
_COUNT_TIMEOUT = 0.8
_RECEIPT_TIMEOUT = 0.6
_MARGIN = 0.1
REST = ""
"""The name of the results that none of the variables holds."""

_REPORT_TIMEOUT = 10.0
_RELEASE_TIMEOUT = 2.0
_POLL = 0.05
_CONTAINERS = (list, tuple, set, dict)


def run_on_workers(client: Client, function: Callable[..., Any], limit: float) -> dict[str, Any]:
    """Run `function` in each worker; the results of those that respond within `limit` seconds, by address."""
    return start_on_workers(client, function, limit)()


def start_on_workers(client: Client, function: Callable[..., Any], limit: float) -> Callable[[], dict[str, Any]]:
    """As `run_on_workers`, but returns at once; the function that it returns waits for the results."""
    results: dict[str, Any] = {}

    async def run_on_all() -> None:
        scheduler: Any = client.scheduler
        await _run_on(client, (await scheduler.identity(n_workers=-1))["workers"], function, results)

    wait = _start(client, run_on_all(), limit)

    def results_in_time() -> dict[str, Any]:
        wait()
        return results.copy()

    return results_in_time


async def _run_on(
    client: Client, workers: Iterable[str], function: Callable[..., Any], results: dict[str, Any]
) -> None:
    async def run(address: str) -> None:
        with suppress(Exception):  # a missing metric must not fail the cell
            # not by `run`, which has no timeout
            results.update(await client._run(function, on_error="ignore", workers=[address]))  # noqa: SLF001

    await asyncio.gather(*map(run, workers))


def _start(client: Client, work: Coroutine[Any, Any, None], limit: float) -> Callable[[], None]:
    """Begin to run `work` in the event loop of a client; the function that it returns waits for the end."""
    if client.status != "running":
        work.close()
        return lambda: None

    async def run() -> None:
        async with asyncio.timeout(limit):
            await work

    loop: Any = client.loop
    running = asyncio.run_coroutine_threadsafe(run(), loop.asyncio_loop)

    def wait() -> None:
        with suppress(Exception):
            running.result(limit + _MARGIN)

    return wait


def import_on_cluster(client: Client, names: Sequence[str], limit: float) -> None:
    """Import modules in the workers and in the scheduler within `limit` seconds each; the first task would do it."""
    run_on_workers(client, partial(versions_of, names), limit)
    with suppress(Exception):  # the first task does it then
        ask_scheduler(client, versions_of, names, limit=limit)


def prepare_workers(client: Client) -> None:
    """Let the workers on GPUs import what the kernel uses first; does not wait for them.

    That is cudf-polars if the user has imported Polars, or cuDF.
    """
    function: Any = prepare_rank if "polars" in sys.modules else import_cudf

    async def prepare() -> None:
        with suppress(Exception):  # the first call in a worker shows the error
            await client._run(function, on_error="ignore")  # noqa: SLF001

    loop: Any = client.loop
    asyncio.run_coroutine_threadsafe(prepare(), loop.asyncio_loop)


class CellMetrics(NamedTuple):
    """What a cell has cost.

    - `operations`: by the prefix of their tasks; empty without an answer in time.
    - `peaks`: the peak of device memory of each worker that has answered in time, in bytes, by name.
    - `energy`: in joules; `None` if that of a worker is not known.
    """

    operations: dict[str, OperationTotals]
    peaks: dict[str, int]
    energy: float | None


def start_cell_metrics(
    client: Client, limit: float, *, on_workers: bool, on_scheduler: bool = True
) -> Callable[[], CellMetrics]:
    """Ask what was measured since `begin_cell`, on the workers and on the scheduler, which has that of Dask's tasks.

    The scheduler of a cluster that the kernel shares with others is not asked. The function that this returns waits for
    the answers, at most `limit` seconds.
    """
    operations: dict[str, OperationTotals] = {}
    ended: dict[str, WorkerCellMetrics] = {}

    async def ask() -> None:
        if on_scheduler and not getattr(client, "is_joined", False):
            workers, found = await client._run_on_scheduler(cell_operations)  # noqa: SLF001
            operations.update(found)
            await _run_on(client, workers if on_workers else (), take_cell_metrics, ended)
        elif on_workers:
            ended.update(await client._run(take_cell_metrics, on_error="ignore"))  # noqa: SLF001

    wait = _start(client, ask(), limit)

    def cell_metrics() -> CellMetrics:
        wait()
        answers = list(ended.values())
        peaks = {each.name: each.peak for each in answers if each.peak is not None}
        return CellMetrics(operations.copy(), peaks, total_energy(answers))

    return cell_metrics


def ask_scheduler(client: Client, function: Callable[..., Any], *args: Any, limit: float, **options: Any) -> Any:
    """Run a function in the scheduler; not by the public method, which has no timeout."""
    run_on_scheduler = client._run_on_scheduler  # noqa: SLF001
    return client.sync(run_on_scheduler, function, *args, callback_timeout=limit, **options)


def cancel_unfinished(client: Any, before: set[Any]) -> list[StuckWorker]:
    """Cancel the unfinished futures of `client` but those in `before`; the workers whose tasks did not stop in time."""
    keys = _pending_keys(client, before)
    stuck: list[StuckWorker] = []
    end = time.monotonic() + _RESPONSE_TIMEOUT
    is_received = _wait_for_receipt(client)
    only_client = client.id if client.is_joined else None
    # An error here must not hide the interrupt; if the cluster is lost there is nothing to stop.
    with suppress(Exception):
        limit = end - time.monotonic()
        stuck = ask_scheduler(client, cancel_tasks, keys, _STOP_TIMEOUT, only_client=only_client, limit=limit)
    with suppress(Exception):
        client.sync(_release, client, keys, callback_timeout=max(0.1, end - time.monotonic()))
    if not is_received:
        loop: Any = client.loop
        asyncio.run_coroutine_threadsafe(_interrupt_later(client, only_client), loop.asyncio_loop)
    return stuck


async def _interrupt_later(client: Any, only_client: str | None) -> None:
    """Interrupt the tasks of a graph that the scheduler was still reading, which it has released since."""
    with suppress(OSError):  # the connection was lost, or this takes too long
        await client.receipt()
        await client._run_on_scheduler(cancel_tasks, (), _STOP_TIMEOUT, only_client=only_client)  # noqa: SLF001


def announce_cancellation(client: Any, before: set[Any]) -> int | None:
    """Say that `cancel_unfinished` follows: what it cancels never counts as done.

    Returns the number of these blocks; `None` if the scheduler does not respond in time.
    """
    keys = _pending_keys(client, before)
    _wait_for_receipt(client)
    with suppress(Exception):
        return cast("int", ask_scheduler(client, note_cancellation, keys, client.id, limit=_COUNT_TIMEOUT))
    return None


def _wait_for_receipt(client: Any) -> bool:
    """Wait a moment until the scheduler has handled what was sent to it; whether it has."""
    loop: Any = client.loop
    receipt = asyncio.run_coroutine_threadsafe(client.receipt(), loop.asyncio_loop)
    with suppress(Exception):  # the connection was lost, or it takes longer
        receipt.result(_RECEIPT_TIMEOUT)
        return True
    return False


def _pending_keys(client: Client, before: set[Any]) -> list[Any]:
    return [key for key, state in list(client.futures.items()) if key not in before and state.status == "pending"]


async def _release(client: Client, keys: list[Any]) -> None:
    """Cancel the futures in the kernel, and release their keys on the scheduler.

    `Client.cancel` is not used: in distributed 2026.7 the scheduler closes the client's connection if a task between
    these futures is wanted by no client.
    """
    client._send_to_scheduler({"op": "client-releases-keys", "keys": keys, "client": client.id})  # noqa: SLF001
    for key in keys:
        state = client.futures.pop(key, None)
        if state is not None:
            state.cancel()


def report_variables(client: Client, variables: Mapping[str, Any]) -> HeldReport:
    """The results on the workers, with those that each variable holds.

    Results that several variables hold count for each of them. Those that no variable holds have the name `REST`. On a
    cluster of somebody else only the results of this client are reported.
    """
    keys = {name: _keys_of(value, client) for name, value in variables.items()}
    named = {key for found in keys.values() for key in found}
    keys[REST] = [key for key in list(client.futures) if key not in named]
    return _report(client, {name: found for name, found in keys.items() if found})


def wait_until_released(client: Client, before: set[Any]) -> None:
    """Wait at most two seconds until the scheduler has released the futures that `client` has no longer."""
    _report(client, {})  # futures are removed by callbacks of the event loop, which this call waits for
    gone = list(before - set(client.futures))
    end = time.monotonic() + _RELEASE_TIMEOUT
    while time.monotonic() < end and _report(client, {REST: gone}).counts[REST][0]:
        time.sleep(_POLL)


def _report(client: Client, keys: Mapping[str, list[Any]]) -> HeldReport:
    only_client = client.id if getattr(client, "is_joined", False) else None
    return cast("HeldReport", ask_scheduler(client, report_held, keys, only_client, limit=_REPORT_TIMEOUT))


def _keys_of(value: Any, client: Client) -> list[Any]:
    if not (is_dask_collection(value) or isinstance(value, (Future, *_CONTAINERS))):
        return []
    with suppress(Exception):  # a graph that cannot be built holds nothing that is known
        return list({future.key for future in futures_of(value) if future.client is client})
    return []
