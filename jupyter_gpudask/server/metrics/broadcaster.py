"""One look at everything a second, while somebody watches, and the same words about it for all who do."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from .cluster_info import describe
from .gpu_metrics import with_gpu_metrics
from .gpu_reader import GpuReader
from .history import History

if TYPE_CHECKING:
    from ...protocol import ClusterState
    from ...protocol.rest import ClusterInfo, GpuInfo, GpuList
    from ..clusters.cluster import KernelCluster
    from ..clusters.kernels import KernelProcess
    from ..clusters.manager import ClusterManager

logger = logging.getLogger(__name__)

_INTERVAL = 1.0

Notebooks = Mapping[str, tuple[str, ...]]


class Watcher(Protocol):
    """Who watches."""

    def send(self, message: str) -> bool:
        """Take a message; false if an earlier one is still on its way, and this one was left out."""


@dataclass
class _Look:
    """What was seen at one moment; the models as JSON, by what they are about."""

    time: float
    gpus: GpuList
    infos: dict[str, ClusterInfo]
    words: dict[str, str] = field(default_factory=dict)


class Watch:
    """Looks and tells; looking happens in one thread, which is there only while somebody watches.

    Parameters
    ----------
    manager
        Whose clusters are watched.
    history
        How many seconds of metrics are kept.
    """

    def __init__(self, manager: ClusterManager, history: int) -> None:
        self._manager = manager
        self._reader = GpuReader()
        self._reading = asyncio.Lock()
        self._gpus: GpuList | None = None
        self._read_at = 0.0
        self._history = History(history)
        self._watchers: dict[Watcher, float | None] = {}
        self._last: _Look | None = None
        self._looking: asyncio.Task[None] | None = None

    def join(self, watcher: Watcher, since: float = 0.0) -> None:
        """Send `watcher` a full state with the metrics since that moment, and then what changes."""
        self._watchers[watcher] = since
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    def leave(self, watcher: Watcher) -> None:
        """Send it no more."""
        self._watchers.pop(watcher, None)
        if not self._watchers and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def gpus(self, max_age: float = 0.0) -> GpuList:
        """The GPUs, as they were at most `max_age` seconds ago; while somebody watches, at most a second ago."""
        if self._looking is not None:
            max_age = max(max_age, _INTERVAL)
        kernels = self._manager.kernels
        processes = kernels.processes(await kernels.notebooks())
        async with self._reading:
            if self._gpus is None or time.monotonic() - self._read_at >= max_age:
                self._gpus = await asyncio.to_thread(self._reader.read, self._supervisors(), processes)
                self._read_at = time.monotonic()
            return self._gpus

    async def describe(self, *clusters: KernelCluster) -> tuple[ClusterInfo, ...]:
        """What there is to say of some clusters."""
        gpus = await self._gpus_of(*(cluster.state for cluster in clusters))
        notebooks = await self._manager.kernels.notebooks()
        return tuple(describe(cluster, notebooks, self._manager.kernels, gpus) for cluster in clusters)

    async def with_gpu_metrics(self, state: ClusterState) -> ClusterState:
        """A state with the metrics of its GPUs, as they were at most a second ago."""
        return with_gpu_metrics(state, await self._gpus_of(state))

    async def _gpus_of(self, *states: ClusterState | None) -> Sequence[GpuInfo]:
        if any(state is not None and state.engine == "cuda" for state in states):
            return (await self.gpus(_INTERVAL)).gpus
        return ()

    async def stop(self) -> None:
        """Look no more, whoever watches."""
        looking, self._looking = self._looking, None
        self._watchers.clear()
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="gpudask-sampler")
        self._manager.watch(_INTERVAL)
        try:
            while True:
                began = loop.time()
                try:
                    await self._look_once(thread)
                except Exception:  # what nobody foresaw must not end the stream of all who watch
                    logger.exception("One look at the GPUs and the clusters failed")
                await asyncio.sleep(max(0.0, began + _INTERVAL - loop.time()))
        finally:
            thread.shutdown(wait=False)
            self._last = None
            if self._looking is None or self._looking.done():
                self._manager.watch(0)

    async def _look_once(self, thread: ThreadPoolExecutor) -> None:
        notebooks = await self._manager.kernels.notebooks()
        self._manager.rename(notebooks)
        processes = self._manager.kernels.processes(notebooks)
        async with self._reading:
            before = self._last.time if self._last else 0.0
            composing = asyncio.get_running_loop().run_in_executor(
                thread, self._compose, notebooks, processes, set(self._watchers.values())
            )
            self._last, changes, fulls = await composing
            self._gpus, self._read_at = self._last.gpus, time.monotonic()
        for watcher, since in list(self._watchers.items()):
            # A watcher that came meanwhile, or is behind, gets everything next time.
            message = changes if since is None else fulls.get(since)
            if message is not None and watcher in self._watchers:
                lacks = before if since is None else since
                self._watchers[watcher] = None if watcher.send(message) else lacks
                await asyncio.sleep(0)  # to send to all in one go would take milliseconds

    def _compose(
        self, notebooks: Notebooks, processes: Mapping[int, KernelProcess], wanted: set[float | None]
    ) -> tuple[_Look, str, dict[float, str]]:
        """Look, and put into words what has changed, and everything since each moment that is wanted."""
        manager, last = self._manager, self._last
        gpus = self._reader.read(self._supervisors(), processes)
        clusters = list(manager.clusters.values())
        infos = {cluster.kernel_id: describe(cluster, notebooks, manager.kernels, gpus.gpus) for cluster in clusters}
        look = _Look(time.time(), gpus, infos)
        self._history.add(look.time, gpus, infos.values())
        changed = [kernel_id for kernel_id, info in infos.items() if not last or last.infos.get(kernel_id) != info]
        # In pieces, so that the loop's thread gets its turn in between.
        look.words = {
            kernel_id: info.model_dump_json() if kernel_id in changed or not last else last.words[kernel_id]
            for kernel_id, info in infos.items()
        }
        gpu_words = gpus.model_dump_json()
        removed = sorted(set(last.infos) - set(infos)) if last else []
        changes = _message(
            "changes",
            look.time,
            gpus="null" if last and last.gpus == gpus else gpu_words,
            clusters=[look.words[kernel_id] for kernel_id in changed],
            removed=removed,
            history=self._history.since(last.time if last else 0.0),
        )
        words = list(look.words.values())
        fulls = {
            since: _message(
                "full", look.time, gpus=gpu_words, clusters=words, removed=[], history=self._history.since(since)
            )
            for since in wanted
            if since is not None
        }
        return look, changes, fulls

    def _supervisors(self) -> dict[int, str]:
        clusters = list(self._manager.clusters.values())
        return {cluster.ready.pid: cluster.kernel_id for cluster in clusters if cluster.ready is not None}


def _message(
    kind: str, when: float, *, gpus: str, clusters: Sequence[str], removed: Sequence[str], history: Sequence[str]
) -> str:
    """A `StreamMessage` as JSON, put together from parts that are JSON already."""
    return (
        f'{{"type":"{kind}","time":{when!r},"gpus":{gpus},"clusters":[{",".join(clusters)}],'
        f'"removed":{json.dumps(list(removed))},"history":[{",".join(history)}]}}'
    )
