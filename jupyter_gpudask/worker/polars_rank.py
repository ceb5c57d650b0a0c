"""The part of Polars' engine in this worker: its calls run in a thread of their own, and can be interrupted.

Without it, cudf-polars would run them in the event loop of the worker, which could not answer until a query ends.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

from distributed import Worker, WorkerPlugin

from .imports import import_in_loop
from .interruption import TaskInterruptedError, TaskRun
from .polars_ports import Ranks

CONTEXT = "_cudf_polars_mp_context_"
"""The name of the attribute of a worker in which cudf-polars keeps the context of an engine, without its id."""

_ENGINE = "cudf_polars.engine.dask"
_ACTORS = "rapidsmpf-actor"  # the thread in which RapidsMPF runs the actors of a query
_INTERVAL = 0.02
_STOP_TIMEOUT = 1.0
_RELEASE_TIMEOUT = 2.0
_KEPT_CALLS = 100
_OFTEN = ("profile", "tick")
"""Dask's callbacks that run fifty and a hundred times a second, to observe the event loop and the tasks."""
_RARELY = 200.0  # milliseconds


class QueryInterruptedError(RuntimeError):
    """The query was interrupted in this worker."""


class PolarsRankPlugin(WorkerPlugin):
    """Has the thread in which cudf-polars makes its context, runs queries, and ends its context.

    Its allocator is that of the process during its calls only, so that Dask's tasks keep theirs. The thread of a query
    that is interrupted and ends slowly is left, with its context; the next engine gets another one.

    - `seconds`: the duration of the calls, since it was set to 0.
    - `monitor`: KvikIO's counter of the bytes that are read, in a cell with ``--profile``.
    """

    name = "gpudask-polars"

    def __init__(self) -> None:
        self.seconds, self.monitor = 0.0, None
        self._thread: ThreadPoolExecutor | None = None
        self._resource: Any = None  # the allocator of the engine
        self._before: Any = None  # that of the process without it
        self._run: TaskRun | None = None
        self._left: dict[TaskRun, set[int]] = {}  # calls in threads that were left, and the threads of their actors
        self._lock: threading.Lock
        self._often: list[tuple[Any, float]]
        self._interrupted: deque[str] = deque(maxlen=_KEPT_CALLS)
        self._worker: Worker

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the worker has joined the scheduler."""
        self._worker, self._lock = worker, threading.Lock()
        callbacks = getattr(worker, "periodic_callbacks", {})
        self._often = [(each, each.callback_time) for name in _OFTEN if (each := callbacks.get(name))]

    async def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - Dask's signature
        """Release the contexts; called by Dask when the plugin is unregistered, or when the worker closes."""
        await self.release()

    @property
    def is_running(self) -> bool:
        """Whether a function runs in the thread."""
        return self._run is not None

    async def call(self, id_: str, function: Callable[[], Any]) -> Any:
        """Call a function in the thread; `id_` is what `interrupt` calls it."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=self.name)
        try:
            for each, _ in self._often:  # the actors of the query wait for the GIL meanwhile
                each.callback_time = _RARELY
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._call, id_, function)
        finally:
            for each, interval in self._often:
                each.callback_time = interval

    def _call(self, id_: str, function: Callable[[], Any]) -> Any:
        run, began = TaskRun(id_), time.monotonic()
        self._before = self._exchange_resource(self._resource)
        try:
            try:
                self._run = run
                if id_ in self._interrupted:
                    raise TaskInterruptedError
                return function()
            finally:
                run.end()
        except (TaskInterruptedError, asyncio.CancelledError):
            run.end()
            raise QueryInterruptedError("The query was interrupted.") from None
        finally:
            if self._leave_call(run):
                self.seconds += time.monotonic() - began
            self._left.pop(run, None)

    def _leave_call(self, run: TaskRun) -> bool:
        """Give the process the allocator of before the call, and accept another one; `False` if that was done."""
        with self._lock:
            if self._run is not run:
                return False
            used = self._exchange_resource(self._before)
            self._resource = used if self._contexts() else None  # the next engine does not allocate from an ended one's
            self._run = None
            return True

    def _exchange_resource(self, resource: Any) -> Any:
        """Make `resource` the allocator of the process, if there is one; returns the one before."""
        if "rmm" not in sys.modules:
            return None
        import rmm

        before = rmm.mr.get_current_device_resource()
        if resource is not None:
            rmm.mr.set_current_device_resource(resource)
        return before

    async def interrupt(self, limit: float, id_: str | None = None, longest: float = 0) -> bool:
        """Interrupt a call, by default the running one; whether it ends within `limit` seconds.

        `longest`: as `limit`, for a call whose thread was left.

        A call whose message has not arrived yet, or that waits for the thread, ends when it begins. RapidsMPF's actors
        end when they have computed their current chunks, or wait for memory; if they have not, the thread is left to
        them. Other compiled code ends later.
        """
        if id_ is not None:
            self._interrupted.append(id_)
        end = time.monotonic() + limit
        run = self._run
        if run is None or id_ not in (None, run.key):
            return await self._left_ends(id_, max(end, time.monotonic() + longest))
        refusing: set[asyncio.Task[None]] = set()
        actors: set[int] = set()
        while self._run is run and time.monotonic() < end:
            actors |= _cancel_actors(besides=set().union(*list(self._left.values())))
            if not actors:
                run.interrupt()
            elif not refusing:
                refusing = {asyncio.create_task(memory.shutdown()) for memory in self._memories()}
            await asyncio.sleep(_INTERVAL)
            refusing = {each for each in refusing if not each.done()}
        if self._run is run:
            if actors:
                self._leave(run, actors)
            return False
        if self._thread is not None:
            self._thread.submit(gc.collect)  # coroutines that were cancelled refer to each other, and to device memory
        return True

    async def _left_ends(self, id_: str | None, end: float) -> bool:
        """Whether a call whose thread was left ends until a time, if there is one of this id."""
        while any(run.key == id_ for run in list(self._left)):
            if time.monotonic() > end:
                return False
            await asyncio.sleep(_INTERVAL)
        return True

    def _leave(self, run: TaskRun, actors: set[int]) -> None:
        """Leave the thread, with the engine, to a call whose actors are cancelled: hundreds of scans take seconds."""
        self._left[run] = actors
        if not self._leave_call(run):  # it has ended
            self._left.pop(run, None)
            return
        thread, self._thread, self._resource = self._thread, None, None
        names = self._contexts()
        owner = SimpleNamespace(**{name: vars(self._worker).pop(name) for name in names})
        assert thread is not None
        thread.submit(_release, owner, names)
        thread.submit(gc.collect)
        thread.shutdown(wait=False)

    def _memories(self) -> list[Any]:
        """What RapidsMPF's actors ask for device memory; a cancelled one waits until its request is met or refused.

        Each unmet request waits for a tenth of a second for its turn, and a large query has hundreds.
        """
        contexts = [vars(self._worker)[name].ctx for name in self._contexts()]
        device = sys.modules["rapidsmpf.memory.buffer"].MemoryType.DEVICE if contexts else None
        return [context.memory(device) for context in contexts if context is not None]

    def _contexts(self) -> list[str]:
        return [name for name in vars(self._worker) if name.startswith(CONTEXT)]

    async def release(self) -> bool:
        """End the contexts of engines whose kernels have left; whether that was possible in time."""
        contexts = self._contexts()
        if not await self.interrupt(_STOP_TIMEOUT):
            return False
        if contexts:
            end = self.call("", partial(_release, self._worker, contexts))
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(end)), _RELEASE_TIMEOUT)
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = self._resource = None
        return True


