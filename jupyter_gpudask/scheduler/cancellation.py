"""Stopping cancelled tasks, from the scheduler: they are interrupted, or else their worker is restarted."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..worker.interruption import INTERRUPT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_STIMULUS = "gpudask-interrupt"
_ANSWER_TIME = 0.2
"""Seconds, beyond those that a worker is given, in which its answer must come."""
SILENCE = 8.0
"""Seconds that a worker has to answer before it is restarted."""

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
    outcome
        ``restarted``: its nanny starts it again. ``busy``: it runs what is wanted, too, or has no nanny; the tasks end
        when they return to Python. ``silent``: it does not answer, and is restarted if that goes on for `SILENCE`
        seconds.
    recomputed
        How many results it held that Dask computes again when they are wanted.
    lost
        Keys of what it alone held and what cannot be computed again: scattered data, and actors.
    """

    name: str
    tasks: tuple[str, ...]
    outcome: Literal["restarted", "busy", "silent"]
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
    if answer is None:
        return _give_time_to_answer(scheduler, worker, assigned - {task.key for task in worker.processing})
    tasks = tuple(answer["cancelled"])
    if not tasks:
        return None
    if answer["others"] or not worker.nanny:
        return StuckWorker(str(worker.name), tasks, "busy")
    recomputed, lost = _held_alone(worker)
    _restart(scheduler, worker)
    return StuckWorker(str(worker.name), tasks, "restarted", recomputed, lost)


def _give_time_to_answer(scheduler: Any, worker: Any, released: set[Any]) -> StuckWorker | None:
    """Restart a worker that stays silent: a task can keep Python's lock; but the machine may just be slow."""
    if not worker.nanny or worker.executing:
        return None
    scheduler._ongoing_background_tasks.call_soon(_restart_if_silent, scheduler, worker.address)  # noqa: SLF001
    recomputed, lost = _held_alone(worker)
    tasks = tuple(sorted(map(str, released))[:1])
    return StuckWorker(str(worker.name), tasks, "silent", recomputed, lost) if tasks else None


async def _restart_if_silent(scheduler: Any, address: str) -> None:
    answer = await _interrupt(scheduler, address, SILENCE)
    worker = scheduler.workers.get(address)
    if worker is not None and (answer is None or (answer["cancelled"] and not answer["others"])):
        _restart(scheduler, worker)


def _held_alone(worker: Any) -> tuple[int, tuple[str, ...]]:
    """How many results would be computed again without this worker, and the keys of what would be lost."""
    alone = [task for task in worker.has_what if len(task.who_has) == 1]
    lost = tuple(str(task.key) for task in alone if task in worker.actors or not task.run_spec)
    return len(alone) - len(lost), lost


def _restart(scheduler: Any, worker: Any) -> None:
    # Its tasks go back first, or each would count as one that kills workers. It is not removed: a worker that the
    # scheduler does not know shuts down together with its nanny.
    scheduler.handle_worker_status_change("paused", worker, _STIMULUS)
    scheduler.transitions({task.key: "released" for task in worker.processing}, _STIMULUS)
    scheduler._ongoing_background_tasks.call_soon(_kill, scheduler, worker.nanny)  # noqa: SLF001


async def _kill(scheduler: Any, nanny: str) -> None:
    with suppress(OSError, TimeoutError):  # the nanny starts another process whenever this one has ended
        await scheduler.rpc(nanny).kill(timeout=_KILL_TIME, reason=_STIMULUS)
