"""Hosts that have stopped responding, with all their workers, and clusters that have no worker any more."""

from __future__ import annotations

from typing import Any

import dask.config
from dask.utils import parse_timedelta
from distributed import SchedulerPlugin
from distributed.comm.addressing import get_address_host
from distributed.metrics import time

from ..protocol import LostHost

_CONNECTION_ENDED = "handle-worker-cleanup"
_KEPT = 20


class LostHostsPlugin(SchedulerPlugin):
    """Base class of plugins that distinguish hosts that do not respond from workers that have ended.

    The connection to a worker that ends is closed at once. The connection to a host that is lost stays open until the
    operating system gives it up, ``distributed.comm.timeouts.tcp`` after the last packet. So a host counts as lost if
    the connections to all its workers have ended, and each worker had been silent for half that time or more. The host
    of the scheduler is never lost.
    """

    def watch_hosts(self, scheduler: Any) -> None:
        """Note the workers that `scheduler` has; to be called before this plugin is used."""
        self._own_host = get_address_host(scheduler.address)
        self._workers = dict(scheduler.workers)
        self._lost: dict[str, LostHost] = {}
        self._empty_since = time()

    def seconds_without_workers(self, limit: float) -> float | None:
        """For how long there has been no worker; `None` while there is one, and before `limit` seconds."""
        seconds = time() - self._empty_since
        return None if self._workers or seconds < limit else seconds

    def lost_hosts(self) -> tuple[LostHost, ...]:
        """The lost hosts of which no worker is left, the newest last, at most 20."""
        present = {worker.host for worker in self._workers.values()}
        return tuple(lost for lost in self._lost.values() if lost.host not in present)

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Note a worker; called by Dask when it has joined."""
        state = self._workers[worker] = scheduler.workers[worker]
        self._lost.pop(state.host, None)

    def remove_worker(self, scheduler: Any, worker: str, *, stimulus_id: str, **_: Any) -> None:  # noqa: ARG002 - Dask's
        """Note whether the host of a worker is lost; called by Dask when it has removed the worker."""
        state = self._workers.pop(worker, None)
        if not self._workers:
            self._empty_since = time()
        if state is None or state.host == self._own_host or not stimulus_id.startswith(_CONNECTION_ENDED):
            return
        timeout = parse_timedelta(dask.config.get("distributed.comm.timeouts.tcp"), default="seconds")
        if time() - state.last_seen < timeout / 2:
            return
        before = self._lost.pop(state.host, None)
        names = () if before is None else before.workers
        self._lost[state.host] = LostHost(host=state.host, workers=(*names, str(state.name)), time=time())
        if len(self._lost) > _KEPT:
            del self._lost[next(iter(self._lost))]