def _release(owner: Any, contexts: list[str]) -> None:
    """End contexts that `owner` has, in the thread in which they were made."""
    for name in contexts:
        teardown = sys.modules[_ENGINE]._teardown_worker  # noqa: SLF001 - what ``DaskEngine.shutdown`` sends
        teardown(uid=name.removeprefix(CONTEXT), dask_worker=owner)


def _cancel_actors(besides: set[int]) -> set[int]:
    """Cancel the actors of the running query, if there are any, as RapidsMPF does at an interrupt of the main thread.

    RapidsMPF has no other way to do it: the thread that has called it waits for theirs, which has an event loop.

    `besides`: threads of other queries. Returns those of the actors that are cancelled.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = set()
    for thread, innermost in sys._current_frames().items():  # noqa: SLF001 - documented
        if thread in besides or not names.get(thread, "").startswith(_ACTORS):
            continue
        for frame, _ in traceback.walk_stack(innermost):
            task = frame.f_locals.get("task") if frame.f_code is asyncio.Runner.run.__code__ else None
            if task is not None:
                found.add(thread)
                if not task.cancelling():
                    task.get_loop().call_soon_threadsafe(task.cancel)
    return found


async def call_rank(id_: str, function: Callable[..., Any], ranks: Ranks, dask_worker: Worker) -> Any:
    """Call a function of cudf-polars in the thread of this worker's rank; sent by the kernel."""
    function = ranks.set_up(function)
    if "dask_worker" in inspect.signature(function).parameters:
        function = partial(function, dask_worker=dask_worker)
    return await rank_of(dask_worker).call(id_, function)


async def prepare_rank(dask_worker: Worker) -> None:
    """Import cudf-polars, which the first call would do; that also shows an error."""
    import_in_loop(dask_worker, _ENGINE)


async def interrupt_rank(id_: str, limit: float, longest: float, dask_worker: Worker) -> bool:
    """Interrupt a call in the thread of this worker's rank; whether it does not run any more in `limit` seconds."""
    return await rank_of(dask_worker).interrupt(limit, id_, longest)


async def release_rank(dask_worker: Worker) -> bool:
    """End the contexts in this worker, after its kernel has left; whether that was possible in time."""
    rank = dask_worker.plugins.get(PolarsRankPlugin.name)
    return not isinstance(rank, PolarsRankPlugin) or await rank.release()


def runs_query(worker: Worker) -> bool:
    """Whether a query runs in this worker, or the engine starts or ends; sent with each heartbeat."""
    rank = worker.plugins.get(PolarsRankPlugin.name)
    return isinstance(rank, PolarsRankPlugin) and rank.is_running


def rank_of(worker: Worker) -> PolarsRankPlugin:
    """The plugin of this worker."""
    rank = worker.plugins[PolarsRankPlugin.name]
    assert isinstance(rank, PolarsRankPlugin)
    return rank
