"""The stream to browsers: its broadcaster, which also records the history, and the WebSocket."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, cast

from jupyter_server.auth.decorator import authorized, ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from ..machine.nvml import measure_pcie
from ..protocol.rest import ClusterInfo, GpuList
from .history import History
from .manager import ClusterManager
from .monitor import INTERVAL, Monitor, cluster_info, read_machine
from .rest import API

logger = logging.getLogger(__name__)


class Subscriber(Protocol):
    """Receives messages of the stream."""

    def send(self, message: str) -> bool:
        """Send a message; `False` if an earlier one is still being sent, and this one was dropped."""


class _Recorder:
    """A subscriber for which the GPUs are read while a cluster is busy, and nobody looks."""

    def send(self, _: str) -> bool:
        return True


@dataclass
class _Snapshot:
    """The state at one moment: that of the GPUs as JSON, and that of each cluster also as JSON, by kernel id."""

    time: float
    gpu_json: str
    clusters: dict[str, ClusterInfo]
    cluster_json: dict[str, str] = field(default_factory=dict)


class Broadcaster:
    """Composes a message every `interval` seconds, and when the status of a cluster changes, for all subscribers.

    The GPUs are read, and the messages composed, in a thread that exists only while there are subscribers.

    - `history`: keeps the samples for subscribers that connect later, and records those of busy clusters.
    - `interval`: seconds between two messages; clusters report their states each second.
    """

    def __init__(self, manager: ClusterManager, monitor: Monitor, history: History, interval: float = INTERVAL) -> None:
        self._manager = manager
        self._monitor = monitor
        self._history = history
        self._recorder = _Recorder()
        self._recording: asyncio.Task[None] | None = None
        self._interval = interval
        # From when on a subscriber needs everything in its next message; `None` if the changes will do.
        self._subscribers: dict[Subscriber, float | None] = {}
        self._last: _Snapshot | None = None
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, subscriber: Subscriber, since: float = 0.0) -> None:
        """Send a full message, with the history since that time, and changes from then on."""
        self._subscribers[subscriber] = since
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Send no more messages to `subscriber`."""
        self._subscribers.pop(subscriber, None)
        if not self._subscribers and self._task is not None:
            self._task.cancel()
            self._task = None

    def record(self) -> None:
        """From now on read the GPUs also without a browser, while a cluster is busy; to be called in the event loop."""
        self._recording = asyncio.create_task(self._record())

    async def _record(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            was_recording = self._recorder in self._subscribers
            self._history.is_recorded = any(map(self._manager.is_busy, self._manager.shown().values()))
            if self._history.is_recorded and not was_recording:
                self.subscribe(self._recorder, since=math.inf)
            elif was_recording and not self._history.is_recorded:
                self.unsubscribe(self._recorder)
                await asyncio.to_thread(self._history.save)

    async def stop(self) -> None:
        """Remove all subscribers and stop."""
        tasks = [task for task in (self._task, self._recording) if task is not None]
        self._task = self._recording = None
        self._subscribers.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._history.save)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="gpudask-broadcaster")
        self._manager.request_states(max(INTERVAL, self._interval))
        self._monitor.max_age = self._interval
        is_changed = asyncio.Event()
        stop_observing = self._manager.observe(lambda _: is_changed.set())
        try:
            while True:
                start = loop.time()
                is_changed.clear()
                try:
                    await self._broadcast(thread)
                except Exception:  # one failure must not end the stream of all subscribers
                    logger.exception("Reading the GPUs and clusters failed")
                # What the kernel prints of its cluster and what the page shows should not differ for long.
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_changed.wait(), max(0.0, start + self._interval - loop.time()))
        finally:
            stop_observing()
            thread.shutdown(wait=False)
            self._last = None
            if self._task is None or self._task.done():
                self._manager.request_states(0)
                self._monitor.max_age = 0.0

    async def _broadcast(self, thread: ThreadPoolExecutor) -> None:
        notebooks = await self._manager.kernels.notebooks()
        self._manager.rename(notebooks)
        gpus = await self._monitor.read_gpus(notebooks, thread)
        previous_time = self._last.time if self._last else 0.0
        self._last, changes, full = await asyncio.get_running_loop().run_in_executor(
            thread, self._compose, gpus, notebooks, set(self._subscribers.values())
        )
        for subscriber, since in list(self._subscribers.items()):
            # One that subscribed or fell behind in the meantime gets a full message next time.
            message = changes if since is None else full.get(since)
            if message is not None and subscriber in self._subscribers:
                missing_since = previous_time if since is None else since
                self._subscribers[subscriber] = None if subscriber.send(message) else missing_since
                await asyncio.sleep(0)  # sending to all of them at once would block the loop for milliseconds

    def _compose(
        self, gpus: GpuList, notebooks: Mapping[str, tuple[str, ...]], starts: set[float | None]
    ) -> tuple[_Snapshot, str, dict[float, str]]:
        """Take a snapshot; compose the message with its changes, and a full message for each start of the history."""
        manager, last = self._manager, self._last
        infos = {
            cluster.kernel_id: cluster_info(cluster, notebooks, manager.kernels, gpus.gpus)
            for cluster in manager.shown().values()
        }
        snapshot = _Snapshot(time.time(), gpus.model_dump_json(), infos)
        machine = read_machine()
        rates = measure_pcie(gpu.uuid for gpu in gpus.gpus if gpu.pcie_bytes is None)
        self._history.add(snapshot.time, gpus, infos.values(), machine, rates)
        changed = [kernel_id for kernel_id, info in infos.items() if not last or last.clusters.get(kernel_id) != info]
        # One by one: a single long conversion to JSON would not let the loop's thread run.
        snapshot.cluster_json = {
            kernel_id: info.model_dump_json() if kernel_id in changed or not last else last.cluster_json[kernel_id]
            for kernel_id, info in infos.items()
        }
        compose = partial(_message, snapshot.time, machine.memory_total)
        changes = compose(
            "changes",
            gpus="null" if last and last.gpu_json == snapshot.gpu_json else snapshot.gpu_json,
            clusters=[snapshot.cluster_json[kernel_id] for kernel_id in changed],
            removed=sorted(set(last.clusters) - set(infos)) if last else [],
            history=self._history.since(last.time if last else 0.0),
        )
        everything: dict[str, Any] = {
            "gpus": snapshot.gpu_json,
            "clusters": list(snapshot.cluster_json.values()),
            "removed": [],
        }
        full = {
            start: compose("full", **everything, history=self._history.since(start))
            for start in starts
            if start is not None
        }
        return snapshot, changes, full


