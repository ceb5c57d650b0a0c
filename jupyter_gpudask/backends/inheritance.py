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

from .config import current_overlay
from .interception import intercept


def install_inheritance() -> None:
    """Have threads inherit; outside of cells nothing changes, and a second time does nothing."""
    intercept(Thread.start, _start)
    intercept(ThreadPoolExecutor.submit, _submit)
    intercept(SyncMethodMixin.sync, _sync)


def _start(start: Any, thread: Thread) -> None:
    if current_overlay() is not None:
        context, run = copy_context(), thread.run
        thread.run = lambda: context.run(run)  # type: ignore[method-assign]
    start(thread)


def _submit(submit: Any, pool: ThreadPoolExecutor, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    if current_overlay() is None:
        return submit(pool, function, *args, **kwargs)
    return submit(pool, copy_context().run, function, *args, **kwargs)


def _sync(sync: Any, client: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    is_of_dask = getattr(function, "__module__", "").partition(".")[0] == "distributed"
    if is_of_dask or current_overlay() is None or kwargs.get("asynchronous") or client.asynchronous:
        return sync(client, function, *args, **kwargs)
    context = copy_context()

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    async def call_in_context(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.get_running_loop().create_task(call(*args, **kwargs), context=context)

    return sync(client, call_in_context, *args, **kwargs)
