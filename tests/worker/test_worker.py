"""Workers: their plugins, metrics and logs."""

import asyncio
import sys
import threading
from types import SimpleNamespace
from unittest import mock

import dask
import numpy as np
import pytest
from dask_cuda.device_host_file import DeviceHostFile
from distributed import Scheduler, Worker
from distributed.core import Status
from distributed.spill import SpillBuffer
from distributed.threadpoolexecutor import ThreadPoolExecutor, rejoin, secede
from helpers import wait_until

from jupyter_gpudask.worker import host_threads, memory
from jupyter_gpudask.worker.joined import DEVICE, JoinedMetricsPlugin
from jupyter_gpudask.worker.memory import AllocatorStatistics
from jupyter_gpudask.worker.preload import METRICS, read_metrics, receive_more_at_once

SIZE = 100_000


class OnDevice:
    """What dask-cuda takes for an object in device memory."""

    __cuda_array_interface__ = {}  # noqa: RUF012 - as CuPy has it

    def __init__(self):
        self.content = np.zeros(SIZE, dtype="u1")

    def __sizeof__(self):
        return SIZE


def metrics(data):
    worker = SimpleNamespace(data=data, state=SimpleNamespace(executed_count=7), active_threads={}, plugins={})
    return read_metrics(worker)


@pytest.fixture
def store(tmp_path):
    return DeviceHostFile(str(tmp_path), device_memory_limit=2.5 * SIZE, memory_limit=4.5 * SIZE)


def test_results_that_left_the_device_count_where_they_are(store):
    assert metrics(store)["executed"] == 7
    store["a"] = OnDevice()
    store["b"] = np.zeros(SIZE, dtype="u1")
    assert (metrics(store)["spilled_to_host"], metrics(store)["spilled_to_disk"]) == (0, 0)
    for key in "ab":
        del store[key]
    for number in range(5):
        store[f"device-{number}"] = OnDevice()
    assert metrics(store)["spilled_to_host"] == pytest.approx(3 * SIZE, rel=0.1)
    assert metrics(store)["spilled_to_disk"] == 0
    for number in range(4):
        store[f"host-{number}"] = np.zeros(SIZE, dtype="u1")
    assert metrics(store)["spilled_to_host"] < 3 * SIZE
    assert metrics(store)["spilled_to_disk"] > SIZE
    for key in list(store):
        del store[key]


def test_the_store_on_the_cpu_tells_what_is_on_disk(tmp_path):
    store = SpillBuffer(str(tmp_path), target=int(1.5 * SIZE))
    for key in "abc":
        store[key] = np.random.default_rng(0).integers(0, 256, SIZE, dtype="u1")
    assert metrics(store)["spilled_to_host"] is None
    assert metrics(store)["spilled_to_disk"] > SIZE
    assert metrics(store)["pool_used"] is None


class Counters:
    """RMM's stack of counters, as its documentation tells of it."""

    def __init__(self):
        self.stack = [[0, 0]]

    def allocate(self, amount):
        self.stack[-1][0] += amount
        self.stack[-1][1] = max(self.stack[-1])

    @property
    def allocation_counts(self):
        current, peak = self.stack[-1]
        return SimpleNamespace(current_bytes=current, peak_bytes=peak)

    def push_counters(self):
        self.stack.append([0, 0])

    def pop_counters(self):
        current, peak = self.stack.pop()
        before = self.stack[-1][0]
        self.stack[-1] = [before + current, max(self.stack[-1][1], before + peak)]


def test_the_peak_is_that_since_it_was_asked_last(monkeypatch):
    counters = Counters()
    current = mock.Mock(return_value=counters)
    rmm = SimpleNamespace(statistics=mock.Mock(), mr=mock.Mock(get_current_device_resource=current))
    monkeypatch.setitem(sys.modules, "rmm", rmm)
    monkeypatch.setitem(sys.modules, "rmm.statistics", rmm.statistics)
    counters.allocate(10)
    pool = AllocatorStatistics()
    counters.allocate(90)
    counters.allocate(-60)
    assert pool.used() == 40
    assert pool.take_peak() == 100
    assert (pool.used(), pool.take_peak()) == (40, 40)
    counters.allocate(-30)
    counters.allocate(20)
    assert (pool.used(), pool.take_peak()) == (30, 40)
    assert pool.take_peak() == 30
    of_polars = type("RmmResourceAdaptor", (), {"__module__": "rapidsmpf.rmm_resource_adaptor"})
    current.return_value = of_polars()  # which allocates from the other
    counters.allocate(70)
    assert (pool.used(), pool.take_peak()) == (100, 100)
    rmm.statistics.enable_statistics.assert_called_once()
    current.return_value = counters
    assert (pool.used(), pool.take_peak()) == (100, 100)


IMPORTING = """
import os, sys, threading
from jupyter_gpudask.worker.task_pickler import import_named_collections
named = ["dask.array.core", "dask.array", "dask.dataframe.core", "dask.bag.core", "dask.array.random", "dask.dataframe"]
together, errors = threading.Barrier(len(named)), []
def unpickle(name):
    together.wait()
    try:
        import_named_collections(name.encode())
        __import__(name)
    except BaseException as error:
        errors.append(repr(error))
threads = [threading.Thread(target=unpickle, args=[name], daemon=True) for name in named]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
print(errors, [thread.is_alive() for thread in threads].count(True), flush=True)
os._exit(0)
"""


def test_each_part_of_dask_is_imported_by_one_thread(run_python):
    assert run_python(IMPORTING).strip() == "[] 0"


