"""Let a worker of a GPU start its next task while a task runs on the host.

A worker of a GPU runs one task at a time, because tasks share the memory of the device. A part of a task that runs on
the host, such as a fallback, would leave the device and all other cores idle. If it takes longer than some
milliseconds, the task secedes, as Dask's tasks do that wait for others: its thread leaves the pool, and another one
takes its place and runs the next task. After the part, the thread waits until it has a place in the pool again. So at
any time as many tasks as the worker has threads, mostly one, use the device.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil
from dask.sizeof import sizeof
from dask.system import CPU_COUNT
from distributed import WorkerPlugin, get_worker
from distributed.core import Status
from distributed.threadpoolexecutor import ThreadPoolExecutor, thread_state, threads_lock
from distributed.worker_state_machine import SecedeEvent

from ..graph.switches import uses_host_threads
from .memory import has_room

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributed import Worker

_PATIENCE = 0.003
"""Seconds after which a part counts as long. To start another task takes the worker a tenth of that."""

_INTERVAL = 0.004
_INTERRUPTIBLE = 0.1
_LONG = 0.01
"""Seconds that the parts of a name take, so that the next one secedes when it begins."""

_LITTLE = 2**20
"""Bytes that say nothing about what a part needs: it makes or reads its blocks."""

_MOST_NAMES = 1000
_TIMES_GIVEN = 4
"""How many times as much as it was given a part needs: for its results and for what it computes with."""


def cores_of_worker() -> int:
    """The number of cores of this machine for each worker of a GPU; 0 if this is none.

    dask-cuda lets each worker see all GPUs that have one, its own first.
    """
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return int(CPU_COUNT) // len(devices.split(",")) if devices else 0


class HostPart:
    """A part of a task that may run on the host; a context manager of the task's thread.

    - `name`: the same for parts of several tasks that take about as long.
    - `is_on_host`: whether it does; asked only if the part takes long.
    - `values`: what it was given.
    - `is_call`: whether it is one function, which may hold a lock; parts within it are none.
    """

    def __init__(
        self, plugin: HostThreadsPlugin, name: str, is_on_host: Callable[[], bool], values: Any, *, is_call: bool
    ) -> None:
        self._plugin = plugin
        self.is_call = is_call
        self.name = name
        self.is_on_host: Callable[[], bool] | None = is_on_host
        self.values: Any = values
        self.thread = threading.current_thread()
        self.key: Any = None
        self.began = time.monotonic()
        self.nbytes: int | None = None  # of the values, once they were counted
        # need, rss, growth: bytes that it takes at most, of the process when it seceded, and by which that has grown
        self.need = self.rss = self.growth = 0
        self.has_ended = False
        self.was_looked_at: threading.Event | None = None  # after that it stays as it is, seceded or not

    def __enter__(self) -> None:
        self._plugin.begin(self)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What follows an interrupt only releases memory: it does not wait for other tasks.
        self._plugin.end(self, returns=kind is None or issubclass(kind, Exception))


class HostThreadsPlugin(WorkerPlugin):
    """Lets tasks secede during long parts on the host.

    - `threads`: how many tasks run at a time, those that have seceded included; `None` for one on each core of the
      worker.
    """

    name = "gpudask-host-threads"
    _executor: Any = None

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads

    def setup(self, worker: Worker) -> None:
        """Called by Dask when the worker has joined the scheduler, before it gets tasks."""
        self._worker = worker
        if self._threads is None and not uses_host_threads():
            return
        self._most = (self._threads or cores_of_worker()) - worker.state.nthreads
        self._memory = worker.memory_manager.memory_limit or int(psutil.virtual_memory().total)
        self._of_thread = _OfThread()
        # Parts whose threads have their places in the pool. Who takes one from here decides whether it secedes: the
        # thread of its task, which ends it, or `_watch`.
        self._running: dict[HostPart, bool] = {}
        self._seceded: dict[HostPart, bool] = {}
        self._seceding = threading.Lock()
        self._needs: dict[str, int] = {}  # bytes by which the process has grown during a part of a name
        self._long: dict[str, bool] = {}  # the names of parts of which the last one has taken long
        self._wake = threading.Event()
        self._is_closed = False
        executor: Any = worker.executors.get("default")
        if isinstance(executor, ThreadPoolExecutor) and self._most > 0:
            executor._threads = _Members(executor._threads)  # noqa: SLF001
            self._executor = executor
            threading.Thread(target=self._watch, name="gpudask-host-threads", daemon=True).start()

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        """Called by Dask when the plugin is unregistered, or when the worker closes."""
        if self._executor is not None:
            self._is_closed = True
            self._wake.set()

    @property
    def is_on(self) -> bool:
        """Whether tasks of this worker can secede."""
        return self._executor is not None

    def part(self, name: str, is_on_host: Callable[[], bool], values: Any, *, is_call: bool = False) -> HostPart:
        """A context for a part of the task of this thread; see `HostPart`."""
        return HostPart(self, name, is_on_host, values, is_call=is_call)

    def begin(self, part: HostPart) -> None:
        """The part begins; called in the thread of its task."""
        if self._executor is None or getattr(thread_state, "executor", None) is not self._executor:
            return  # in a thread of a client, or of an executor of the user
        if any(outer.is_call for outer in self._of_thread.parts):
            return
        part.key = get_worker().get_current_task()
        self._of_thread.parts.append(part)
        self._running[part] = True
        if part.name in self._long:
            self._try_to_look_at(part)
        if not self._wake.is_set():
            self._wake.set()

    def end(self, part: HostPart, *, returns: bool) -> None:
        """The part has ended; with `returns` wait until the thread has a place in the pool."""
        part.values, part.is_on_host, part.has_ended = None, None, True
        self._learn(part)
        if not self._running.pop(part, False) and part.was_looked_at is not None:
            part.was_looked_at.wait()
            if part in self._seceded:
                if not returns:
                    return
                self._of_thread.returns += 1
                self._return()
                self._seceded.pop(part, None)
        if part in self._of_thread.parts:
            self._of_thread.parts.remove(part)

    def _learn(self, part: HostPart) -> None:
        """Remember whether parts of this name take long: then the next ones secede when they begin."""
        if time.monotonic() - part.began < _LONG:
            self._long.pop(part.name, None)
        elif part.nbytes is not None and part.nbytes >= 0:
            if len(self._long) >= _MOST_NAMES:
                self._long.clear()
                self._needs.clear()
            self._long[part.name] = True
            if part in self._seceded:
                self._needs[part.name] = max(self._needs.get(part.name, 0), part.growth)

    def _return(self) -> None:
        if threading.current_thread() in self._executor._threads:  # noqa: SLF001
            return  # the function has called Dask's `rejoin`
        executor, thread, event = self._executor, threading.current_thread(), threading.Event()
        began = time.monotonic()
        # As Dask's `rejoin`, but an interrupt does not wait for the tasks of others.
        with executor._rejoin_lock:  # noqa: SLF001
            executor._rejoin_list.append((thread, event))  # noqa: SLF001
        with suppress(RuntimeError):  # the worker closes its pool
            executor.submit(_do_nothing)
            while not event.wait(_INTERRUPTIBLE):
                pass
            thread_state.proceed = True
        self._of_thread.waited += time.monotonic() - began

    def times_seceded(self) -> int:
        """As the function of this name."""
        if self._executor is None:
            return 0
        of_thread = self._of_thread
        return of_thread.returns + sum(part in self._seceded for part in of_thread.parts)

    def settle(self) -> float:
        """The task of this thread has ended, perhaps by an interrupt at any point; nothing interrupts this.

        Returns the seconds in which it has waited for its place in the pool.
        """
        if self._executor is None:
            return 0.0
        parts, waited = self._of_thread.parts, self._of_thread.waited
        self._of_thread.waited = 0.0
        if not parts:
            return waited
        with self._seceding:
            for part in parts:
                self._running.pop(part, None)
                self._seceded.pop(part, None)
        parts.clear()
        executor, thread = self._executor, threading.current_thread()
        with executor._rejoin_lock:  # noqa: SLF001
            executor._rejoin_list[:] = [each for each in executor._rejoin_list if each[0] is not thread]  # noqa: SLF001
            thread_state.proceed = thread in executor._threads  # noqa: SLF001 - else another thread has its place
        return waited

    def _watch(self) -> None:
        while not self._is_closed:
            if not self._running:
                self._wake.clear()
                if not self._running:
                    self._wake.wait()
            time.sleep(_INTERVAL)
            began_before = time.monotonic() - _PATIENCE
            for part in list(self._running):
                if part.began <= began_before:
                    self._try_to_look_at(part)

    def _try_to_look_at(self, part: HostPart) -> None:
        with suppress(Exception):  # of NVML, RMM or psutil: it may not secede now
            self._look_at(part)

    def _look_at(self, part: HostPart) -> None:
        if part.nbytes is None:
            part.nbytes = _size_of(part)
        secedes = part.nbytes >= 0
        if secedes and not self._may_secede(part):
            return  # perhaps later
        with self._seceding:
            if part not in self._running:  # it has ended, or the other thread has looked at it
                return
            part.was_looked_at = threading.Event()
            if not self._running.pop(part, False):  # it has ended just now
                return
            try:
                if secedes:
                    self._secede(part)
            finally:
                part.was_looked_at.set()

    def _may_secede(self, part: HostPart) -> bool:
        # Those that wait for their places have priority over what would begin now.
        computing = [other for other in list(self._seceded) if not other.has_ended]
        rss = psutil.Process().memory_info().rss
        if len(computing) == 1:
            computing[0].growth = max(computing[0].growth, rss - computing[0].rss)
        given, known = part.nbytes or 0, self._needs.get(part.name)
        if known is None and given < _LITTLE and computing:
            return False  # one alone shows how much they need
        part.rss, part.need = rss, max(given * _TIMES_GIVEN, known or 0)
        return (
            len(computing) < self._most
            and (sum(other.need for other in computing) + part.need) * 2 <= self._memory
            and rss * 2 <= self._memory
            and self._worker.status is Status.running
            and has_room()
        )

    def _secede(self, part: HostPart) -> None:
        executor = self._executor
        with threads_lock:
            if part.thread not in executor._threads:  # noqa: SLF001 - the function has seceded by Dask's `secede`
                return
            executor._threads.remove(part.thread)  # noqa: SLF001
            self._seceded[part] = True
            executor._adjust_thread_count()  # noqa: SLF001
        # Without a duration, the scheduler learns that of the task when it has ended.
        duration: Any = None
        event = SecedeEvent(key=part.key, compute_duration=duration, stimulus_id=f"host-part-{time.time()}")
        self._worker.loop.add_callback(self._worker.handle_stimulus, event)


def _size_of(part: HostPart) -> int:
    """The bytes that a part was given; -1 if it does not run on the host, or has ended."""
    is_on_host, values = part.is_on_host, part.values
    try:
        return sizeof(values) if is_on_host is not None and is_on_host() else -1
    except Exception:  # noqa: BLE001 - of objects of the user
        return -1


class _OfThread(threading.local):
    """The parts of the task that runs in this thread, in which it is, and how often it has returned from some."""

    def __init__(self) -> None:
        self.parts: list[HostPart] = []
        self.returns = 0
        self.waited = 0.0  # seconds for its place in the pool


class _Members(set[Any]):
    """The threads of a pool. A task may call Dask's `secede` when its thread has left the pool already."""

    def remove(self, thread: Any) -> None:
        """Remove a thread, if it is there."""
        self.discard(thread)


def _do_nothing() -> None:
    """Wake a thread of the pool."""


def times_seceded() -> int:
    """How often the task of this thread has seceded during its parts on the host, the one that it is in included."""
    try:
        plugin = get_worker().plugins.get(HostThreadsPlugin.name)
    except ValueError:  # not in a worker
        return 0
    return plugin.times_seceded() if isinstance(plugin, HostThreadsPlugin) else 0
