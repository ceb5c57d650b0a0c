"""Reset a cluster: delete results, tasks, actors and named objects; the worker processes keep running."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from distributed.protocol.pickle import dumps

from ...scheduler.cells import StuckWorker, assigned_tasks, stop_released_tasks
from ...worker.memory import reset_worker

# The extensions of Dask's scheduler that keep named objects.
_NAMED_OBJECTS = ("publish", "variables", "queues", "semaphores", "multi_locks", "events")
_STIMULUS = "gpudask-reset"
_STOP_TIMEOUT = 1.5
_WORKER_TIMEOUT = 2.0


async def reset(dask_scheduler: Any) -> list[StuckWorker]:
    """Reset the scheduler and its workers to their state after the start of the cluster.

    Unlike `distributed.Scheduler.restart` it keeps the worker processes, with their imports, CUDA contexts and pools of
    fixed size. A running task is interrupted when it returns to Python; if that takes too long, its worker is
    restarted.

    Returns
    -------
    list of StuckWorker
        The workers that were restarted, or could not be.
    """
    scheduler = dask_scheduler
    assigned = assigned_tasks(scheduler)
    for client in list(scheduler.clients.values()):
        keys = [task.key for task in client.wants_what]
        scheduler.client_releases_keys(keys=keys, client=client.client_key, stimulus_id=_STIMULUS)
    _delete_named_objects(scheduler)
    scheduler.report({"op": "restart"})  # connected clients cancel their futures
    stuck = await stop_released_tasks(scheduler, assigned, _STOP_TIMEOUT)
    message = {"op": "run", "function": dumps(reset_worker), "wait": True}
    with suppress(TimeoutError):  # a worker that is inside compiled code does it later
        await asyncio.wait_for(scheduler.broadcast(msg=message, on_error="ignore"), _WORKER_TIMEOUT)
    return stuck


def _delete_named_objects(scheduler: Any) -> None:
    timers = dict(scheduler.periodic_callbacks)
    for name in _NAMED_OBJECTS:
        if name in scheduler.extensions:
            # Not replaced by a new object, because caches of Dask hold the methods of this one and so its contents.
            scheduler.extensions[name].__init__(scheduler)
    for name, timer in timers.items():
        if scheduler.periodic_callbacks.get(name) is not timer:
            timer.stop()
