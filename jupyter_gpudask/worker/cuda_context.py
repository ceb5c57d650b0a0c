"""Replace a worker whose CUDA context is broken: every task that it runs would fail until its process ends."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

from dask.utils import key_split
from distributed import Worker, WorkerPlugin, get_worker
from distributed.core import error_message
from tornado.ioloop import PeriodicCallback

from ..device_errors import broken_context
from ..errors import BrokenContextError, function_at

CONTEXT_LOST = "gpudask_context_lost"
"""The operation of the scheduler with which a worker says that it ends, because its CUDA context is broken."""

MOST_IN_A_ROW = 3
"""How often a function may break the context of a worker, one time after the other, before its task fails."""

_EXIT_STATUS = 70
_INTERVAL = 1.0
_RESPONSE_TIMEOUT = 5.0
_TIME_TO_REPORT = 0.5
_MAX_REASON = 300


class ContextPlugin(WorkerPlugin):
    """Ends the worker when its CUDA context is broken; its nanny starts another, and Dask computes again what is lost.

    A worker without a nanny stays.
    """

    name = "gpudask-cuda-context"

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the worker has joined the scheduler, before it gets tasks."""
        self._worker = worker
        self._is_ending = False
        self._watch = PeriodicCallback(self._look, _INTERVAL * 1000)
        self._watch.start()

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        """Called by Dask when the plugin is unregistered, or when the worker closes."""
        self._watch.stop()

    def outcome_of(self, key: Any, outcome: dict[str, Any]) -> dict[str, Any]:
        """The outcome of a task that has failed; called in its thread. It does not return if the worker ends."""
        reason = broken_context()
        if not reason or not self._worker.nanny:
            return outcome
        if self._is_ending:
            _sleep_until_the_end()
        self._is_ending = True
        function, line = _place_of(outcome.get("actual_exception"), key)
        loop: Any = self._worker.loop
        report = asyncio.run_coroutine_threadsafe(self._report(function, line, reason), loop.asyncio_loop)
        if report.result() < MOST_IN_A_ROW:
            _end()
        loop.add_callback(loop.call_later, _TIME_TO_REPORT, _end)
        error = BrokenContextError(
            "context-of-worker", function=function_at(function, line), times=MOST_IN_A_ROW, error=reason.rstrip(". ")
        )
        return {**outcome, **error_message(error), "op": "task-erred", "actual_exception": error}

    async def _look(self) -> None:
        if not self._worker.state.all_running_tasks:  # a task says which function it was
            await self.end_if_broken()

    async def end_if_broken(self, function: str = "") -> None:
        """End the worker, if its context is broken; `function` is what has failed. It does not return then."""
        reason = broken_context(wait=False) if self._worker.nanny else ""
        if not reason:
            return
        if self._is_ending:
            await asyncio.Event().wait()
        self._is_ending = True
        await self._report(function, 0, reason)
        _end()

    async def _report(self, function: str, line: int, reason: str) -> int:
        """Report the end to the scheduler; how often the function has broken a context one time after the other."""
        try:
            async with asyncio.timeout(_RESPONSE_TIMEOUT):
                call = getattr(self._worker.scheduler, CONTEXT_LOST)
                answer = await call(
                    worker=self._worker.address, function=function, line=line, reason=reason[:_MAX_REASON]
                )
        except Exception:  # noqa: BLE001 - the scheduler is another one's, or does not respond
            return 0
        return int(answer) if isinstance(answer, int) else 0


async def end_if_broken(worker: Worker, function: str = "") -> None:
    """As `ContextPlugin.end_if_broken`, for a worker that has the plugin."""
    plugin = worker.plugins.get(ContextPlugin.name)
    if isinstance(plugin, ContextPlugin):
        await plugin.end_if_broken(function)


def outcome_of_failed(key: Any, outcome: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a failed task of the worker in whose thread this is called; see `ContextPlugin.outcome_of`."""
    plugin = get_worker().plugins.get(ContextPlugin.name)
    return plugin.outcome_of(key, outcome) if isinstance(plugin, ContextPlugin) else outcome


def _place_of(error: BaseException | None, key: Any) -> tuple[str, int]:
    """The function of the notebook that raised an error, and its line there; else the name of the task, and 0."""
    name, line = key_split(key), 0
    entry = error.__traceback__ if error is not None else None
    while entry is not None:
        if entry.tb_frame.f_globals.get("__name__") == "__main__":
            function = entry.tb_frame.f_code.co_name
            name, line = (name if function.startswith("<") else function), entry.tb_lineno
        entry = entry.tb_next
    return name, line


def _sleep_until_the_end() -> None:
    while True:
        time.sleep(_INTERVAL)


def _end() -> None:
    """End the process at once: to end CUDA in order takes seconds, and may not end at all."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_EXIT_STATUS)
