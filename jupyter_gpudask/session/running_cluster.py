"""A running cluster, as the kernel sees it: its control, a Dask client, and the event loop of its connection."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ..errors import ClusterLostError, ClusterStartError, ResultsLostError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from ..client.kernel_client import KernelClient
    from ..launcher.connection import Cluster
    from ..protocol import ClusterSpec, ClusterState, Ready
    from ..protocol.messages import Action

_POLL_INTERVAL = 0.1
_CANCEL_TIMEOUT = 6.0

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass
class RunningCluster:
    """A running cluster and this kernel's client of it; all methods block."""

    loop: EventLoopThread  # runs the coroutines of `process`
    process: Cluster  # the cluster: over its supervisor, or over the client of a scheduler that somebody else started
    client: KernelClient  # the Dask client
    stand_in_announced: bool = False  # whether a cell has said that the cluster is the CPU stand-in

    @property
    def ready(self) -> Ready:
        """What was reported when the cluster was up."""
        return self.process.ready

    def can(self, action: Action) -> bool:
        """Whether an action is possible with this cluster."""
        return action not in self.ready.limits

    @property
    def is_owned(self) -> bool:
        """Whether this kernel or its server started the cluster; other clusters are left as they were."""
        return self.ready.is_owned

    @property
    def is_server_owned(self) -> bool:
        """Whether the Jupyter server holds the cluster, which then outlives the kernel's process."""
        return self.ready.spec is not None

    @property
    def spec(self) -> ClusterSpec:
        """The options of the cluster."""
        return self.process.spec

    def ask(self, verb: Callable[_P, Awaitable[_T]], *arguments: _P.args, **named: _P.kwargs) -> _T:
        """Call a method of `process` in the event loop, and wait for its result."""

        async def ask() -> _T:
            return await verb(*arguments, **named)

        return self.loop.run(ask())

    def notify(self, verb: Callable[_P, Awaitable[None]], *arguments: _P.args, **named: _P.kwargs) -> None:
        """Call a method of `process` without waiting; if the cluster is lost, its next use reports that."""

        async def notify() -> None:
            with suppress(ClusterLostError):
                await verb(*arguments, **named)

        self.loop.start(notify())

    def state(self) -> ClusterState:
        """The current state; raises `ClusterLostError` if the cluster does not respond."""
        return self.ask(self.process.state)

    def scale(self, workers: int) -> ClusterState:
        """Scale to `workers` workers, and wait until they are up, or are jobs of a batch system that wait."""

        async def scale() -> ClusterState:
            state = await self.process.scale(workers)
            async with asyncio.timeout(self.spec.start_timeout):
                while not has_workers_wanted(state):
                    await asyncio.sleep(_POLL_INTERVAL)
                    state = await self.process.state()
            return state

        def has_workers_wanted(state: ClusterState) -> bool:
            # More than `workers` where a job or a host has several.
            wanted = state.workers_wanted or workers
            return len(state.workers) == wanted or (len(state.workers) < wanted and bool(state.jobs))

        try:
            return self.loop.run(scale())
        except TimeoutError:
            raise ClusterStartError("scale-late", workers=workers, limit=self.spec.start_timeout) from None

    def log(self, lines: int) -> dict[str, str]:
        """The last `lines` lines of the logs of the scheduler's process and of each worker, by their titles."""
        from ..protocol.state import names_of
        from ..protocol.verbs import SUPERVISOR

        logs = self.ask(self.process.logs, lines)
        state = self.state()
        titles = {worker.name: title for worker, title in zip(state.workers, names_of(state.workers), strict=True)}
        return {titles.get(name, name): text for name, text in ({"Scheduler": logs.pop(SUPERVISOR)} | logs).items()}

    def check_libraries(self, names: Sequence[str]) -> None:
        """Check that the workers have these libraries in the kernel's versions; raises `BackendUnavailableError`."""
        self.ask(self.process.check_libraries, names)

    def disconnect(self, end: str, timeout: float) -> None:
        """Close the client after the cluster was closed or lost; code that waits for results raises `end`."""
        from ..switch.context import default_client

        if default_client.refuse(self.client, partial(ResultsLostError, "cluster-ended", end=end)):
            # Else closing it would set Dask's scheduler back, and the running cell could compute in this process.
            self.client._set_as_default = False  # noqa: SLF001
        self.client.end = end
        self.client.close(timeout=timeout)

    def begin_cell(self) -> bool:
        """Begin to count the tasks of a cell; returns whether its device memory and energy are measured, too.

        Nothing is measured without GPUs, nor on a cluster of somebody else: RMM's statistics would change the allocator
        of its workers, and the energy is that of all its users.
        """
        if self.client.status != "running":
            return False
        self.client.begin_cell()
        return self.is_owned and self.ready.engine == "cuda"


class EventLoopThread:
    """Runs coroutines for blocking code."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="gpudask-loop", daemon=True).start()

    def start(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run `coroutine`, which handles its errors itself, and do not wait for it."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, _T], while_waiting: Callable[[], None] | None = None) -> _T:
        """Wait for `coroutine` and return its result; ten times a second, call `while_waiting` in this thread.

        If this thread is interrupted, the coroutine is cancelled; its clean-up has finished when this raises.
        """
        done = threading.Event()

        async def run_and_signal() -> _T:
            try:
                return await coroutine
            finally:
                done.set()

        future = asyncio.run_coroutine_threadsafe(run_and_signal(), self._loop)
        try:
            while not done.wait(_POLL_INTERVAL):
                if while_waiting is not None:
                    while_waiting()
            return future.result()
        except BaseException:
            if not done.is_set():
                future.cancel()
                done.wait(_CANCEL_TIMEOUT)
            raise
