"""An interrupted cell takes back what it submitted, so that the cluster is free for the next one."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import Client
    from IPython.core.interactiveshell import InteractiveShell

_INTERRUPTS = (KeyboardInterrupt, asyncio.CancelledError)
_PATIENCE = 1.5
_TICK = 0.2


@contextmanager
def take_back_if_interrupted(shell: InteractiveShell, client: Client) -> Iterator[None]:
    """Around a cell: if it ends by an interrupt, cancel what it left unfinished and stop what of it still runs.

    Results that were finished, and whatever earlier cells submitted, stay.
    """
    before = set(client.futures)
    with _awake():
        try:
            yield
        finally:
            if _was_interrupted(shell):
                take_back(client, before)


def take_back(client: Client, before: set[Any]) -> None:
    """Cancel the unfinished futures of `client` that are not among the keys `before`, and stop their tasks."""
    from distributed import Future

    from ..cluster.worker import stop_unwanted_tasks

    keys = [key for key, state in list(client.futures.items()) if key not in before and state.status == "pending"]
    # What goes wrong here must not hide the interrupt itself; a cluster that is gone has nothing left to stop.
    with suppress(Exception):
        client.cancel([Future(key, client) for key in keys], force=True)
    with suppress(Exception):
        stopping = client._run  # noqa: SLF001 - `run` waits without a limit
        client.sync(stopping, stop_unwanted_tasks, on_error="ignore", callback_timeout=_PATIENCE)


def _was_interrupted(shell: InteractiveShell) -> bool:
    result = shell.last_execution_result
    return result is not None and isinstance(result.error_in_exec, _INTERRUPTS)


@contextmanager
def _awake() -> Iterator[None]:
    """Keep the kernel's event loop turning while a cell awaits something.

    A kernel answers an interrupt by cancelling the cell's task from a signal handler, which does not wake a loop that
    waits for its next event; the cell would go on until there is one.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        yield
        return
    handle: asyncio.TimerHandle

    def tick() -> None:
        nonlocal handle
        handle = loop.call_later(_TICK, tick)

    tick()
    try:
        yield
    finally:
        handle.cancel()
