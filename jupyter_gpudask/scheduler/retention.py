"""Bounds on what Dask keeps of finished work: without them a scheduler and its workers grow with each computation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import dask.config
from dask.utils import key_split
from distributed import SchedulerPlugin, WorkerPlugin
from tornado.ioloop import PeriodicCallback

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from distributed import Worker

RETENTION_PLUGIN = "gpudask-retention"
"""The name of the plugins of this module."""

# Dask's default, and ours, of what a process keeps: records of logs; messages that it sent, whole graphs among them,
# and transitions; samples of its monitor, two a second.
_LENGTHS = {
    "distributed.admin.log-length": (10_000, 1000),
    "distributed.admin.low-level-log-length": (1000, 100),
    "distributed.admin.system-monitor.log-length": (7200, 1200),
}
_SPANS = 200
_OLD = 60.0
"""Seconds after the end of a computation in which something of it may still be measured or sent."""
_METRICS = 1000
_NAMES = 10_000
_INTERVAL = 60.0


def shorter_logs() -> dask.config.set:
    """Have Dask keep shorter logs in memory in what is made from now on, or in a ``with`` block.

    Lengths that the user has configured stay.
    """
    return dask.config.set(
        {name: ours for name, (default, ours) in _LENGTHS.items() if dask.config.get(name) == default}
    )


class SpanRetentionPlugin(SchedulerPlugin):
    """Has the scheduler forget old spans; Dask makes one for each computation, and keeps it and its task groups.

    Parameters
    ----------
    scheduler
        Whose spans they are.
    """

    name = RETENTION_PLUGIN

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler

    def update_graph(self, *_: Any, **__: Any) -> None:
        """Called by Dask for each graph that is submitted."""
        forget_names()
        spans = self._scheduler.extensions.get("spans")
        if spans is not None and len(spans.root_spans) > 2 * _SPANS:
            forget_old_spans(self._scheduler)


def forget_old_spans(scheduler: Any) -> None:
    """Forget all but the newest spans, except those of tasks that the scheduler knows."""
    spans = scheduler.extensions["spans"]
    # A worker that names a span which is gone in what it has measured is thrown out by Dask.
    before = min([time.time(), *(worker.last_seen for worker in scheduler.workers.values())]) - _OLD
    old = [span for span in spans.root_spans[:-_SPANS] if _is_over(scheduler, span, before)]
    gone = {span.id for root in old for span in root.traverse_spans()}
    for number in gone:
        del spans.spans[number]
    spans.root_spans[:] = [span for span in spans.root_spans if span.id not in gone]
    for index in (spans.spans_search_by_name, spans.spans_search_by_tag):
        for name, found in list(index.items()):
            found[:] = [span for span in found if span.id not in gone]
            if not found:
                del index[name]


def _is_over(scheduler: Any, root: Any, before: float) -> bool:
    """Whether nothing can be added to a span: its groups are forgotten, and workers have sent what they measured."""
    return root.enqueued < before and all(
        scheduler.task_groups.get(group.name) is not group and group.stop < before for group in root.traverse_groups()
    )


class MetricRetentionPlugin(WorkerPlugin):
    """Has a worker forget what it measured for old spans, the sums of which it has sent to the scheduler."""

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the worker starts."""

        def forget() -> None:
            forget_old_metrics(worker.digests_total)
            forget_old_metrics(worker.digests_max)
            forget_names()

        timer = PeriodicCallback(forget, _INTERVAL * 1000)
        worker.periodic_callbacks[RETENTION_PLUGIN] = timer
        timer.start()


def forget_old_metrics(metrics: MutableMapping[Any, float]) -> None:
    """Forget all but the newest of those metrics of a worker that have a tuple for a name, as those of spans have."""
    names = [name for name in metrics if isinstance(name, tuple)]
    for name in names[:-_METRICS]:
        del metrics[name]


def forget_names() -> None:
    """Forget the names of tasks that Dask has found in their keys, if they are many; it would keep 100,000."""
    if key_split.cache_info().currsize > _NAMES:
        key_split.cache_clear()
