"""Let a worker of a GPU start its next task while a task runs on the host.

A worker of a GPU runs one task at a time, because tasks share the memory of the device. A part of a task that runs on
the host, such as a fallback, would leave the device and all other cores idle. If it takes longer than some
milliseconds, the task secedes, as Dask's tasks do that wait for others: its thread leaves the pool, and another one
takes its place and runs the next task. After the part, the thread waits until it has a place in the pool again. So at
any time as many tasks as the worker has threads, mostly one, use the device.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import psutil
from dask.sizeof import sizeof
from dask.system import CPU_COUNT
from distributed import Worker, WorkerPlugin, get_worker
from distributed.core import Status
from distributed.threadpoolexecutor import ThreadPoolExecutor, _worker, thread_state, threads_lock
from distributed.worker_state_machine import SecedeEvent

from ..machine.nvml import count_gpus
from .memory import has_room
from .reads import BegunRead, Reads

_PATIENCE = 0.001
"""Seconds after which a part may count as long. To start another task takes the worker a third of that."""

_INTERVAL = 0.004
_RECENTLY = 0.02
_INTERRUPTIBLE = 0.1
_LONG = 0.002
"""Seconds that the parts of a name take, as to read an image, so that the next one secedes when it begins."""

_MOST_NAMES = 1000
_TIMES_GIVEN = 4
"""How many times as much as it was given a part needs: for its results and for what it computes with."""


def gpus_of_machine() -> int:
    """The number of GPUs among which the cores and the memory of this machine are divided; 0 if this worker has none.

    dask-cuda lets each worker see all GPUs of its cluster. Other users and clusters may have the others, unless this
    process may use only some of the cores: then somebody has divided them already.
    """
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    own = len(devices.split(",")) if devices else 0
    has_all_cores = (os.cpu_count() or 1) <= CPU_COUNT
    return max(own, count_gpus()) if own and has_all_cores else own


class HostPart:
    """A part of a task that may run on the host; a context manager of the task's thread.

    - `name`: the same for parts of several tasks that take about as long.
    - `is_on_host`: whether it does; asked only if the part takes long. `None` if that is known.
    - `values`: what it was given.
    - `is_call`: whether it is one function, which may hold a lock; parts within it are none.
    - `waits`: whether its thread only waits for another one.
    """

    def __init__(
        self,
        plugin: HostThreadsPlugin,
        name: str,
        is_on_host: Callable[[], bool] | None,
        values: Any,
        *,
        is_call: bool,
        waits: bool = False,
    ) -> None:
        self._plugin = plugin
        self.waits = waits
        self.is_call = is_call
        self.name = name
        self.is_on_host = is_on_host
        self.values: Any = values
        self.thread = threading.current_thread()
        self.key: Any = None
        self.began = time.monotonic()
        self.nbytes: int | None = None  # of the values, once they were counted
        # need, rss, growth: bytes that it takes at most, of the process when it seceded, and by which that has grown
        self.need = self.rss = self.growth = 0
        self.has_ended = False

    def __enter__(self) -> None:
        self._plugin.begin(self)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What follows an interrupt only releases memory: it does not wait for other tasks.
        self._plugin.end(self, returns=kind is None or issubclass(kind, Exception))


class Call:
    """A function that runs on the device, and may hold a lock; a context manager. Parts within it are none."""

    def __init__(self, of_thread: _OfThread) -> None:
        self._of_thread = of_thread

    def __enter__(self) -> None:
        self._of_thread.calls += 1

    def __exit__(self, *_: object) -> None:
        self._of_thread.calls -= 1


_MOST_READERS = 16
"""Threads that copy a file to the device, of which cuDF has 4; more gain nothing on an H200."""


class HostThreadsPlugin(WorkerPlugin):
    """Lets tasks secede during long parts on the host.

    A thread of its own decides on that, and is the only one that changes the pool: what a task's thread does can be
    interrupted at any point.

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
        gpus = gpus_of_machine()
        cores = self._threads or (int(CPU_COUNT) // gpus if gpus else 0)
        self._most = cores - worker.state.nthreads
        self._memory = worker.memory_manager.memory_limit or int(psutil.virtual_memory().total) // max(1, gpus)
        self._process = psutil.Process()
        self._rss = (0.0, 0)
        self._of_thread = _OfThread()
        self.call = Call(self._of_thread)
        # Parts whose threads have their places in the pool. Who takes one from here decides: the thread of its task,
        # which ends it, or `_watch`, which lets it secede, and holds the lock until it has.
        self._running: dict[HostPart, bool] = {}
        self._seceded: dict[HostPart, bool] = {}
        self._seceding = threading.Lock()
        self._needs: dict[str, int] = {}  # bytes by which the process has grown during a part of a name
        self._long: dict[str, bool] = {}  # the names of parts of which the last one has taken long
        self._on_host: dict[str, bool] = {}  # whether the first part of a name runs on the host
        self._wake = threading.Event()  # there are parts
        self._hurry = threading.Event()  # one of them is of a long name
        self._is_closed = False
        executor: Any = worker.executors.get("default")
        if self._most > 0 and type(executor) in (ThreadPoolExecutor, KeepingThreadPoolExecutor):
            os.environ.setdefault("KVIKIO_NTHREADS", str(min(cores, _MOST_READERS)))  # cuDF reads it at the first file
            KeepingThreadPoolExecutor.take_over(executor)
            self._executor = executor
            self.reads = Reads(cores, self._memory)
            threading.Thread(target=self._watch, name="gpudask-host-threads", daemon=True).start()

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - as Dask calls it
        """Called by Dask when the plugin is unregistered, or when the worker closes."""
        if self._executor is not None:
            self._is_closed = True
            self._wake.set()
            self.reads.close()

    @property
    def is_on(self) -> bool:
        """Whether tasks of this worker can secede."""
        return self._executor is not None

    def part(
        self, name: str, is_on_host: Callable[[], bool], values: Any, *, is_call: bool, is_of_collection: bool
    ) -> AbstractContextManager[Any]:
        """A context for a part of the task of this thread; see `HostPart`.

        `is_of_collection`: whether none of this name runs on the host, if the first one does not.
        """
        if is_of_collection and not self.may_run_on_host(name, is_on_host):
            return self.call if is_call else nullcontext()
        return HostPart(self, name, is_on_host, values, is_call=is_call)

    def may_run_on_host(self, name: str, is_on_host: Callable[[], bool]) -> bool:
        """Whether the first part of a name runs on the host; if not, none does. Each of the others is asked itself."""
        may = self._on_host.get(name)
        if may is None:
            may = False
            with suppress(Exception):  # of objects of the user
                may = is_on_host()
            if len(self._on_host) >= _MOST_NAMES:
                self._on_host.clear()
            self._on_host[name] = may
        return may

    def may_wait(self) -> bool:
        """Whether the task of this thread can secede while it waits."""
        return self._of_thread.calls == 0 and self._is_of_task()

    def _is_of_task(self) -> bool:  # and not a thread of a client, or of an executor of the user
        return self._executor is not None and getattr(thread_state, "executor", None) is self._executor

    def wait(self, begun: BegunRead) -> Any:
        """The block of a read that has begun."""
        future = begun.future
        try:
            if not future.done():
                with HostPart(self, f"wait for {begun.name}", None, (), is_call=False, waits=True):
                    while not future.done():
                        wait((future,), _INTERRUPTIBLE)
            return future.result()
        finally:
            begun.leave()

    def begin(self, part: HostPart) -> None:
        """The part begins; called in the thread of its task."""
        of_thread = self._of_thread
        is_within = of_thread.calls > 0
        of_thread.calls += part.is_call
        if is_within or not self._is_of_task():
            return
        part.key = get_worker().get_current_task()
        of_thread.parts.append(part)
        self._running[part] = True
        if part.name in self._long:
            self._hurry.set()
        if not self._wake.is_set():
            self._wake.set()

    def end(self, part: HostPart, *, returns: bool) -> None:
        """The part has ended; with `returns` wait until the thread has a place in the pool."""
        part.has_ended, part.values, part.is_on_host = True, None, None
        self._of_thread.calls -= part.is_call
        if part not in self._of_thread.parts:
            return
        self._learn(part)
        if not self._running.pop(part, False):
            with self._seceding:
                has_seceded = part in self._seceded
            if has_seceded:
                if not returns:
                    return
                self._of_thread.returns += 1
                self._return()
                self._seceded.pop(part, None)
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
        executor, thread, event = self._executor, threading.current_thread(), threading.Event()
        if thread in executor._threads:  # noqa: SLF001
            return  # the function has called Dask's `rejoin`
        began = time.monotonic()
        # As Dask's `rejoin`, but an interrupt does not wait for the tasks of others, and leaves the pool as it is.
        with executor._rejoin_lock:  # noqa: SLF001
            executor._rejoin_list.append((thread, event))  # noqa: SLF001
        executor._work_queue.put(_Nothing())  # noqa: SLF001
        while not event.wait(_INTERRUPTIBLE) and not executor._shutdown:  # noqa: SLF001
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
        of_thread, executor, thread = self._of_thread, self._executor, threading.current_thread()
        parts, waited = of_thread.parts, of_thread.waited
        of_thread.waited, of_thread.calls = 0.0, 0
        if len(executor._threads) < executor._max_workers:  # noqa: SLF001
            executor._adjust_thread_count()  # noqa: SLF001 - it was interrupted in Dask's `secede`
        if not parts:
            return waited
        with self._seceding:
            for part in parts:
                self._running.pop(part, None)
                self._seceded.pop(part, None)
        parts.clear()
        with executor._rejoin_lock:  # noqa: SLF001
            executor._rejoin_list[:] = [each for each in executor._rejoin_list if each[0] is not thread]  # noqa: SLF001
            thread_state.proceed = thread in executor._threads  # noqa: SLF001 - else another thread has its place
        return waited

    def _watch(self) -> None:
        while not self._is_closed:
            if not self._running and not self._seceded:
                self._wake.clear()
                if not self._running and not self._is_closed:
                    self._wake.wait()
            self._hurry.wait(_INTERVAL)
            self._hurry.clear()
            self._measure()
            began_before = time.monotonic() - _PATIENCE
            threads = set()
            for part in reversed(list(self._running)):
                if part.thread not in threads and (part.began <= began_before or part.name in self._long):
                    threads.add(part.thread)  # what contains the part cannot secede where the part cannot
                    with suppress(Exception):  # of NVML, RMM or psutil: it may not secede now
                        self._look_at(part)

    def _measure(self) -> None:
        """Where one part alone has seceded, it may be the reason for which the process grows."""
        computing = self._computing_parts()
        if len(computing) == 1:
            computing[0].growth = max(computing[0].growth, self._memory_in_use() - computing[0].rss)

    def _memory_in_use(self) -> int:
        """Bytes of the process, as they were some milliseconds ago at most."""
        if time.monotonic() > self._rss[0] + _RECENTLY:
            self._rss = time.monotonic(), int(self._process.memory_info().rss)
        return self._rss[1]

    def _computing_parts(self) -> list[HostPart]:
        # Those that wait for their places have priority over what would begin now.
        return [part for part in list(self._seceded) if not part.has_ended]

    def _look_at(self, part: HostPart) -> None:
        if part.thread not in self._executor._threads:  # noqa: SLF001 - a part that contains it has seceded
            self._running.pop(part, None)
            return
        if part.nbytes is None:
            part.nbytes = _size_of(part)
        secedes = part.nbytes >= 0
        if secedes and not self._may_secede(part):
            return  # perhaps later
        with self._seceding:
            if self._running.pop(part, False) and secedes:  # else it has ended
                self._secede(part)

    def _may_secede(self, part: HostPart) -> bool:
        computing, given = self._computing_parts(), part.nbytes or 0
        known = 0 if part.waits else self._needs.get(part.name)
        if known is None and computing:
            return False  # one alone shows how much they need
        part.rss, part.need = self._memory_in_use(), max(given * _TIMES_GIVEN, known or 0)
        needs = sum(other.need for other in computing) + 2 * part.need  # and of what begins in its place
        results = sum(other.nbytes or 0 for other in list(self._seceded)) + given  # which go to the device
        return (
            len(computing) < self._most
            and max(needs, part.rss) * 2 <= self._memory
            and self._worker.status is Status.running
            and has_room(results)
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
        return sizeof(values) if not part.has_ended and (is_on_host is None or is_on_host()) else -1
    except Exception:  # noqa: BLE001 - of objects of the user
        return -1


class _OfThread(threading.local):
    """Of the task that runs in this thread: its parts, how often it has returned from some, and its calls."""

    def __init__(self) -> None:
        self.parts: list[HostPart] = []
        self.calls = 0
        self.returns = 0
        self.waited = 0.0  # seconds for its place in the pool


class KeepingThreadPoolExecutor(ThreadPoolExecutor):
    """Dask's pool, which keeps the threads that leave it, until it needs one again.

    Dask looks for "ThreadPoolExecutor" in the name of the class.

    Dask's end when another one takes their place. CuPy keeps plans of Fourier transforms by thread, with their device
    memory, and does not release those of a thread that has ended.
    """

    @classmethod
    def take_over(cls, executor: ThreadPoolExecutor) -> None:
        """Make a pool of Dask, with its tasks and threads, one of this class."""
        if not isinstance(executor, cls):
            pool: Any = executor
            pool.__class__ = cls
            pool._begin()  # noqa: SLF001

    def _begin(self) -> None:
        self._threads = _Members(self._threads)
        self._kept: list[tuple[threading.Thread, threading.Event]] = []
        self._changing = threading.Lock()

    def _adjust_thread_count(self) -> None:
        """Called by Dask, in different threads, when the pool may lack one."""
        with self._changing:
            if len(self._threads) >= self._max_workers:
                return
            if self._kept:
                thread, event = self._kept.pop()
                self._threads.add(thread)
                event.set()
                return
            name = f"{self._thread_name_prefix}-{os.getpid()}-{next(self._counter)}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.add(thread)
            thread.start()

    def _run(self) -> None:
        is_needed = True
        while is_needed:
            _worker(self, self._work_queue)  # until another thread takes its place, or the pool shuts down
            _release_plans()
            event = threading.Event()
            with self._changing:
                is_needed = not self._shutdown
                if is_needed:
                    self._kept.append((threading.current_thread(), event))
            if is_needed:
                event.wait()

    def shutdown(self, *args: Any, **kwargs: Any) -> None:
        """As Dask's; kept threads end."""
        super().shutdown(*args, **kwargs)
        with self._changing:
            for _, event in self._kept:
                event.set()
            self._kept.clear()


def _release_plans() -> None:
    """Release the plans of CuPy's Fourier transforms of this thread, which is the only one that can."""
    fft: Any = sys.modules.get("cupy.fft")
    with suppress(Exception):  # of CUDA, after an error that has ended its context
        cache = fft.config.get_plan_cache() if fft else {}
        for key, _ in list(cache):  # `clear` would also collect all garbage of the process
            del cache[key]


class _Members(set[Any]):
    """The threads of a pool. A task may call Dask's `secede` when its thread has left the pool already."""

    def remove(self, thread: Any) -> None:
        """Remove a thread, if it is there."""
        self.discard(thread)


class _Nothing:
    """An item of a pool that only wakes a thread."""

    def run(self) -> None:
        """Called by the thread."""


def times_seceded() -> int:
    """How often the task of this thread has seceded during its parts on the host, the one that it is in included."""
    try:
        plugin = get_worker().plugins.get(HostThreadsPlugin.name)
    except ValueError:  # not in a worker
        return 0
    return plugin.times_seceded() if isinstance(plugin, HostThreadsPlugin) else 0
