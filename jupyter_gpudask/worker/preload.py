"""Dask preload of each worker: its log, its end with the supervisor, its metrics, streams and import path."""

from __future__ import annotations

import atexit
import os
import sys
from functools import partial
from multiprocessing import forkserver, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin

from ..comm import device_memory
from ..machine.directories import LOGS_VARIABLE, worker_log
from ..machine.lifeline import die_with_parent
from .allocator import pool_metrics
from .failed_transfer import FailedTransferPlugin
from .log_file import send_output_to, shorten_pickling_errors
from .send_interval import send_sooner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import Worker

METRICS = "gpudask"
"""The name of this package's metrics in the heartbeat of a worker."""

DEVICE_METRIC = "device"
"""The name of the one with its GPU."""


async def dask_setup(worker: Worker) -> None:
    """Prepare the worker; called by Dask before the worker connects to the scheduler."""
    if logs := os.environ.get(LOGS_VARIABLE):
        send_output_to(worker_log(Path(logs), worker.name))
    shorten_pickling_errors()
    die_with_parent()
    _run_exit_functions_after_a_fork()
    device_memory.enable(worker.memory_manager.memory_limit)
    send_sooner(worker.batched_stream)
    await worker.plugin_add(plugin=MetricsPlugin(), name=METRICS)
    await worker.plugin_add(plugin=FailedTransferPlugin(), name="gpudask-failed-transfer")


def _run_exit_functions_after_a_fork() -> None:
    """Let functions of `atexit` run when this worker ends; processes of a fork server end without them."""
    if forkserver.get_inherited_fds() is not None:
        util.Finalize(None, atexit._run_exitfuncs, exitpriority=-1000)  # noqa: SLF001


PATH_PLUGIN = "gpudask-path"
"""The name of the `PathPlugin`; registering another one replaces it."""


class PathPlugin(WorkerPlugin):
    """Puts the kernel's import path in front of the worker's.

    It is registered after the worker has imported its own modules, so that a user's file cannot shadow a module of
    Python or Dask.
    """

    def __init__(self, path: Sequence[str]) -> None:
        self._path = list(path)

    def setup(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        """Change the path; called by Dask when the worker has started."""
        own = [folder for folder in sys.path if folder not in self._path]
        sys.path[:] = self._path + own


class MetricsPlugin(WorkerPlugin):
    """Adds metrics that Dask lacks to the worker's heartbeat: its pool, spilled bytes, and the number of tasks run.

    A worker that the supervisor has not started on its own machine adds its GPU, because the supervisor cannot read it.
    """

    def setup(self, worker: Worker) -> None:
        """Add the metrics; called by Dask when the worker starts."""
        device = None if LOGS_VARIABLE in os.environ else _device()
        worker.metrics[METRICS] = read_metrics if device is None else partial(_read_with_device, device)


def _device() -> dict[str, Any] | None:
    from .device import first_device  # imports the models of the protocol, which takes a quarter of a second

    return first_device()


def read_metrics(worker: Worker) -> dict[str, int | None]:
    """The metrics in the heartbeat; see `WorkerState` for their meaning."""
    pool_used, pool_size, pool_peak = pool_metrics()
    to_host, to_disk = read_spilled(worker.data)
    return {
        "pool_used": pool_used,
        "pool_size": pool_size,
        "pool_peak": pool_peak,
        "spilled_to_host": to_host,
        "spilled_to_disk": to_disk,
        "executed": worker.state.executed_count,
    }


def _read_with_device(device: dict[str, Any], worker: Worker) -> dict[str, Any]:
    return {**read_metrics(worker), DEVICE_METRIC: device}


def read_spilled(data: Any) -> tuple[int | None, int | None]:
    """Bytes of results that were spilled to host memory, and to disk."""
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
    # Not imported here: in the worker's event loop, that could wait for a task that is importing cuDF.
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
