"""Stopping cancelled tasks, from the scheduler: they are interrupted, or else their worker is restarted."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .interruption import INTERRUPT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_STIMULUS = "gpudask-interrupt"
_ANSWER_TIME = 0.2
"""Seconds, beyond those that a worker is given, in which its answer must come."""
_SILENCE = 8.0
_SUBMISSION_TIME = 0.5
_BATCH_TIME = 0.05
_KILL_TIME = 2.0
"""Seconds that a nanny has to end a process; it asks for four fifths of them, and then kills."""


@dataclass(frozen=True)
class StuckWorker:
    """A worker with tasks that were cancelled and did not stop in time.

    Attributes
    ----------
    name
        Of the worker.
    tasks
        Keys of the tasks.
    restarted
        Whether its nanny starts it again; else the tasks go on until they return to Python.
    recomputed
        How many results it held that Dask computes again when they are wanted.
    lost
        Keys of what it alone held and what cannot be computed again: scattered data, and actors.
    """

    name: str
    tasks: tuple[str, ...]
    restarted: bool
    recomputed: int = 0
    lost: tuple[str, ...] = ()


async def cancel_tasks(keys: Collection[Any], patience: float, dask_scheduler: Any) -> list[StuckWorker]:
    """Release `keys` for all clients, and stop those of their tasks that run.

    Unlike ``distributed.Client.cancel`` it takes keys between which there are tasks that no client wants.

    Parameters
    ----------
    keys
        Of unfinished tasks.
    patience
        Seconds to wait at most for tasks that run.
    dask_scheduler
        Filled in by Dask's ``run_on_scheduler``.

    Returns
    -------
    list of StuckWorker
        Those with tasks that did not stop in time.
    """
    await _submissions_arrive(dask_scheduler)
    assigned = assigned_tasks(dask_scheduler)
    for client, wanted in _wanted_by(dask_scheduler, keys).items():
        dask_scheduler.client_releases_keys(keys=wanted, client=client, stimulus_id=_STIMULUS)
    return await stop_released_tasks(dask_scheduler, assigned, patience)


def assigned_tasks(scheduler: Any) -> dict[str, set[Any]]:
    """The keys of the tasks that each worker has been sent and has not finished, by the worker's address."""
    return {address: {task.key for task in worker.processing} for address, worker in scheduler.workers.items()}


async def stop_released_tasks(scheduler: Any, assigned: Mapping[str, set[Any]], patience: float) -> list[StuckWorker]:
    """Interrupt the tasks that were released, and restart the workers where that does not end them in time.

    A worker that runs something else that is still wanted is not restarted. The restart goes on when this has returned.

    Parameters
    ----------
    scheduler
        Whose workers they are.
    assigned
        What `assigned_tasks` gave before the release.
    patience
        Seconds to wait at most.
    """
    addresses = [address for address in assigned if address in scheduler.workers]
    answers = await asyncio.gather(*(_interrupt(scheduler, address, patience) for address in addresses))
    stuck = [
        await _deal_with(scheduler, address, answer, assigned[address])
        for address, answer in zip(addresses, answers, strict=True)
    ]
    return [worker for worker in stuck if worker is not None]


async def _submissions_arrive(scheduler: Any) -> None:
    """Wait for graphs that clients have sent already, on connections of their own."""
    end = time.monotonic() + _SUBMISSION_TIME
    await asyncio.sleep(_BATCH_TIME)
    while getattr(scheduler, "_active_graph_updates", 0) and time.monotonic() < end:
        await asyncio.sleep(_BATCH_TIME)


def _wanted_by(scheduler: Any, keys: Collection[Any]) -> dict[str, list[Any]]:
    wanted: dict[str, list[Any]] = {}
    for key in keys:
        task = scheduler.tasks.get(key)
        for client in (task and task.who_wants) or ():
            wanted.setdefault(client.client_key, []).append(key)
    return wanted


async def _interrupt(scheduler: Any, address: str, patience: float) -> dict[str, Any] | None:
    """What `InterruptionPlugin.interrupt` of a worker gives, or `None` if it does not answer."""
    asking = scheduler.broadcast(msg={"op": INTERRUPT, "patience": patience}, workers=[address], on_error="ignore")
    try:
        answers: dict[str, dict[str, Any]] = await asyncio.wait_for(asking, patience + _ANSWER_TIME)
    except TimeoutError:
        return None
    return answers.get(address)


async def _deal_with(
    scheduler: Any, address: str, answer: dict[str, Any] | None, assigned: set[Any]
) -> StuckWorker | None:
    worker = scheduler.workers.get(address)
    if worker is None:
        return None
    if answer is None:  # a task can keep its worker from that by not releasing Python's lock
        released = assigned - {task.key for task in worker.processing}
        tasks, others = tuple(sorted(map(str, released))[:1]), len(worker.executing)
    else:
        tasks, others = tuple(answer["cancelled"]), answer["others"]
    if tasks:
        if others or not worker.nanny:
            return StuckWorker(str(worker.name), tasks, restarted=False)
        return await _restart(scheduler, worker, tasks)
    if answer is None and worker.nanny and not others:
        # Its task may have been released before `assigned` was read; or it is just writing results to its disk.
        scheduler._ongoing_background_tasks.call_soon(_restart_if_silent, scheduler, address)  # noqa: SLF001
    return None


async def _restart_if_silent(scheduler: Any, address: str) -> None:
    answer = await _interrupt(scheduler, address, _SILENCE)
    worker = scheduler.workers.get(address)
    if answer is None and worker is not None and not worker.executing:
        await _restart(scheduler, worker, ())


async def _restart(scheduler: Any, worker: Any, tasks: tuple[str, ...]) -> StuckWorker:
    alone = [task for task in worker.has_what if len(task.who_has) == 1]
    lost = tuple(str(task.key) for task in alone if task in worker.actors or not task.run_spec)
    # At once, so that no more tasks are sent to it, and none of those that it has counts as one that kills workers.
    await scheduler.remove_worker(worker.address, stimulus_id=_STIMULUS, expected=True, close=False)
    scheduler._ongoing_background_tasks.call_soon(_kill, scheduler, worker.nanny)  # noqa: SLF001
    return StuckWorker(str(worker.name), tasks, restarted=True, recomputed=len(alone) - len(lost), lost=lost)


async def _kill(scheduler: Any, nanny: str) -> None:
    await scheduler.rpc(nanny).kill(timeout=_KILL_TIME, reason=_STIMULUS)
