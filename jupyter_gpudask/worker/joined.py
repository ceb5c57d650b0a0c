"""What runs on workers that somebody else started: their metrics, the pickling of plugins, their libraries and GPUs.

Dask sends the registered plugins to each worker that starts. A plugin that cannot be unpickled would prevent the worker
from starting, even if somebody else starts it in another environment.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distributed import Worker, WorkerPlugin
from distributed.protocol.pickle import dumps

from ..machine.directories import LOGS_VARIABLE, tail, worker_log
from ..machine.gpus import first_device
from .polars_rank import runs_query
from .preload import METRICS, read_spilled

DEVICE = "gpudask-device"
"""The name of the metric with the GPU of a worker; Dask's own metrics have its utilization and memory."""


READ_DEVICE = "gpudask_read_device"
"""The operation of a worker that responds with what it has as `DEVICE`."""


class JoinedMetricsPlugin(WorkerPlugin):
    """Adds the worker's GPU to its heartbeat, and spilled bytes and the number of tasks run, if it does not send them.

    Unlike `MetricsPlugin` it has no metrics of RMM, because measuring them changes the allocator of the worker.

    `distributed.Worker.heartbeat` waits for metrics such as those of RMM while it iterates over the worker's metrics,
    and any error in it closes the worker together with its nanny. The metrics are therefore replaced, never changed in
    place, and no other heartbeat is sent beside Dask's own: the scheduler asks with `READ_DEVICE` instead.
    """

    name = "gpudask-joined-metrics"

    def setup(self, worker: Worker) -> None:
        """Add the metrics; called by Dask when the worker starts, or when the plugin is registered."""
        device = first_device()

        async def read_device() -> dict[str, Any]:
            return {DEVICE: device}

        worker.handlers[READ_DEVICE] = read_device
        worker.metrics = {METRICS: read_without_pool, **worker.metrics, DEVICE: lambda _: device}

    def teardown(self, worker: Worker) -> None:
        """Remove the metrics; called by Dask when the plugin is unregistered."""
        worker.handlers.pop(READ_DEVICE, None)
        worker.metrics = {
            name: metric
            for name, metric in worker.metrics.items()
            if name != DEVICE and metric is not read_without_pool
        }


def read_without_pool(worker: Worker) -> dict[str, int | None]:
    """The metrics of `jupyter_gpudask.worker.preload.read_metrics`, without those of RMM."""
    to_host, to_disk = read_spilled(worker.data)
    spilled = {"spilled_to_host": to_host, "spilled_to_disk": to_disk}
    return {**spilled, "executed": worker.state.executed_count, "polars": runs_query(worker)}


# Source code, because a worker without this package cannot import a function of it, and because pickled bytecode
# depends on the version of Python.
_LOADER = """
def load(data):
    import pickle
    from distributed import WorkerPlugin
    try:
        return pickle.loads(data)
    except ImportError:
        return WorkerPlugin()
"""


class _OptionalPlugin:
    def __init__(self, plugin: WorkerPlugin) -> None:
        self._pickled = pickle.dumps(plugin)

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, ("(exec(loader), load(data))[1]", {"loader": _LOADER, "data": self._pickled})


def dump_optional(plugin: WorkerPlugin) -> bytes:
    """Pickle a plugin for Dask's ``register_worker_plugin``."""
    pickled: bytes = dumps(_OptionalPlugin(plugin))
    return pickled


async def examine_libraries(names: Sequence[str]) -> dict[str, str]:
    """As `versions_of`, in a thread."""
    return await asyncio.to_thread(versions_of, names)


def versions_of(names: Sequence[str]) -> dict[str, str]:
    """Import libraries: the version of each, by name; empty for one that cannot be imported."""
    return {name: _version(name) for name in names}


def _version(name: str) -> str:
    try:
        module: Any = importlib.import_module(name)
    except Exception:  # noqa: BLE001 - a library that fails in any way cannot be used
        return ""
    return str(getattr(module, "__version__", "of an unknown version"))


def read_log_file(lines: int, dask_worker: Worker) -> str:
    """The last lines of the log file of a worker, with the output of its tasks; empty if no supervisor started it."""
    logs = os.environ.get(LOGS_VARIABLE)
    return tail(worker_log(Path(logs), dask_worker.name), lines) if logs else ""


async def has_gpu() -> bool:
    """Whether this process sees a GPU."""
    return await asyncio.to_thread(first_device) is not None
