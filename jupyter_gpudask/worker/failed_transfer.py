"""Fail the tasks that need a result which its worker cannot send to them, such as a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin
from distributed.worker_state_machine import TaskErredMsg

if TYPE_CHECKING:
    from distributed import Worker


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
