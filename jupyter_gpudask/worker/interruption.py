"""Interrupt cancelled tasks that still run in a worker's threads. See `scheduler.cells`."""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from operator import call
from traceback import walk_stack
from types import FrameType
from typing import Any

from distributed import Reschedule, Worker, WorkerPlugin, get_worker

from .cuda_context import outcome_of_failed
from .host_threads import HostThreadsPlugin

INTERRUPT = "gpudask_interrupt"
"""The operation of a worker that `InterruptionPlugin.interrupt` carries out."""

MARK = "gpudask-mark"
"""The message that the scheduler sends behind those that cancel tasks."""

_INTERVAL = 0.02
_RETRY_INTERVAL = 0.4
_SETTLE_TIME = 0.2
"""Seconds without a running cancelled task after which no more are expected, if no `MARK` is sent: the message that
cancels a task arrives on another connection than the request to interrupt it."""
_KEPT_MARKS = 100


class TaskInterruptedError(KeyboardInterrupt):
    """Raised inside a cancelled task that still runs: its cell was interrupted.

    A `KeyboardInterrupt`, because Dask lets these pass; it would pickle the traceback of any other exception.
    """


class TaskRun:
    """A task that runs in a thread and can be interrupted.

    An exception that another thread sets can be raised at any later point, also in Dask's own code, where it would end
    the worker's thread or lose the outcome of the task. A run therefore marks its end, waits while an exception is
    being set, and clears one that has not been raised yet.

    Distributed's ``active_threads_lock`` is not sufficient: the exception could be raised while the thread waits for
    that lock.
    """

    def __init__(self, key: Any) -> None:
        self.key = key
        self.interrupted = False
        self._thread = threading.get_ident()
        self._next = 0.0
        self._is_setting = False
        self._ends = False

    def interrupt(self) -> None:
        """Raise `TaskInterruptedError` in the thread when it next runs Python code; called from one other thread.

        It can be called again, because an exception in a finalizer is ignored; frequent calls do nothing, nor do calls
        while the thread imports a module, which would be half set up.
        """
        if time.monotonic() < self._next or imports_module(sys._current_frames().get(self._thread)):  # noqa: SLF001 - documented
            return
        self._is_setting = True
        if not self._ends:
            self.interrupted = True
            _set_exception(self._thread, TaskInterruptedError)
            self._next = time.monotonic() + _RETRY_INTERVAL
        self._is_setting = False

    def end(self) -> None:
        """Called in the thread; no exception is raised afterwards. If one is raised in here, call it again."""
        self._ends = True
        while self._is_setting:
            time.sleep(0)
        _set_exception(self._thread, None)


def imports_module(innermost: FrameType | None) -> bool:
    """Whether a thread whose innermost frame this is imports a module, which an exception would leave half set up."""
    codes = [frame.f_code for frame, _ in walk_stack(innermost)] if innermost is not None else []
    return any(code.co_name == "_find_and_load" and code.co_filename.startswith("<frozen importlib") for code in codes)


def _set_exception(thread: int, exception: type[BaseException] | None) -> None:
    value = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), value)


class InterruptionPlugin(WorkerPlugin):
    """Interrupts cancelled tasks of the worker at the request of the scheduler.

    - `runs`: the tasks that are running, in the order of their start.
    - `call`: calls the function that runs a task, with its arguments; `profiling` replaces it to measure tasks.
    """

    name = "gpudask-interruption"

    def __init__(self) -> None:
        self.runs: dict[TaskRun, None] = {}
        self.call: Callable[..., Any] = call
        self._marks: deque[str] = deque(maxlen=_KEPT_MARKS)
        self._worker: Worker

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the worker has joined the scheduler, before it gets tasks."""
        self._worker = worker
        worker.handlers[INTERRUPT] = self.interrupt
        worker.stream_handlers[MARK] = self._note_mark

    def teardown(self, worker: Worker) -> None:
        """Remove the operations; called by Dask when the plugin is unregistered, or when the worker closes."""
        worker.handlers.pop(INTERRUPT, None)
        worker.stream_handlers.pop(MARK, None)

    def _note_mark(self, name: str) -> None:
        self._marks.append(name)

    async def interrupt(self, limit: float, mark: str = "") -> dict[str, Any]:
        """Raise `TaskInterruptedError` in the threads of cancelled tasks, and wait until these tasks end.

        In compiled code it is raised when the thread returns to Python.

        - `limit`: seconds to wait.
        - `mark`: the name of the `MARK` behind the messages that cancel these tasks.

        Returns the keys of the ``cancelled`` tasks that still run, as strings, and the number of ``others`` that run.
        """
        state, now = self._worker.state, asyncio.get_running_loop().time
        end, settled_at = now() + limit, now() + _SETTLE_TIME
        while True:
            executing = [*state.executing, *state.long_running]
            cancelled = {task.key for task in executing if task.state == "cancelled"}
            for run in list(self.runs):
                if run.key in cancelled:
                    run.interrupt()
            if cancelled:
                settled_at = now() + _SETTLE_TIME
            is_settled = now() >= settled_at if not mark else not cancelled and mark in self._marks
            if is_settled or now() >= end:
                return {"cancelled": [str(key) for key in cancelled], "others": len(executing) - len(cancelled)}
            await asyncio.sleep(_INTERVAL)


def run_task(original: Any, /, *args: Any, **kwargs: Any) -> Any:
    """As `distributed.worker._run_task_simple`, which runs each task of a thread: here as a `TaskRun`."""
    plugin = _plugin_of_this_worker()
    if plugin is None:
        return original(*args, **kwargs)
    runs = plugin.runs
    threads = get_worker().plugins.get(HostThreadsPlugin.name)
    settle = threads.settle if isinstance(threads, HostThreadsPlugin) else float
    run = TaskRun(get_worker().get_current_task())
    outcome: Any = None
    try:
        try:
            runs[run] = None
            outcome = plugin.call(original, *args, **kwargs)
        finally:
            run.end()
    except BaseException:
        run.end()
        if not run.interrupted:
            runs.pop(run)
            settle()
            raise
    runs.pop(run)
    waited = settle()
    if waited and outcome is not None:
        outcome["stop"] -= waited  # it has not computed
    if outcome["op"] == "task-erred" and not run.interrupted:
        return outcome_of_failed(run.key, outcome)
    if run.interrupted and (outcome is None or outcome["op"] != "task-finished"):
        # Not an error: the same task may have been submitted again meanwhile. One that nobody wants is dropped.
        return {"op": "task-erred", "actual_exception": Reschedule(), "thread": threading.get_ident()}
    return outcome


def _plugin_of_this_worker() -> InterruptionPlugin | None:
    try:
        plugin = get_worker().plugins.get(InterruptionPlugin.name)
    except ValueError:  # a process of an executor that the user has given the worker
        return None
    return plugin if isinstance(plugin, InterruptionPlugin) else None
