"""An interrupted cell takes back what it submitted, so that the cluster is free for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client
    from IPython.core.interactiveshell import InteractiveShell

_INTERRUPTS = (KeyboardInterrupt, asyncio.CancelledError)
_UNFINISHED = ("pending",)
_PATIENCE = 1.5


@contextmanager
def take_back_if_interrupted(shell: InteractiveShell, client: Client) -> Iterator[None]:
    """Around a cell: if it ends by an interrupt, cancel what it left unfinished and stop what of it still runs.

    Results that were finished, and whatever earlier cells submitted, stay.
    """
    before = set(client.futures)
    try:
        yield
    finally:
        if _was_interrupted(shell):
            take_back(client, before)


def take_back(client: Client, before: set[Any]) -> None:
    """Cancel the unfinished futures of `client` that are not among the keys `before`, and stop their tasks."""
    from distributed import Future

    from ..cluster.worker import stop_unwanted_tasks

    keys = [key for key, state in list(client.futures.items()) if key not in before and state.status in _UNFINISHED]
    # What goes wrong here must not hide the interrupt itself; a cluster that is gone has nothing left to stop.
    with suppress(Exception):
        client.cancel([Future(key, client) for key in keys], force=True)
    with suppress(Exception):
        client.sync(asyncio.wait_for, client._run(stop_unwanted_tasks, on_error="ignore"), _PATIENCE)


def _was_interrupted(shell: InteractiveShell) -> bool:
    result = shell.last_execution_result
    return result is not None and isinstance(result.error_in_exec, _INTERRUPTS)
