"""Cancel the unfinished futures of a client, and stop their tasks within a time limit."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..scheduler.cells import StuckWorker, cancel_tasks, count_unfinished

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["StuckWorker", "cancel_unfinished", "count_unfinished_tasks"]

_STOP_TIMEOUT = 1.2
_RESPONSE_TIMEOUT = 1.9
_COUNT_TIMEOUT = 0.8


def cancel_unfinished(client: Client, before: set[Any]) -> list[StuckWorker]:
    """Cancel the unfinished futures of `client`, except those with keys in `before`, and stop their tasks.

    Returns
    -------
    list of StuckWorker
        The workers whose tasks did not stop in time.
    """
    keys = _pending_keys(client, before)
    stuck: list[StuckWorker] = []
    end = time.monotonic() + _RESPONSE_TIMEOUT
    # An error here must not hide the interrupt; if the cluster is lost there is nothing to stop.
    with suppress(Exception):
        run_on_scheduler = client._run_on_scheduler  # noqa: SLF001 - the public one has no timeout
        stuck = client.sync(
            run_on_scheduler,
            cancel_tasks,
            keys,
            _STOP_TIMEOUT,
            only_client=client.id if getattr(client, "is_joined", False) else None,
            callback_timeout=_RESPONSE_TIMEOUT,
        )
    with suppress(Exception):
        client.sync(_release, client, keys, callback_timeout=max(0.1, end - time.monotonic()))
    return stuck


def count_unfinished_tasks(client: Client, before: set[Any]) -> int | None:
    """The number of tasks that `cancel_unfinished` would cancel; `None` if the scheduler does not respond in time."""
    keys = _pending_keys(client, before)
    with suppress(Exception):
        run_on_scheduler = client._run_on_scheduler  # noqa: SLF001
        count: int = client.sync(run_on_scheduler, count_unfinished, keys, client.id, callback_timeout=_COUNT_TIMEOUT)
        return count
    return None


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
