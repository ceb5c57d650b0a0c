"""Limit the data that the scheduler keeps of finished computations; without a limit it grows with each one."""

from __future__ import annotations

import time
from typing import Any

from distributed import SchedulerPlugin

from ..worker.retention import RETENTION_PLUGIN, clear_key_names

_MAX_SPANS = 200
_MIN_AGE = 60.0
"""Seconds after the end of a computation in which workers may still measure or send something of it."""


class SpanRetentionPlugin(SchedulerPlugin):
    """Deletes old spans; Dask creates one for each computation, and keeps it and its task groups.

    Parameters
    ----------
    scheduler
        The scheduler of the spans.
    """

    name = RETENTION_PLUGIN

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
