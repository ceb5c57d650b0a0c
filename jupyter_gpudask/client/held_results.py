"""Find the variables of the kernel that hold results on the workers."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection
from distributed import Future
from distributed.client import futures_of

from ..scheduler.results import HeldReport, report_held

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .kernel_client import KernelClient

REST = ""
"""The name of the results that none of the variables holds."""

_RESPONSE_TIMEOUT = 10.0
_RELEASE_TIMEOUT = 2.0
_POLL = 0.05
__all__ = ["REST", "HeldReport", "report_variables", "wait_until_released"]

_CONTAINERS = (list, tuple, set, dict)


def report_variables(client: KernelClient, variables: Mapping[str, Any]) -> HeldReport:
    """The results on the workers, with those that each variable holds.

    Results that several variables hold count for each of them. Those that no variable holds have the name `REST`. On a
    cluster of somebody else only the results of this client are reported.

    Raises
    ------
    TimeoutError
        The scheduler does not respond.
    """
    keys = {name: _keys_of(value, client) for name, value in variables.items()}
    named = {key for found in keys.values() for key in found}
    keys[REST] = [key for key in list(client.futures) if key not in named]
    return _report(client, {name: found for name, found in keys.items() if found})


def wait_until_released(client: KernelClient, before: set[Any]) -> None:
    """Wait at most two seconds until the scheduler has released the futures that `client` has no longer."""
    _report(client, {})  # futures are removed by callbacks of the event loop, which this call waits for
    gone = list(before - set(client.futures))
    end = time.monotonic() + _RELEASE_TIMEOUT
    while time.monotonic() < end and _report(client, {REST: gone}).counts[REST][0]:
        time.sleep(_POLL)


def _report(client: KernelClient, keys: Mapping[str, list[Any]]) -> HeldReport:
    run_on_scheduler = client._run_on_scheduler  # noqa: SLF001 - the public one has no timeout
    report: HeldReport = client.sync(
        run_on_scheduler,
        report_held,
        keys,
        client.id if client.is_joined else None,
        callback_timeout=_RESPONSE_TIMEOUT,
    )
    return report


def _keys_of(value: Any, client: KernelClient) -> list[Any]:
    if not (is_dask_collection(value) or isinstance(value, (Future, *_CONTAINERS))):
        return []
    with suppress(Exception):  # a graph that cannot be built holds nothing that is known
        return list({future.key for future in futures_of(value) if future.client is client})
    return []
