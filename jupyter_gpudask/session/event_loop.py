"""An event loop in a thread of its own, so that the parent's side of the cluster works in a kernel that is busy."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_T = TypeVar("_T")
_POLL = 0.1
_CLEAN_UP_LIMIT = 6.0


class LoopThread:
    """Runs coroutines for code that blocks."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="gpudask-loop", daemon=True).start()

    def run(self, coroutine: Coroutine[Any, Any, _T], meanwhile: Callable[[], None] | None = None) -> _T:
        """Wait for `coroutine`, and call `meanwhile` ten times a second until it is done.

        If this thread is interrupted the coroutine is cancelled, and has finished cleaning up when this raises.
        """
        ended = threading.Event()

        async def run_to_the_end() -> _T:
            try:
                return await coroutine
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(run_to_the_end(), self._loop)
        try:
            while not ended.wait(_POLL):
                if meanwhile is not None:
                    meanwhile()
            return future.result()
        except BaseException:
            if not ended.is_set():
                future.cancel()
                ended.wait(_CLEAN_UP_LIMIT)
            raise
