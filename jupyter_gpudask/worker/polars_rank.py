"""The part of Polars' engine in this worker: its calls run in a thread of their own, and can be interrupted.

Without it, cudf-polars would run them in the event loop of the worker, which could not answer until a query ends.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from .interruption import TaskInterruptedError, TaskRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributed import Worker

_ATTRIBUTE = "gpudask_polars_rank"
_CONTEXT = "_cudf_polars_mp_context_"
_INTERVAL = 0.02


class QueryInterruptedError(RuntimeError):
    """The query was interrupted in this worker."""


class PolarsRank:
    """The thread in which cudf-polars makes its context, runs queries, and ends its context.

    Its allocator is that of the process during its calls only, so that Dask's tasks keep theirs.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gpudask-polars")
        self._resource: Any = None
        self._run: TaskRun | None = None

    async def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._call, function, args, kwargs)

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        run = TaskRun(function)
        before = self._exchange_resource(self._resource)
        try:
            try:
                self._run = run
                return function(*args, **kwargs)
            finally:
                run.end()
        except TaskInterruptedError:
            run.end()
            raise QueryInterruptedError("The query was interrupted.") from None
        finally:
            self._run = None
            self._resource = self._exchange_resource(before)

    def _exchange_resource(self, resource: Any) -> Any:
        """Make `resource` the allocator of the process, if there is one; returns the one before."""
        if "rmm" not in sys.modules:
            return None
        import rmm

        before = rmm.mr.get_current_device_resource()
        if resource is not None:
            rmm.mr.set_current_device_resource(resource)
        return before

    async def interrupt(self, limit: float) -> bool:
        """Interrupt the running call; whether it ends within `limit` seconds. In compiled code, it ends later."""
        run, end = self._run, time.monotonic() + limit
        if run is None:
            return True
        run.interrupt()
        while self._run is run and time.monotonic() < end:
            await asyncio.sleep(_INTERVAL)
        return self._run is not run


async def call_rank(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], dask_worker: Worker
) -> Any:
    """Call a function of cudf-polars in the thread of this worker's rank; sent by the kernel."""
    rank = _rank_of(dask_worker)
    if "dask_worker" in inspect.signature(function).parameters:
        kwargs = kwargs | {"dask_worker": dask_worker}
    return await rank.call(function, args, kwargs)


async def interrupt_rank(limit: float, dask_worker: Worker) -> bool:
    """Interrupt what runs in the thread of this worker's rank; whether nothing runs there any more."""
    rank = getattr(dask_worker, _ATTRIBUTE, None)
    return rank is None or await rank.interrupt(limit)


def _rank_of(worker: Worker) -> PolarsRank:
    if not hasattr(worker, _ATTRIBUTE):
        setattr(worker, _ATTRIBUTE, PolarsRank())
    rank: PolarsRank = getattr(worker, _ATTRIBUTE)
    return rank
