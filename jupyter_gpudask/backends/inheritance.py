"""Threads that a cell starts, and what it hands to a pool, run with the backends of the cell while it lasts.

Python copies the context of a task to the tasks that it makes, but not to threads (before 3.14, where it is an
option). Without this a cell that uses a pool of threads would silently compute on the CPU.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Thread
from typing import Any

from .config import current_overlay
from .interception import first_argument, intercept


def install_inheritance() -> None:
    """Have threads inherit; outside of cells nothing changes, and a second time does nothing."""
    intercept(Thread.start, _start)
    intercept(ThreadPoolExecutor.submit, _submit)


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
