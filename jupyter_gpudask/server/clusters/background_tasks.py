"""Work that is done beside everything else."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

logger = logging.getLogger(__name__)


class Tasks:
    """Keeps tasks that nobody waits for, and logs what goes wrong in them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin `work`."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._report)

    def cancel(self) -> None:
        """End them all."""
        for task in list(self._tasks):
            task.cancel()

    def _report(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s", error, exc_info=error)
