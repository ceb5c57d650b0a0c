"""Run the threads of a cell, and the functions that it submits to a thread pool or a client, in its context.

Python copies the context of a task to the tasks that it creates, but not to threads (an option since 3.14). Without
this, a cell that uses a thread pool would silently compute on the CPU. Libraries such as XGBoost pass coroutines to
``client.sync``, which runs them in the client's thread.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from multiprocessing.pool import ThreadPool
from typing import TYPE_CHECKING, Any

from ..inspection.arguments import bind, first_argument
from .config_overlay import current_overlay

if TYPE_CHECKING:
    from threading import Thread


def start(original: Any, /, *args: Any, **kwargs: Any) -> None:
    """As `threading.Thread.start`; in a cell the thread runs in a copy of the current context."""
    if current_overlay() is not None:
        thread: Thread = first_argument(original, args, kwargs)
        context, run = copy_context(), thread.run
        thread.run = lambda: context.run(run)  # type: ignore[method-assign]
    original(*args, **kwargs)


def submit(original: Any, /, *args: Any, **kwargs: Any) -> Any:
    """As `ThreadPoolExecutor.submit`; in a cell the function runs in a copy of the current context."""
    if current_overlay() is None or len(args) < 2:
        return original(*args, **kwargs)
    pool, *call = args
    return original(pool, copy_context().run, *call, **kwargs)


def submit_to_pool(original: Any, /, *args: Any, **kwargs: Any) -> Any:
    """As a method of ``multiprocessing``'s `ThreadPool`; in a cell the function runs in copies of the context."""
    if current_overlay() is None or not isinstance(first_argument(original, args, kwargs), ThreadPool):
        return original(*args, **kwargs)
    call = bind(original, args, kwargs)
    context, function = copy_context(), call.arguments["func"]
    call.arguments["func"] = lambda *values, **named: context.copy().run(function, *values, **named)
    return original(*call.args, **call.kwargs)


def in_context_of_cell(function: Any) -> Any:
    """A coroutine function for ``Client.sync``; in a cell, it runs in the current context unless it is Dask's own."""
    is_of_dask = getattr(function, "__module__", "").partition(".")[0] == "distributed"
    return function if is_of_dask or current_overlay() is None else _in_context(function)


def _in_context(function: Any) -> Any:
    """A coroutine function that runs in a copy of the current context."""
    context = copy_context()

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    async def call_in_context(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.get_running_loop().create_task(call(*args, **kwargs), context=context)

    return call_in_context
