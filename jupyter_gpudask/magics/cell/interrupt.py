"""Cancel the tasks of an interrupted cell, so that the cluster is free for the next one."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..views.base import show_note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from distributed import Client
    from IPython.core.interactiveshell import InteractiveShell

    from ...protocol import GpuState
    from ...scheduler.cancellation import StuckWorker
    from ...session.running_cluster import RunningCluster

_INTERRUPTS = (KeyboardInterrupt, asyncio.CancelledError)
_STOP_TIMEOUT = 1.2
_RESPONSE_TIMEOUT = 1.9
_WAKE_INTERVAL = 0.2
_TOTAL_SECONDS = 2
_MAX_NAMES = 3


@contextmanager
def cancel_on_interrupt(shell: InteractiveShell, cluster: RunningCluster) -> Iterator[None]:
    """If the cell is interrupted, cancel its unfinished tasks and stop those that are running.

    Finished results and the tasks of earlier cells are kept. A note under the cell names tasks that did not stop.
    """
    before = set(cluster.client.futures)
    with _responsive_event_loop():
        try:
            yield
        finally:
            if _was_interrupted(shell):
                for worker in cancel_unfinished(cluster.client, before):
                    show_note(shell, describe_stuck_worker(worker, cluster.ready.gpus))


def cancel_unfinished(client: Client, before: set[Any]) -> list[StuckWorker]:
    """Cancel the unfinished futures of `client`, except those with keys in `before`, and stop their tasks.

    Returns
    -------
    list of StuckWorker
        The workers whose tasks did not stop in time.
    """
    from ...scheduler.cancellation import cancel_tasks

    keys = [key for key, state in list(client.futures.items()) if key not in before and state.status == "pending"]
    stuck: list[StuckWorker] = []
    end = time.monotonic() + _RESPONSE_TIMEOUT
    # An error here must not hide the interrupt; if the cluster is lost there is nothing to stop.
    with suppress(Exception):
        run_on_scheduler = client._run_on_scheduler  # noqa: SLF001 - the public one has no timeout
        stuck = client.sync(run_on_scheduler, cancel_tasks, keys, _STOP_TIMEOUT, callback_timeout=_RESPONSE_TIMEOUT)
    with suppress(Exception):
        client.sync(_release, client, keys, callback_timeout=max(0.1, end - time.monotonic()))
    return stuck


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


def describe_stuck_worker(worker: StuckWorker, gpus: Sequence[GpuState]) -> str:
    """Say in a few sentences which task did not stop, and what was done to its worker."""
    index = next((gpu.index for gpu in gpus if gpu.uuid == worker.name), None)
    where = f"worker {worker.name}" if index is None else f"GPU {index}"
    more = f" and {len(worker.tasks) - 1} more" if len(worker.tasks) > 1 else ""
    text = f"The task {worker.tasks[0]}{more} on {where} did not stop within {_TOTAL_SECONDS} s; "
    if worker.outcome == "busy":
        return f"{text}it ends when it returns to Python, and the other tasks of its worker continue."
    if worker.outcome == "silent":
        text += "its worker does not respond, and will be restarted if it stays unresponsive."
    else:
        text += "its worker was restarted."
    if worker.recomputed:
        text += " Its results will be recomputed when they are needed."
    if worker.lost:
        names = ", ".join(worker.lost[:_MAX_NAMES]) + (" and others" if len(worker.lost) > _MAX_NAMES else "")
        text += f" Lost, because they cannot be recomputed: {names}."
    return text


def _was_interrupted(shell: InteractiveShell) -> bool:
    result = shell.last_execution_result
    return result is not None and isinstance(result.error_in_exec, _INTERRUPTS)


@contextmanager
def _responsive_event_loop() -> Iterator[None]:
    """Wake the kernel's event loop regularly while a cell uses ``await``.

    On an interrupt the kernel cancels the cell's task from a signal handler, which does not wake an event loop that
    waits for its next event; the cell would continue until there is one.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        yield
        return
    handle: asyncio.TimerHandle

    def wake() -> None:
        nonlocal handle
        handle = loop.call_later(_WAKE_INTERVAL, wake)

    wake()
    try:
        yield
    finally:
        handle.cancel()
