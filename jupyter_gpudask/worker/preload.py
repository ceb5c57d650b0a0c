"""What runs inside each worker: a Dask preload that brings its log, its lifeline and its metrics."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin

from ..machine.directories import worker_log
from ..machine.lifeline import die_with_parent
from .allocator import pool_metrics
from .log import send_output_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Worker

LOGS_VARIABLE = "JUPYTER_GPUDASK_LOGS"
"""Name of the variable that tells workers where to write their logs."""

METRICS = "gpudask"
"""Name of our metrics among the metrics that a worker sends with its heartbeat."""


async def dask_setup(worker: Worker) -> None:
    """Prepare the worker; Dask calls this before the worker joins the scheduler."""
    if logs := os.environ.get(LOGS_VARIABLE):
        send_output_to(worker_log(Path(logs), worker.name))
    die_with_parent()
    await worker.plugin_add(plugin=MetricsPlugin(), name=METRICS)


PATH_PLUGIN = "gpudask-path"
"""The name of the one `PathPlugin` that a cluster has; another one takes its place."""


class PathPlugin(WorkerPlugin):
    """Has the worker import modules from where the kernel does, in the same order.

    It comes when the worker has imported all that it needs itself, so that a file of the user's that is named like a
    module of Python's or Dask's does no harm.
    """

    def __init__(self, path: Sequence[str]) -> None:
        self._path = list(path)

    def setup(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        """Called by Dask when the worker has joined the scheduler."""
        own = [folder for folder in sys.path if folder not in self._path]
        sys.path[:] = self._path + own


class MetricsPlugin(WorkerPlugin):
    """Adds what Dask does not tell to the worker's heartbeat: the pool, what was spilled where, and tasks done."""

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the worker starts."""
        worker.metrics[METRICS] = read_metrics


def read_metrics(worker: Worker) -> dict[str, int | None]:
    """What our heartbeat adds: see `WorkerState` for the meaning of each name."""
    pool_used, pool_size, pool_peak = pool_metrics()
    to_host, to_disk = _spilled(worker.data)
    return {
        "pool_used": pool_used,
        "pool_size": pool_size,
        "pool_peak": pool_peak,
        "spilled_to_host": to_host,
        "spilled_to_disk": to_disk,
        "executed": worker.state.executed_count,
    }


def _spilled(data: Any) -> tuple[int | None, int | None]:
    """Bytes of results that the worker's store moved to host memory, and to disk."""
    if hasattr(data, "device_keys"):  # dask_cuda.device_host_file.DeviceHostFile
        return _spilled_by_dask_cuda(data)
    total = getattr(data, "spilled_total", None)  # distributed.spill.SpillBuffer
    return _spilled_by_cudf(), None if total is None else int(total.disk)


def _spilled_by_dask_cuda(data: Any) -> tuple[int | None, int | None]:
    host = getattr(getattr(data.host_buffer, "fast", None), "weights", {})
    on_host = sum(weight for key, weight in host.items() if key in data.device_keys)
    if data.disk is None:
        return int(on_host), None
    files = list(data.disk.filenames.values())
    return int(on_host), sum(_file_size(Path(data.disk.directory) / name) for name in files)


def _spilled_by_cudf() -> int | None:
    # An import could wait for a task that is just importing cuDF, and this runs in the worker's loop.
    spilling: Any = sys.modules.get("cudf.core.buffer.spill_manager")
    if not hasattr(spilling, "get_global_manager"):
        return None
    manager = spilling.get_global_manager()
    if manager is None:
        return 0
    return sum(int(buffer.size) for buffer in manager.buffers() if buffer.is_spilled)


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
