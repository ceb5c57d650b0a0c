"""An event loop in a background thread, so that the connection to the cluster works while the kernel is busy."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_T = TypeVar("_T")
_POLL_INTERVAL = 0.1
_CANCEL_TIMEOUT = 6.0


class EventLoopThread:
    """Runs coroutines for blocking code."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="gpudask-loop", daemon=True).start()

    def start(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run `coroutine`, which handles its errors itself, and do not wait for it."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, _T], while_waiting: Callable[[], None] | None = None) -> _T:
        """Wait for `coroutine` and return its result.

        If this thread is interrupted, the coroutine is cancelled; its clean-up has finished when this raises.

        Parameters
        ----------
        coroutine
            What to run.
        while_waiting
            Called in this thread ten times a second until the coroutine is done.
        """
        done = threading.Event()

        async def run_and_signal() -> _T:
            try:
                return await coroutine
            finally:
                done.set()

        future = asyncio.run_coroutine_threadsafe(run_and_signal(), self._loop)
        try:
            while not done.wait(_POLL_INTERVAL):
                if while_waiting is not None:
                    while_waiting()
            return future.result()
        except BaseException:
            if not done.is_set():
                future.cancel()
                done.wait(_CANCEL_TIMEOUT)
            raise
