"""The scheduler's streams to workers and clients send their messages sooner; see `worker.send_interval`."""

from __future__ import annotations

from typing import Any

from distributed import SchedulerPlugin

from ..worker.send_interval import send_sooner


class SendIntervalPlugin(SchedulerPlugin):
    """Shortens the interval of the streams to all workers, and to each client that submits a graph.

    Parameters
    ----------
    scheduler
        The scheduler of the streams; it may have workers already.
    """

    name = "gpudask-send-interval"

    def __init__(self, scheduler: Any) -> None:
        for stream in scheduler.stream_comms.values():
            send_sooner(stream)

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Called by Dask when it has created the stream to a worker."""
        send_sooner(scheduler.stream_comms.get(worker))

    def update_graph(self, scheduler: Any, *, client: str, **_: Any) -> None:
        """Called by Dask for each graph; when a client connects there is no stream to it yet."""
        send_sooner(scheduler.client_comms.get(client))
