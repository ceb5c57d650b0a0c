"""Emptying a cluster: what was computed, kept, named or held is forgotten, and the workers stay warm."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from typing import Any

from distributed.protocol.pickle import dumps

from .allocator import give_back
from .worker import stop_unwanted_tasks

# Those of Dask's extensions that keep something under a name for whoever comes next.
_KEEPERS = ("publish", "variables", "queues", "semaphores", "multi_locks", "events")
_STIMULUS = "gpudask-empty"
_PATIENCE = 3.0


async def empty(scheduler: Any) -> None:
    """Make the scheduler and its workers as they were when the cluster came up.

    It is what `distributed.Scheduler.restart` does, but the processes of the workers go on: their imports, their CUDA
    contexts and pools of fixed size are kept. A task that runs is interrupted as soon as it returns to Python.
    """
    for client in list(scheduler.clients.values()):
        keys = [task.key for task in client.wants_what]
        scheduler.client_releases_keys(keys=keys, client=client.client_key, stimulus_id=_STIMULUS)
    for name in _KEEPERS:
        if name in scheduler.extensions:
            scheduler.extensions[name] = type(scheduler.extensions[name])(scheduler)
    scheduler.report({"op": "restart"})  # clients that are still there learn that their results are gone
    message = {"op": "run", "function": dumps(_clean_worker), "wait": True}
    with suppress(TimeoutError):  # a worker inside compiled code is clean when it comes back
        await asyncio.wait_for(scheduler.broadcast(msg=message, on_error="ignore"), _PATIENCE)


async def _clean_worker(dask_worker: Any) -> None:
    await stop_unwanted_tasks(dask_worker)
    gc.collect()
    give_back()
