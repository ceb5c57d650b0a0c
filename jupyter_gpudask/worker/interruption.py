"""Interrupting tasks that run in a worker's threads although they were cancelled. See `scheduler.cancellation`."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from typing import TYPE_CHECKING, Any

from distributed import Reschedule, WorkerPlugin, get_worker

if TYPE_CHECKING:
    from distributed import Worker

INTERRUPTION_PLUGIN = "gpudask-interruption"
"""The name of the `InterruptionPlugin` of each worker."""

INTERRUPT = "gpudask_interrupt"
"""The operation of a worker that `InterruptionPlugin.interrupt` carries out."""

_TICK = 0.02
_AGAIN = 0.4
_QUIET = 0.2
"""Seconds without a cancelled task that runs, after which none is expected any more: the scheduler's message that
cancels it travels on another connection than the request to interrupt it."""


class TaskInterruptedError(KeyboardInterrupt):
    """Raised inside a task that still runs although nobody wants its result: its cell was interrupted.

    Dask lets a `KeyboardInterrupt` pass, and of any other exception it pickles the traceback, which nobody will read.
    """


class TaskRun:
    """One run of a task in a thread, which can be interrupted as long as it lasts.

    An exception that is set from another thread can be raised at any later point of this one, in Dask's own code too,
    where it would end the worker's thread or lose the outcome of the task. So a run says that it ends, waits while
    an exception is just being set, and takes back one that has not been raised yet.

    Distributed's ``active_threads_lock`` alone would not do: the exception could be raised while the thread waits
    for that lock itself.

    Parameters
    ----------
    key
        Of the task.
    """

    def __init__(self, key: Any) -> None:
        self.key = key
        self.interrupted = False
        self._thread = threading.get_ident()
        self._next = 0.0
        self._is_setting = False
        self._ends = False

    def interrupt(self) -> None:
        """Raise `TaskInterruptedError` in the thread when it is next in Python; called from one other thread.

        Calls in quick succession do nothing. An exception can be raised in vain, in a finalizer.
        """
        if time.monotonic() < self._next:
            return
        self._is_setting = True
        if not self._ends:
            self.interrupted = True
            _set_exception(self._thread, TaskInterruptedError)
            self._next = time.monotonic() + _AGAIN
        self._is_setting = False

    def end(self) -> None:
        """Called in the thread: no exception is raised after this. If one is raised in here, call it again."""
        self._ends = True
        while self._is_setting:
            time.sleep(0)
        _set_exception(self._thread, None)


def _set_exception(thread: int, exception: type[BaseException] | None) -> None:
    value = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), value)


class InterruptionPlugin(WorkerPlugin):
    """Knows the runs of the worker's tasks, and interrupts those that were cancelled when the scheduler asks for it.

    Attributes
    ----------
    runs
        Those that last, in the order of their start.
    """

    def __init__(self) -> None:
        self.runs: dict[TaskRun, None] = {}
        self._worker: Worker

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the worker has joined the scheduler, before it gets tasks."""
        self._worker = worker
        worker.handlers[INTERRUPT] = self.interrupt

    async def interrupt(self, patience: float) -> dict[str, Any]:
        """Raise `TaskInterruptedError` in each thread whose task was cancelled, and wait for the ends of those tasks.

        A thread that is inside compiled code gets it when it returns to Python.

        Parameters
        ----------
        patience
            Seconds to wait at most.

        Returns
        -------
        dict
            ``cancelled``: keys of those that still run, as texts. ``others``: how many tasks run that somebody wants.
        """
        state, now = self._worker.state, asyncio.get_running_loop().time
        end, quiet_at = now() + patience, now() + _QUIET
        while True:
            executing = [*state.executing, *state.long_running]
            cancelled = {task.key for task in executing if task.state == "cancelled"}
            for run in list(self.runs):
                if run.key in cancelled:
                    run.interrupt()
            if cancelled:
                quiet_at = now() + _QUIET
            if now() >= min(end, quiet_at):
                return {"cancelled": [str(key) for key in cancelled], "others": len(executing) - len(cancelled)}
            await asyncio.sleep(_TICK)


def run_task(original: Any, /, *args: Any, **kwargs: Any) -> Any:
    """As `distributed.worker._run_task_simple`, which runs each task of a thread: here as a `TaskRun`."""
    runs = _runs_of_this_worker()
    if runs is None:
        return original(*args, **kwargs)
    run = TaskRun(get_worker().get_current_task())
    outcome: Any = None
    try:
        try:
            runs[run] = None
            outcome = original(*args, **kwargs)
        finally:
            run.end()
    except BaseException:
        run.end()
        if not run.interrupted:
            runs.pop(run)
            raise
    runs.pop(run)
    if run.interrupted and (outcome is None or outcome["op"] != "task-finished"):
        # Not an error: the same task may have been submitted again meanwhile. One that nobody wants is dropped.
        return {"op": "task-erred", "actual_exception": Reschedule(), "thread": threading.get_ident()}
    return outcome


def _runs_of_this_worker() -> dict[TaskRun, None] | None:
    try:
        plugin = get_worker().plugins.get(INTERRUPTION_PLUGIN)
    except ValueError:  # a process of an executor that the user has given the worker
        return None
    return plugin.runs if isinstance(plugin, InterruptionPlugin) else None
