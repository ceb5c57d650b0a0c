"""A Dask client that counts the tasks of the graphs it has submitted."""

from __future__ import annotations

import threading
from typing import Any

from distributed import Client


class CountingClient(Client):
    """A `distributed.Client` that gets the counts from the events that the scheduler logs for each client.

    Attributes
    ----------
    tasks_submitted
        The number of tasks in its graphs, as counted by the scheduler so far.
    """

    tasks_submitted = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._counted = threading.Condition()
        self._uncounted = 0
        super().__init__(*args, **kwargs)
        self.subscribe_topic(self.id, self._count)

    def wait_until_counted(self, limit: float) -> None:
        """Wait at most `limit` seconds until `tasks_submitted` includes all submitted graphs."""
        with self._counted:
            self._counted.wait_for(lambda: self._uncounted <= 0, limit)

    def _graph_to_futures(self, *args: Any, **kwargs: Any) -> Any:
        futures = super()._graph_to_futures(*args, **kwargs)
        with self._counted:
            self._uncounted += 1
        return futures

    def _count(self, event: tuple[float, Any]) -> None:
        message = event[1]
        if not isinstance(message, dict) or message.get("action") != "update-graph":
            return
        with self._counted:
            self.tasks_submitted += message.get("metrics", {}).get("tasks", 0)
            self._uncounted -= 1
            self._counted.notify_all()
