"""Emptying a cluster: what was computed, kept, named or held is forgotten, and the workers stay warm."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import Any

from distributed.protocol.pickle import dumps

from ..scheduler.cancellation import StuckWorker, assigned_tasks, stop_released_tasks
from ..worker.allocator import give_back

# Those of Dask's extensions that keep something under a name for whoever comes next.
_KEEPERS = ("publish", "variables", "queues", "semaphores", "multi_locks", "events")
_STIMULUS = "gpudask-reset"
_PATIENCE = 1.5
_CLEANING_TIME = 2.0


async def reset(scheduler: Any) -> list[StuckWorker]:
    """Make the scheduler and its workers as they were when the cluster came up.

    It is what `distributed.Scheduler.restart` does, but the processes of the workers go on: their imports, their CUDA
    contexts and pools of fixed size are kept. A task that runs is interrupted when it returns to Python; where that
    takes too long, the worker is restarted.

    Returns
    -------
    list of StuckWorker
        The workers that were restarted, or could not be.
    """
    assigned = assigned_tasks(scheduler)
    for client in list(scheduler.clients.values()):
        keys = [task.key for task in client.wants_what]
        scheduler.client_releases_keys(keys=keys, client=client.client_key, stimulus_id=_STIMULUS)
    _forget_names(scheduler)
    scheduler.report({"op": "restart"})  # clients that are still there learn that their results are gone
    stuck = await stop_released_tasks(scheduler, assigned, _PATIENCE)
    message = {"op": "run", "function": dumps(_clean_worker), "wait": True}
    with suppress(TimeoutError):  # a worker inside compiled code is clean when it comes back
        await asyncio.wait_for(scheduler.broadcast(msg=message, on_error="ignore"), _CLEANING_TIME)
    return stuck


def _forget_names(scheduler: Any) -> None:
    timers = dict(scheduler.periodic_callbacks)
    for name in _KEEPERS:
        if name in scheduler.extensions:
            # Not replaced by a new one: caches of Dask's hold its methods, and so all that it keeps.
            scheduler.extensions[name].__init__(scheduler)
    for name, timer in timers.items():
        if scheduler.periodic_callbacks.get(name) is not timer:
            timer.stop()


def _clean_worker() -> None:
    gc.collect()
    give_back()