def _message(
    when: float,
    memory_total: int,
    kind: str,
    *,
    gpus: str,
    clusters: Sequence[str],
    removed: Sequence[str],
    history: Sequence[str],
) -> str:
    """A `StreamMessage` as JSON, joined from parts that are already JSON."""
    return (
        f'{{"type":"{kind}","time":{when!r},"gpus":{gpus},"clusters":[{",".join(clusters)}],'
        f'"removed":{json.dumps(list(removed))},"memory_total":{memory_total},"history":[{",".join(history)}]}}'
    )


class StreamHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """Sends the full state, then changes, one message for each read of the metrics; see `StreamMessage`.

    The query argument ``since`` is the start of the requested history, in seconds since the epoch.
    """

    auth_resource = "gpudask"
    _sending: asyncio.Future[None] | None = None

    @property
    def _broadcaster(self) -> Broadcaster:
        return cast("Broadcaster", self.settings["gpudask_broadcaster"])

    @ws_authenticated
    @authorized("execute")  # type: ignore[untyped-decorator]
    async def get(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Open the WebSocket."""
        try:
            self._since = float(self.get_query_argument("since", "0"))
        except ValueError:
            raise web.HTTPError(400, "since must be a time in seconds since the epoch.") from None
        if not math.isfinite(self._since):
            raise web.HTTPError(400, "since must be a time in seconds since the epoch.")
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Subscribe to the messages."""
        super().open(*args, **kwargs)
        self._broadcaster.subscribe(self, self._since)

    def send(self, message: str) -> bool:
        """Send a message; drop it and return `False` while the previous one is still being sent."""
        if self._sending is not None and not self._sending.done():
            return False
        try:
            self._sending = asyncio.ensure_future(self.write_message(message))
        except WebSocketClosedError:
            self._broadcaster.unsubscribe(self)
            return True
        self._sending.add_done_callback(_ignore_failure)
        return True

    def on_message(self, message: str | bytes) -> None:
        """Ignore messages from the browser."""

    def on_close(self) -> None:
        """Unsubscribe."""
        self._broadcaster.unsubscribe(self)
        super().on_close()


def _ignore_failure(sending: asyncio.Future[None]) -> None:
    """Ignore the exception of a message that was not delivered: `on_close` handles the closed socket."""
    if not sending.cancelled():
        sending.exception()


STREAM = [(rf"{API}/stream", StreamHandler)]