class SlowMetric:
    """A metric that is not read at once, as Dask's of RMM.

    Attributes
    ----------
    reading
        How many heartbeats wait for it.
    """

    def __init__(self):
        self.reading = 0
        self._waiting = asyncio.Event()
        self._ready = asyncio.Event()

    async def __call__(self, worker):
        self.reading += 1
        self._waiting.set()
        await self._ready.wait()
        self.reading -= 1

    async def is_being_read(self):
        await asyncio.wait_for(self._waiting.wait(), 60)
        self._waiting.clear()

    def answer(self):
        self._ready.set()
        self._ready = asyncio.Event()


async def change_plugins_in_heartbeats():
    """What the scheduler knows of a worker's metrics before, with and after the plugin."""
    found = []
    async with (
        Scheduler(port=0, dashboard=False, dashboard_address="127.0.0.1:0", protocol="inproc") as scheduler,
        Worker(scheduler.address, nthreads=1) as worker,
    ):
        worker.periodic_callbacks["heartbeat"].stop()  # this function sends those
        # Only now, because the worker registers with its metrics, and not the first, so that others follow it.
        slow = SlowMetric()
        worker.metrics = {"slow": slow, "last": lambda _: 1}

        async def heartbeat(*changes):
            beat = asyncio.create_task(worker.heartbeat())
            await slow.is_being_read()
            for change in changes:
                await asyncio.wait_for(change(), 60)
                assert slow.reading == 1, "two heartbeats at a time share their counts, which Dask asserts against"
            slow.answer()
            await beat
            assert worker.status == Status.running
            found.append({DEVICE, METRICS} & set(scheduler.workers[worker.address].metrics))

        async def add():
            assert (await worker.plugin_add(plugin=JoinedMetricsPlugin(), name=JoinedMetricsPlugin.name))[
                "status"
            ] == "OK"

        async def remove():
            assert (await worker.plugin_remove(JoinedMetricsPlugin.name))["status"] == "OK"

        await heartbeat(add)
        await heartbeat()
        await heartbeat(remove)
        await heartbeat(add, remove)
        await heartbeat()
        assert list(worker.metrics) == ["slow", "last"]
    return found


def test_a_worker_survives_plugins_that_come_and_go_in_its_heartbeat():
    both = {DEVICE, METRICS}
    assert asyncio.run(change_plugins_in_heartbeats()) == [set(), both, both, set(), set()]


@pytest.mark.parametrize(("used", "expected"), [(49, True), (50, True), (51, False)])
def test_there_is_room_while_half_of_the_pool_is_free(monkeypatch, used, expected):
    monkeypatch.setitem(sys.modules, "rmm", SimpleNamespace())
    statistics = SimpleNamespace(used=lambda: used, adaptor=SimpleNamespace(pool_size=lambda: 100))
    monkeypatch.setattr(memory, "_statistics_of_process", lambda: statistics)
    assert memory.has_room() is expected


def test_each_gpu_has_its_part_of_the_cores_that_the_process_may_use(monkeypatch):
    for devices, on_machine, cores, gpus in (
        ("", 4, 64, 0),
        ("GPU-1", 1, 64, 1),
        ("GPU-2,GPU-1", 0, 64, 2),
        ("3", 4, 64, 4),
        ("3", 4, 16, 1),
        ("MIG-1,MIG-2", 1, 64, 2),
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", devices)
        monkeypatch.setattr(host_threads, "CPU_COUNT", cores)
        monkeypatch.setattr(host_threads.os, "cpu_count", lambda: 64)
        monkeypatch.setattr(host_threads, "count_gpus", lambda count=on_machine: count)
        assert host_threads.gpus_of_machine() == gpus


def test_threads_that_leave_the_pool_release_their_plans_and_are_used_again(monkeypatch):
    caches = {}
    cupy = SimpleNamespace(
        config=SimpleNamespace(get_plan_cache=lambda: caches.setdefault(threading.get_ident(), Plans()))
    )
    monkeypatch.setitem(sys.modules, "cupy.fft", cupy)
    executor = ThreadPoolExecutor(1)
    host_threads.KeepingThreadPoolExecutor.take_over(executor)
    places = []

    def part(others):
        cupy.config.get_plan_cache()["plan"] = 1
        secede()
        others.wait(60)
        rejoin()
        places.append(len(executor._threads))

    for _ in range(20):
        events = [threading.Event() for _ in range(3)]
        running = [executor.submit(part, event) for event in events]
        for event in events:
            event.set()
        for each in running:
            each.result(60)
    assert set(places) == {1}
    assert len(caches) <= 5
    wait_until(lambda: len(executor._kept) == len(caches) - 1)
    assert sum(map(len, caches.values())) <= 1
    executor.shutdown()
    wait_until(lambda: not {thread.ident for thread in threading.enumerate()} & caches.keys())


class Plans(dict):
    """As CuPy's cache, it iterates over pairs."""

    def __iter__(self):
        return iter(self.items())


@pytest.mark.parametrize("size", ["50MB", "10MB"])
def test_a_worker_asks_for_a_gigabyte_at_once_unless_the_user_has_chosen_another_size(size):
    state = SimpleNamespace(transfer_message_bytes_limit=1)
    with dask.config.set({"distributed.worker.transfer.message-bytes-limit": size}):
        receive_more_at_once(state)
    assert state.transfer_message_bytes_limit == (2**30 if size == "50MB" else 1)
