"""The workers of a scheduler: their state, unexpected exits, lost hosts, and out-of-memory events."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import dask.config
from dask.utils import parse_timedelta
from distributed import SchedulerPlugin
from distributed.comm.addressing import get_address_host
from distributed.metrics import time

from ..device_errors import is_out_of_device_memory
from ..protocol.state import GpuState, LostHost, WorkerExit, WorkerState
from ..quantities import format_bytes
from ..worker.plugins import EXIT_TOPIC
from ..worker.preload import DEVICE_METRIC, METRICS

logger = logging.getLogger(__name__)


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


_MEMORY_LIMIT_TOPIC = "worker-restart-memory"
"""The topic of the events that a nanny of Dask's logs when it terminates a worker that exceeded its memory limit."""
_KEPT_EXITS = 20
_UNKNOWN_SIGNAL = 255


class WorkerFailuresPlugin(LostHostsPlugin):
    """Collects the failures of a scheduler's workers.

    It reads the text of an error that the worker sent, and unpickles nothing.

    - `out_of_memory`: number of tasks that ran out of device memory, by worker name. A task with retries counts when it
      has failed for good.
    - `exits`: the newest unexpected exits of worker processes, the oldest first.
    """

    name = "gpudask-worker-failures"

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self.out_of_memory: Counter[str] = Counter()
        self.exits: deque[WorkerExit] = deque(maxlen=_KEPT_EXITS)
        self.watch_hosts(scheduler)
        self._limits = {worker.pid: worker.memory_limit for worker in scheduler.workers.values()}
        """In bytes, by process: it may be gone from the scheduler when its nanny tells why, or still have for the nanny
        the address of the one before."""
        self._over_limit: dict[tuple[str, int], str] = {}
        self._restarted: deque[int] = deque(maxlen=_KEPT_EXITS)
        self._lost_contexts: deque[tuple[str, str]] = deque(maxlen=_KEPT_EXITS)
        self._breaks = ("", 0)

    def lose_context(self, worker: str, function: str, line: int, reason: str) -> int:
        """Note that a worker ends because its CUDA context is broken; called by the worker.

        - `function`, `line`: the user's function that failed, and its line in the cell; empty and 0 if they are not
          known.
        - `reason`: the error of CUDA.

        Returns how often this function has broken a context since a graph was submitted, with none of another in
        between.
        """
        last, times = self._breaks
        self._breaks = (function, times + 1 if function == last else 1)
        where = f" (line {line})" if line else ""
        what = f" in {function}{where}" if function else ""
        self._lost_contexts.append((worker, f"lost its CUDA context{what}: {reason}"))
        return self._breaks[1]

    def expect_exit(self, pid: int) -> None:
        """Note that a worker process is being restarted after an interrupt; its exit is not unexpected."""
        self._restarted.append(pid)

    def expects_exit(self, pid: int) -> bool:
        """Whether this worker process is being restarted, or was."""
        return pid in self._restarted

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Note the memory limit of a worker that joins; called by Dask."""
        super().add_worker(scheduler, worker)
        self._limits[scheduler.workers[worker].pid] = scheduler.workers[worker].memory_limit

    def update_graph(self, scheduler: Any, **kwargs: Any) -> None:  # noqa: ARG002 - as Dask calls it
        """Begin to count again; called by Dask for each graph."""
        self._breaks = ("", 0)

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002 - Dask's
        """Count a task that fails; called by Dask for every transition. Tasks that depend on it have no text."""
        if finish == "erred" and start == "processing" and is_out_of_device_memory(kwargs.get("exception_text") or ""):
            worker = self._scheduler.workers.get(kwargs.get("worker"))
            if worker is not None:
                self.out_of_memory[str(worker.name)] += 1

    def log_event(self, topic: str, msg: Any) -> None:
        """Record an exit; called by Dask for every event."""
        if topic == _MEMORY_LIMIT_TOPIC:
            allowed = self._limits.get(msg["pid"])
            limit = f", and its limit is {format_bytes(allowed)}" if allowed else ""
            self._over_limit[msg["worker"], msg["pid"]] = f"used {format_bytes(msg['rss'])} of host memory{limit}"
        elif topic == EXIT_TOPIC:
            self._limits.pop(msg["pid"], None)
            excess = self._over_limit.pop((msg["worker"], msg["pid"]), None)
            if self.expects_exit(msg["pid"]):
                return
            lost_context = dict(self._lost_contexts).get(msg["worker"])
            over_limit, reason = excess is not None, excess or lost_context or describe_exit(msg["exitcode"])
            self.exits.append(
                WorkerExit(worker=msg["name"], pid=msg["pid"], time=time(), reason=reason, over_memory_limit=over_limit)
            )
            logger.warning("Worker process %s %s", msg["pid"], lost_context or describe_exit(msg["exitcode"]))


def describe_exit(exitcode: int) -> str:
    """How a process ended, from the exit code of its `multiprocessing.Process`, which is not 0."""
    if exitcode == _UNKNOWN_SIGNAL:
        return "was killed by an unknown signal"
    return f"was killed by signal {-exitcode}" if exitcode < 0 else f"exited with status {exitcode}"


_LIMIT = 2.0
_POLL = 0.05


async def exit_of(pid: int, dask_scheduler: Any) -> WorkerExit | None:
    """The unexpected exit of a worker process; `None` if it is not known.

    The scheduler notices that the connection is closed before the nanny reports the exit, so this waits for a moment.
    """
    failures = dask_scheduler.plugins.get(WorkerFailuresPlugin.name)
    if failures is None:  # a cluster that somebody else started
        return None
    for _ in range(round(_LIMIT / _POLL)):
        for end in failures.exits:
            if end.pid == pid:
                found: WorkerExit = end
                return found
        await asyncio.sleep(_POLL)
    return None


def worker_addresses(dask_scheduler: Any) -> dict[str, str]:
    """The addresses of the workers, by name."""
    return {str(worker.name): address for address, worker in dask_scheduler.workers.items()}


def read_worker(
    worker: Any, gpu: GpuState | None, pid: int | None = None, out_of_memory: int = 0, *, result_bytes: int = 0
) -> WorkerState:
    """The state of a worker, from its last heartbeat; the worker is not asked.

    - `gpu`: its GPU with the current metrics; `None` on the CPU.
    - `pid`: the process id of the worker.
    - `out_of_memory`: the number of its tasks that ran out of device memory.
    - `result_bytes`: bytes of the results on it that clients hold.
    """
    heartbeat = worker.metrics or {}
    metrics = heartbeat.get(METRICS) or {}
    # `executing` is as old as the last heartbeat; tasks cancelled since then no longer run.
    executing = min(len(worker.executing), len(worker.processing))
    return WorkerState(
        name=str(worker.name),
        pid=pid,
        pool_used=metrics.get("pool_used"),
        pool_size=metrics.get("pool_size"),
        spilled_to_host=metrics.get("spilled_to_host"),
        spilled_to_disk=metrics.get("spilled_to_disk"),
        memory=heartbeat.get("memory"),
        cpu=heartbeat.get("cpu"),
        threads=worker.nthreads,
        executing=executing,
        waiting=len(worker.processing) - executing,
        executed=metrics.get("executed"),
        polars=metrics.get("polars", False),
        result_bytes=result_bytes,
        out_of_memory=out_of_memory,
        status=worker.status.name,
        host=worker.host,
    ).with_gpu(gpu)


def reported_gpu(worker: Any) -> GpuState | None:
    """The GPU that a worker reports in its heartbeats; `None` if it does not."""
    metrics = (worker.metrics or {}).get(METRICS) or {}
    return gpu_of_heartbeat(worker, metrics.get(DEVICE_METRIC))


def gpu_of_heartbeat(worker: Any, device: Mapping[str, Any] | None) -> GpuState | None:
    """The GPU of a worker with the metrics that Dask's ``distributed.diagnostics.nvml`` adds to heartbeats.

    `worker`: a `distributed.scheduler.WorkerState`. `device`: index, UUID and product name; `None` without a GPU.
    """
    if device is None:
        return None
    metrics = worker.metrics or {}
    return GpuState(
        **device,
        memory_total=metrics.get("gpu-memory-total"),
        memory_used=metrics.get("gpu_memory_used"),
        utilization=metrics.get("gpu_utilization"),
    )
