"""Cancel the tasks of an interrupted cell, so that the cluster is free for the next one."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .output import show_note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from IPython.core.interactiveshell import InteractiveShell

    from ..client.calls import StuckWorker
    from ..protocol import GpuState
    from ..session.launch import RunningCluster

_INTERRUPTS = (KeyboardInterrupt, asyncio.CancelledError)
_WAKE_INTERVAL = 0.2
_TOTAL_SECONDS = 2
_MAX_NAMES = 3


@dataclass
class Interruption:
    """What an interrupt has cancelled."""

    # the number of blocks of unfinished tasks of the cell; `None` if it was not interrupted, or the number is not known
    cancelled: int | None = None


@contextmanager
def cancel_on_interrupt(shell: InteractiveShell, cluster: RunningCluster, interruption: Interruption) -> Iterator[None]:
    """If the cell is interrupted, cancel its unfinished tasks and stop those that are running.

    Finished results and the tasks of earlier cells are kept. A note under the cell names tasks that did not stop.
    """
    client = cluster.client
    before = set(client.futures)
    counted: list[int | None] = []

    def count() -> None:
        from ..client.calls import count_unfinished_tasks

        counted.append(count_unfinished_tasks(client, before))

    # `compute` releases its futures before the cell ends, and the scheduler then forgets their tasks.
    client.on_interrupt = count
    with _responsive_event_loop(), _short_tracebacks(shell):
        try:
            yield
        finally:
            client.on_interrupt = None
            if was_interrupted(shell):
                from ..client.calls import cancel_unfinished

                if not counted:
                    count()
                interruption.cancelled = counted[-1]
                stuck = cancel_unfinished(client, before)
                stuck += client.stuck_workers
                client.stuck_workers.clear()
                for worker in stuck:
                    show_note(shell, describe_stuck_worker(worker, cluster.ready.gpus))


def describe_stuck_worker(worker: StuckWorker, gpus: Sequence[GpuState]) -> str:
    """Say in a few sentences which task did not stop, and what was done to its worker."""
    index = next((gpu.index for gpu in gpus if gpu.uuid == worker.name), None)
    where = f"worker {worker.name}" if index is None else f"GPU {index}"
    if worker.outcome == "ending":
        return f"The query of Polars on {where} has not ended yet; if it takes seconds more, its worker is restarted."
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


def was_interrupted(shell: InteractiveShell) -> bool:
    """Whether the last cell ended by an interrupt."""
    result = shell.last_execution_result
    return result is not None and isinstance(result.error_in_exec, _INTERRUPTS)


@contextmanager
def _short_tracebacks(shell: InteractiveShell) -> Iterator[None]:
    """Let the traceback of an interrupt end at the line of the user that has called Dask."""
    if shell.custom_exceptions:  # of the user
        yield
        return
    shell.set_custom_exc((KeyboardInterrupt,), _show_interrupt)
    try:
        yield
    finally:
        shell.set_custom_exc((), None)


def _show_interrupt(
    shell: InteractiveShell,
    kind: type[BaseException],
    error: BaseException,
    traceback: Any,
    tb_offset: int | None = None,
) -> None:
    last = traceback
    while last.tb_next is not None and not _is_of_dask(last.tb_next):
        last = last.tb_next
    last.tb_next = None
    shell.showtraceback((kind, error, traceback), tb_offset=tb_offset)


def _is_of_dask(traceback: Any) -> bool:
    package = str(traceback.tb_frame.f_globals.get("__name__")).partition(".")[0]
    return package in ("dask", "distributed", __name__.partition(".")[0])


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
