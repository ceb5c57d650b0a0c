"""Limit the data that a worker keeps of finished computations; without a limit it grows with each one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.utils import key_split
from distributed import WorkerPlugin
from tornado.ioloop import PeriodicCallback

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from distributed import Worker

RETENTION_PLUGIN = "gpudask-retention"
"""The name of the plugins that limit what is kept, in workers and in the scheduler."""

_MAX_METRICS = 1000
_MAX_KEY_NAMES = 10_000
_INTERVAL = 60.0


class MetricsRetentionPlugin(WorkerPlugin):
    """Deletes a worker's metrics of old computations, whose sums it has sent to the scheduler."""

    def setup(self, worker: Worker) -> None:
        """Start a timer; called by Dask when the worker starts."""

        def delete() -> None:
            delete_old_metrics(worker.digests_total)
            delete_old_metrics(worker.digests_max)
            clear_key_names()

        timer = PeriodicCallback(delete, _INTERVAL * 1000)
        worker.periodic_callbacks[RETENTION_PLUGIN] = timer
        timer.start()


def delete_old_metrics(metrics: MutableMapping[Any, float]) -> None:
    """Delete all but the newest metrics whose name is a tuple, as those of spans are."""
    names = [name for name in metrics if isinstance(name, tuple)]
    for name in names[:-_MAX_METRICS]:
        del metrics[name]


def clear_key_names() -> None:
    """Clear Dask's cache of the task names in keys if it is large; Dask would keep 100,000."""
    if key_split.cache_info().currsize > _MAX_KEY_NAMES:
        key_split.cache_clear()
