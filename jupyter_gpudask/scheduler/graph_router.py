"""Route submitted graphs through a worker, which materializes them with opaque contents; for clusters with GPUs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any

import dask.config
from distributed import Scheduler
from distributed.core import Status, error_message
from distributed.protocol.serialize import Serialized
from distributed.scheduler import WorkerState

from ..errors import BackendUnavailableError
from ..worker.graphs import MATERIALIZE, PickledExpression

UPDATE_GRAPH = "update-graph"
"""The operation with which Dask's clients submit graphs."""

_RETRY_INTERVAL = 0.05
_PLUGIN_TIMEOUT = 10.0


class GraphRouter:
    """Handles the message ``update-graph``, so that a scheduler only unpickles objects of Dask itself.

    The messages of a client are handled one after the other, which keeps its graphs in order.

    - `has_plugins`: whether a worker has the `MaterializePlugin`; by default all have.
    """

    def __init__(self, scheduler: Scheduler, has_plugins: Callable[[WorkerState], bool] = lambda _: True) -> None:
        self._scheduler = scheduler
        self._has_plugins = has_plugins

    def install(self, operation: str = UPDATE_GRAPH) -> None:
        """Register the handler of `operation`; by default of Dask's own, which every client uses."""
        self._scheduler.stream_handlers[operation] = self.update_graph

    async def update_graph(self, *, client: str, expr_ser: Serialized, keys: Collection[Any], **message: Any) -> None:
        """Handle a submitted graph; see `distributed.Scheduler.update_graph`."""
        stranger = await self._worker_without_plugins()
        if stranger is not None:  # its connection would break when it gets a task of this graph
            error = BackendUnavailableError("worker-without-package", worker=stranger)
            self._report_error(client, keys, dict(error_message(error, status="failed")))
            return
        pickled = PickledExpression(expr_ser.header, expr_ser.frames).serialize_message()
        answer = await self._materialize(client, pickled, keys)
        if answer is None:
            return
        if answer["status"] != "OK":
            self._report_error(client, keys, answer)
            return
        del expr_ser
        await self._scheduler.update_graph(client=client, expr_ser=answer["graph"], keys=set(keys), **message)

    async def _materialize(self, client: str, expression: Serialized, keys: Collection[Any]) -> dict[str, Any] | None:
        """The response of a worker; `None` if there is no worker and the client has disconnected."""
        exits = 0
        while True:
            worker = self._choose_worker()
            if worker is None:
                if not self._is_connected(client):
                    return None
                await asyncio.sleep(_RETRY_INTERVAL)
                continue
            ask = getattr(self._scheduler.rpc(worker.address), MATERIALIZE)
            try:
                answer: dict[str, Any] = await ask(expression=expression, keys=list(keys))
            except OSError as error:  # the worker has ended, or is not ready yet
                await asyncio.sleep(_RETRY_INTERVAL)
                exits += self._scheduler.workers.get(worker.address) is not worker
                if exits > dask.config.get("distributed.scheduler.allowed-failures"):
                    lost = RuntimeError(f"{exits} workers died while they materialized this graph: {error}")
                    return dict(error_message(lost, status="failed"))
            except Exception as error:  # noqa: BLE001 - the client's connection must not end with its computation
                return dict(error_message(error, status="failed"))
            else:
                return answer

    async def _worker_without_plugins(self) -> str | None:
        """The address of a running worker without plugins; whether a new one has them shows its first heartbeat."""
        end = time.monotonic() + _PLUGIN_TIMEOUT
        while True:
            without = [worker.address for worker in self._running_workers() if not self._has_plugins(worker)]
            if not without or time.monotonic() > end:
                return next(iter(without), None)
            await asyncio.sleep(_RETRY_INTERVAL)

    def _running_workers(self) -> list[WorkerState]:
        return [worker for worker in self._scheduler.workers.values() if worker.status == Status.running]

    def _is_connected(self, client: str) -> bool:
        # The scheduler notices a disconnected client only when it reads the next message, after this one.
        stream = self._scheduler.client_comms.get(client)
        return stream is not None and not stream.closed()

    def _choose_worker(self) -> WorkerState | None:
        """The running worker with the fewest tasks."""
        return min(self._running_workers(), key=lambda worker: (len(worker.processing), worker.address), default=None)

    def _report_error(self, client: str, keys: Collection[Any], answer: dict[str, Any]) -> None:
        """Report an error to the client as `distributed.Scheduler.update_graph` does."""
        self._scheduler.log_event(["scheduler", client], {"action": "update-graph", "status": "error"})
        for key in keys:
            report = {
                "op": "task-erred",
                "key": key,
                "exception": answer["exception"],
                "traceback": answer["traceback"],
            }
            self._scheduler.report(report, client=client)
