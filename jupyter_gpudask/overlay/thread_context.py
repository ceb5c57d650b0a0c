"""Threads that a cell starts, and what it hands to a pool or to a Dask client, run with the backends of the cell.

Python copies the context of a task to the tasks that it makes, but not to threads (before 3.14, where it is an
option). Without this a cell that uses a pool of threads would silently compute on the CPU. Libraries such as XGBoost
have ``client.sync`` run their coroutines in the thread of the client.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Thread
from typing import Any

from distributed.utils import SyncMethodMixin

from ..patches.interception import bind, first_argument, intercept
from .config_overlay import current_overlay


def install_inheritance() -> None:
    """Have threads inherit; outside of cells nothing changes, and a second time does nothing."""
    intercept(Thread.start, _start)
    intercept(ThreadPoolExecutor.submit, _submit)
    intercept(SyncMethodMixin.sync, _sync)


def _start(start: Any, /, *args: Any, **kwargs: Any) -> None:
    if current_overlay() is not None:
        thread: Thread = first_argument(start, args, kwargs)
        context, run = copy_context(), thread.run
        thread.run = lambda: context.run(run)  # type: ignore[method-assign]
    start(*args, **kwargs)


def _submit(submit: Any, /, *args: Any, **kwargs: Any) -> Any:
    if current_overlay() is None or len(args) < 2:
        return submit(*args, **kwargs)
    pool, *call = args
    return submit(pool, copy_context().run, *call, **kwargs)


def _sync(sync: Any, /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    if current_overlay() is None:
        return sync(*args, **kwargs)
    call = bind(sync, args, kwargs)
    client, function = call.arguments["self"], call.arguments["func"]
    is_of_dask = getattr(function, "__module__", "").partition(".")[0] == "distributed"
    if is_of_dask or call.arguments.get("asynchronous") or getattr(client, "asynchronous", True):
        return sync(*args, **kwargs)
    call.arguments["func"] = _in_context(function)
    return sync(*call.args, **call.kwargs)


def _in_context(function: Any) -> Any:
    """A coroutine function that runs in the context of now."""
    context = copy_context()

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    async def call_in_context(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.get_running_loop().create_task(call(*args, **kwargs), context=context)

    return call_in_context
