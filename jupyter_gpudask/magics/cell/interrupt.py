"""An interrupted cell takes back what it submitted, so that the cluster is free for the next one."""

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
_PATIENCE = 1.2
_ANSWER_TIME = 1.9
_TICK = 0.2
_LIMIT = 2
_NAMED = 3


@contextmanager
def take_back_if_interrupted(shell: InteractiveShell, cluster: RunningCluster) -> Iterator[None]:
    """Around a cell: if it ends by an interrupt, cancel what it left unfinished and stop what of it still runs.

    Results that were finished, and whatever earlier cells submitted, stay. Says so where a task does not stop.
    """
    before = set(cluster.client.futures)
    with _awake():
        try:
            yield
        finally:
            if _was_interrupted(shell):
                for worker in take_back(cluster.client, before):
                    show_note(shell, describe_stuck_worker(worker, cluster.ready.gpus))


def take_back(client: Client, before: set[Any]) -> list[StuckWorker]:
    """Cancel the unfinished futures of `client` that are not among the keys `before`, and stop their tasks.

    Returns
    -------
    list of StuckWorker
        The workers with tasks that did not stop in time.
    """
    from ...scheduler.cancellation import cancel_tasks

    keys = [key for key, state in list(client.futures.items()) if key not in before and state.status == "pending"]
    stuck: list[StuckWorker] = []
    end = time.monotonic() + _ANSWER_TIME
    # What goes wrong here must not hide the interrupt itself; a cluster that is gone has nothing left to stop.
    with suppress(Exception):
        cancelling = client._run_on_scheduler  # noqa: SLF001 - `run_on_scheduler` waits without a limit
        stuck = client.sync(cancelling, cancel_tasks, keys, _PATIENCE, callback_timeout=_ANSWER_TIME)
    with suppress(Exception):
        client.sync(_forget, client, keys, callback_timeout=max(0.1, end - time.monotonic()))
    return stuck


async def _forget(client: Client, keys: list[Any]) -> None:
    """Cancel the futures in the kernel, and what the scheduler had not heard of yet.

    Not by `Client.cancel`: in distributed 2026.7 the scheduler closes the client's connection if there are tasks
    between these futures that no client wants.
    """
    client._send_to_scheduler({"op": "client-releases-keys", "keys": keys, "client": client.id})  # noqa: SLF001
    for key in keys:
        state = client.futures.pop(key, None)
        if state is not None:
            state.cancel()


def describe_stuck_worker(worker: StuckWorker, gpus: Sequence[GpuState]) -> str:
    """What became of a worker whose task did not stop, in a sentence or some."""
    index = next((gpu.index for gpu in gpus if gpu.uuid == worker.name), None)
    where = f"worker {worker.name}" if index is None else f"GPU {index}"
    more = f" and {len(worker.tasks) - 1} more" if len(worker.tasks) > 1 else ""
    text = f"The task {worker.tasks[0]}{more} on {where} did not stop within {_LIMIT} s; "
    if worker.outcome == "busy":
        return f"{text}it ends when it returns to Python, and other tasks of its worker go on."
    if worker.outcome == "silent":
        text += "its worker does not answer, and is restarted if that goes on."
    else:
        text += "its worker was restarted."
    if worker.recomputed:
        text += " What it held is computed again when it is needed."
    if worker.lost:
        names = ", ".join(worker.lost[:_NAMED]) + (" and others" if len(worker.lost) > _NAMED else "")
        text += f" Lost, because it cannot be computed again: {names}."
    return text


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
