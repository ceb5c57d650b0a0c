"""Dask preload of each worker: its log, its end with the supervisor, its metrics, streams and import path."""

from __future__ import annotations

import atexit
import io
import logging
import os
import sys
from multiprocessing import forkserver, util
from pathlib import Path
from typing import Any

import dask.config
from distributed import Worker, WorkerPlugin
from distributed.batched import BatchedSend
from distributed.worker_state_machine import TaskErredMsg

from ..comm import device_memory
from ..graph.program import running
from ..machine.directories import LOGS_VARIABLE, worker_log
from ..machine.lifeline import die_with_parent
from .memory import pool_metrics
from .polars_rank import runs_query

logger = logging.getLogger(__name__)


class _LossyFile(io.FileIO):
    """A file that drops lines that cannot be written, so that printing never fails because the disk is full."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError:
            return len(content)


def send_output_to(log: Path) -> None:
    """Append the output of this process to the file `log`, including that of compiled code and child processes.

    If the file cannot be opened, the output is not redirected.
    """
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        logger.warning("The log of this worker cannot be opened: %s", error)
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    sys.stdout, sys.stderr = _lossy_text(1), _lossy_text(2)


def _lossy_text(descriptor: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(_LossyFile(descriptor, "w", closefd=False))
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)


def shorten_pickling_errors() -> None:
    """Log what cannot be pickled in one line; Dask adds tracebacks, and sends the error to whoever asked."""
    for name in ("protocol.pickle", "protocol.core", "worker"):
        logging.getLogger(f"distributed.{name}").addFilter(_shorten)


def _shorten(record: logging.LogRecord) -> bool:
    text = str(record.exc_info[1]) if record.exc_info else ""
    if str(record.msg).startswith("Failed to serialize"):
        record.msg, record.args, record.exc_info = "Failed to serialize: %s", (text,), None
    return not text.startswith("Could not serialize object of type ")  # the worker that has it logs the line above


class FailedTransferPlugin(WorkerPlugin):
    """Fails tasks that wait for a result which cannot be fetched, with the error of the transfer.

    Dask's worker fails the result. The scheduler ignores that, because another worker has the result, and the tasks
    would wait for ever. So would the next transfer on the same connection, whose sender still waits for an answer.
    """

    def setup(self, worker: Worker) -> None:
        """Remember the worker; called by Dask when the plugin is added."""
        self._worker = worker

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Called by Dask after each transition of a task."""
        if (start, finish) != ("flight", "error"):
            return
        self._worker.rpc.collect()  # closes the connections that are not in use
        result = self._worker.state.tasks[key]
        for task in result.dependents:
            if task.state == "waiting":
                message = TaskErredMsg.from_task(result, run_id=task.run_id, stimulus_id=f"failed-transfer-{key}")
                message.key = task.key
                self._worker.batched_send(message.to_dict())


INTERVAL = 0.0002
"""Seconds between two messages on one stream."""


def send_sooner(stream: BatchedSend | None) -> None:
    """Let `stream` wait for `INTERVAL` at most; nothing is changed where it waits for less, or where there is none.

    Before it sends a message, Dask waits for others: 2 ms in a worker, 2 or 5 ms in the scheduler, 10 ms in a client.
    A worker gets its next task when the scheduler knows that it has finished one, so each small task waits for both. A
    busy process still collects several messages before it sends them.
    """
    if stream is not None:
        stream.interval = min(stream.interval, INTERVAL)


_MESSAGE = 2**30


def receive_more_at_once(state: Any) -> None:
    """Let a worker ask another one for results of a gigabyte in one message; Dask's default is 50 MB.

    It asks each one for one message at a time, which takes a millisecond; a GPU reads 100 MB of another one meanwhile.
    """
    if dask.config.get("distributed.worker.transfer.message-bytes-limit") == "50MB":
        state.transfer_message_bytes_limit = _MESSAGE


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
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        receive_more_at_once(worker.state)
    send_sooner(worker.batched_stream)
    await worker.plugin_add(plugin=MetricsPlugin(), name=METRICS)
    await worker.plugin_add(plugin=FailedTransferPlugin(), name="gpudask-failed-transfer")


def _run_exit_functions_after_a_fork() -> None:
    """Let functions of `atexit` run when this worker ends; processes of a fork server end without them."""
    if forkserver.get_inherited_fds() is not None:
        util.Finalize(None, atexit._run_exitfuncs, exitpriority=-1000)  # noqa: SLF001


class MetricsPlugin(WorkerPlugin):
    """Adds metrics that Dask lacks to the worker's heartbeat: its pool, spilled bytes, and the number of tasks run.

    A worker that the supervisor has not started on its own machine adds its GPU, because the supervisor cannot read it.
    """

    def setup(self, worker: Worker) -> None:
        """Add the metrics; called by Dask when the worker starts."""
        device = None if LOGS_VARIABLE in os.environ else _device()
        worker.metrics[METRICS] = lambda worker: {**read_metrics(worker), DEVICE_METRIC: device}


def _device() -> dict[str, Any] | None:
    from ..machine.gpus import first_device  # imports the models of the protocol, which takes a quarter of a second

    return first_device()


def read_metrics(worker: Worker) -> dict[str, Any]:
    """The metrics in the heartbeat; see `WorkerState` for their meaning.

    `blocks`: the keys of running tasks into which several were fused, with the blocks that they have computed so far.
    """
    pool_used, pool_size = pool_metrics()
    to_host, to_disk = read_spilled(worker.data)
    return {
        "pool_used": pool_used,
        "pool_size": pool_size,
        "spilled_to_host": to_host,
        "spilled_to_disk": to_disk,
        "executed": worker.state.executed_count,
        "polars": runs_query(worker),
        "blocks": [(key, running[thread]) for thread, key in list(worker.active_threads.items()) if thread in running],
    }


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
