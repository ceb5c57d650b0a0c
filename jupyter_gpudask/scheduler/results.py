"""The results and spans that the scheduler keeps: what clients hold, its release, and limits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from distributed import SchedulerPlugin

from ..worker.plugins import clear_key_names

RELEASED = "released by the user"
"""The reason of the futures whose results were released."""

_STIMULUS = "gpudask-release"


@dataclass(frozen=True)
class HeldReport:
    """The results that clients hold.

    - `total`: their size in bytes, each counted once.
    - `workers`: their size on each worker in bytes, by the worker's name.
    - `counts`: the number of results that each name holds, and their size in bytes.
    """

    total: int
    workers: dict[str, int]
    counts: dict[str, tuple[int, int]]


def held_results(clients: Iterable[Any]) -> set[Any]:
    """The finished tasks whose results at least one of these `distributed.scheduler.ClientState` holds."""
    return {task for client in clients for task in client.wants_what if task.state == "memory"}


def total_bytes(tasks: Iterable[Any]) -> int:
    """The size of the results of `tasks`, each counted once."""
    return sum(task.get_nbytes() for task in tasks)


def bytes_by_worker(tasks: Iterable[Any]) -> Counter[str]:
    """The size of the results of `tasks` on each worker, by address; copies count on each worker that has one."""
    sizes: Counter[str] = Counter()
    for task in tasks:
        for worker in task.who_has or ():
            sizes[worker.address] += task.get_nbytes()
    return sizes


def report_held(keys: Mapping[str, list[Any]], client: str | None, dask_scheduler: Any) -> HeldReport:
    """Report what clients hold, and what of it some names hold.

    - `keys`: lists of keys, by name.
    - `client`: the id of the client whose results are reported; `None` for those of all clients.
    """
    clients = dask_scheduler.clients
    held = held_results(clients.values() if client is None else [clients[client]])
    by_key = {task.key: task for task in held}
    counts = {}
    for name, wanted in keys.items():
        found = [by_key[key] for key in wanted if key in by_key]
        counts[name] = (len(found), total_bytes(found))
    sizes = bytes_by_worker(held)
    workers = {str(worker.name): sizes[address] for address, worker in dask_scheduler.workers.items()}
    return HeldReport(total_bytes(held), workers, counts)


def release_results(dask_scheduler: Any) -> None:
    """Release the finished results of all clients, whose futures are then cancelled; unfinished tasks go on."""
    scheduler = dask_scheduler
    for client in list(scheduler.clients.values()):
        keys = [task.key for task in client.wants_what if task.state == "memory"]
        if not keys:
            continue
        scheduler.client_releases_keys(keys=keys, client=client.client_key, stimulus_id=_STIMULUS)
        if client.client_key in scheduler.client_comms:  # not the holder of a published dataset, or of a variable
            message = {"op": "cancelled-keys", "keys": keys, "reason": RELEASED, "msg": "Run the cell again."}
            scheduler.report(message, client=client.client_key)


_MAX_SPANS = 200
_MIN_AGE = 60.0
"""Seconds after the end of a computation in which workers may still measure or send something of it."""


class SpanRetentionPlugin(SchedulerPlugin):
    """Deletes old spans; Dask creates one for each computation, and keeps it and its task groups."""

    name = "gpudask-retention"

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler

    def update_graph(self, *_: Any, **__: Any) -> None:
        """Delete old spans if there are many; called by Dask for each graph that is submitted."""
        clear_key_names()
        spans = self._scheduler.extensions.get("spans")
        if spans is not None and len(spans.root_spans) > 2 * _MAX_SPANS:
            delete_old_spans(self._scheduler)


def delete_old_spans(scheduler: Any) -> None:
    """Delete all but the newest spans, except those of tasks that the scheduler has."""
    spans = scheduler.extensions["spans"]
    # Dask removes a worker whose metrics name a span that does not exist.
    before = min([time.time(), *(worker.last_seen for worker in scheduler.workers.values())]) - _MIN_AGE
    old = [span for span in spans.root_spans[:-_MAX_SPANS] if _is_finished(scheduler, span, before)]
    deleted = {span.id for root in old for span in root.traverse_spans()}
    for number in deleted:
        del spans.spans[number]
    spans.root_spans[:] = [span for span in spans.root_spans if span.id not in deleted]
    for index in (spans.spans_search_by_name, spans.spans_search_by_tag):
        for name, found in list(index.items()):
            found[:] = [span for span in found if span.id not in deleted]
            if not found:
                del index[name]


def _is_finished(scheduler: Any, root: Any, before: float) -> bool:
    """Whether a span is complete: the scheduler has none of its groups, and workers have sent its metrics."""
    return root.enqueued < before and all(
        scheduler.task_groups.get(group.name) is not group and group.stop < before for group in root.traverse_groups()
    )
