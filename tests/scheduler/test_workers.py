"""Workers that end, hosts that are lost, and tasks that run out of device memory."""

from types import SimpleNamespace

import pytest
from distributed.metrics import time
from helpers import RunningCluster

from jupyter_gpudask.device_errors import is_out_of_device_memory
from jupyter_gpudask.scheduler.workers import LostHostsPlugin, WorkerFailuresPlugin
from jupyter_gpudask.worker.plugins import EXIT_TOPIC

pytestmark = pytest.mark.cluster


class OutOfMemoryError(MemoryError):
    """Of that name and kind are CuPy's and PyTorch's; it says which processes have unpickled it."""

    def __init__(self, message, log):
        super().__init__(message)
        self.log = log

    def __reduce__(self):
        return _revive, (str(self), self.log)


def _revive(message, log):
    import os
    from pathlib import Path

    with Path(log).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return OutOfMemoryError(message, log)


def allocate(log):
    raise OutOfMemoryError("Out of memory allocating 1,024 bytes (allocated so far: 0 bytes).", log)


def fail(_):
    raise MemoryError("Unable to allocate 1. TiB for an array with shape (137438953472,) and data type float64")


@pytest.mark.parametrize(
    ("error", "is_told"),
    [
        ("OutOfMemoryError('Out of memory allocating 8,589,934,592 bytes (allocated so far: 0 bytes).')", True),
        ("MemoryError('std::bad_alloc: out_of_memory: CUDA error at: /rmm/cuda_memory_resource.hpp: 2')", True),
        ("MemoryError('std::bad_alloc: out_of_memory: RMM failure at: Maximum pool size exceeded')", True),
        ("CUDARuntimeError('cudaErrorMemoryAllocation: out of memory')", True),
        ("CUDADriverError('CUDA_ERROR_OUT_OF_MEMORY: out of memory')", True),
        ("MemoryError('std::bad_alloc')", False),
        ("_ArrayMemoryError((1099511627776,), dtype('float64'))", False),
        ("ValueError('OutOfMemoryError(')", False),
        ("MemoryError('std::bad_alloc: out_of_memory: CUDA error: cudaErrorIllegalAddress')", False),
    ],
)
def test_device_memory_that_is_used_up_is_told_apart_from_other_errors(error, is_told):
    assert is_out_of_device_memory(error) is is_told


def test_tasks_that_run_out_of_device_memory_are_counted_and_the_scheduler_opens_none_of_them(tmp_path):
    log = tmp_path / "unpickled"

    with RunningCluster({"engine": "cpu", "workers": 2, "threads": 1}) as cluster:
        client = cluster.client
        short = [client.submit(allocate, str(log), workers=1, pure=False) for _ in range(3)]
        later = client.submit(fail, short[0])  # fails with the one that it needs
        other = client.submit(fail, 0, workers=0)
        again = client.submit(allocate, str(log), workers=0, retries=2, pure=False)
        errors = [type(future.exception()) for future in (*short, later, other, again)]
        assert errors == [OutOfMemoryError] * 4 + [MemoryError, OutOfMemoryError]
        assert {worker.name: worker.out_of_memory for worker in cluster.state().workers} == {"0": 1, "1": 3}
    assert str(cluster.process.ready.pid) not in log.read_text().split()


LOST = "handle-worker-cleanup-1.5"


def worker(host, name, silent=0):
    return SimpleNamespace(address=f"tcp://{host}:{hash(name)}", host=host, name=name, last_seen=time() - silent)


def watch(*workers):
    scheduler = SimpleNamespace(address="tcp://10.0.0.1:8786", workers={each.address: each for each in workers})
    plugin = LostHostsPlugin()
    plugin.watch_hosts(scheduler)
    return plugin, scheduler


def remove(plugin, scheduler, worker, stimulus_id=LOST):
    del scheduler.workers[worker.address]
    plugin.remove_worker(scheduler, worker.address, stimulus_id=stimulus_id)


def test_a_host_is_lost_when_the_connections_to_all_its_silent_workers_have_ended():
    first, second = worker("10.0.0.2", "a", silent=30), worker("10.0.0.2", "b", silent=30)
    plugin, scheduler = watch(first, second, worker("10.0.0.3", "c"))
    remove(plugin, scheduler, first)
    assert plugin.lost_hosts() == ()
    remove(plugin, scheduler, second)
    [lost] = plugin.lost_hosts()
    assert lost.description == "machine 10.0.0.2 does not respond; its 2 workers are lost"


@pytest.mark.parametrize(
    ("host", "silent", "stimulus_id"),
    [
        pytest.param("10.0.0.2", 0, LOST, id="ended"),
        pytest.param("10.0.0.1", 30, LOST, id="next to the scheduler"),
        pytest.param("10.0.0.2", 30, "retire-workers-1.5", id="retired"),
        pytest.param("10.0.0.2", 300, "check-worker-ttl-1.5", id="hung"),
    ],
)
def test_a_worker_that_ends_is_no_lost_host(host, silent, stimulus_id):
    gone = worker(host, "a", silent)
    plugin, scheduler = watch(gone)
    remove(plugin, scheduler, gone, stimulus_id)
    assert plugin.lost_hosts() == ()


def test_a_host_whose_worker_is_back_is_not_lost():
    gone = worker("10.0.0.2", "a", silent=30)
    plugin, scheduler = watch(gone)
    remove(plugin, scheduler, gone)
    assert [lost.workers for lost in plugin.lost_hosts()] == [("a",)]
    scheduler.workers[gone.address] = gone
    plugin.add_worker(scheduler, gone.address)
    assert plugin.lost_hosts() == ()


def test_a_scheduler_says_for_how_long_it_has_had_no_worker_once_that_is_longer_than_the_limit():
    only = worker("10.0.0.2", "a")
    plugin, scheduler = watch(only)
    assert plugin.seconds_without_workers(0) is None
    remove(plugin, scheduler, only)
    assert plugin.seconds_without_workers(60) is None
    assert 0 <= plugin.seconds_without_workers(0) < 30
    scheduler.workers[only.address] = only
    plugin.add_worker(scheduler, only.address)
    assert plugin.seconds_without_workers(0) is None


def test_a_process_that_follows_a_killed_one_keeps_its_limit_also_where_the_nanny_knows_only_the_address_before():
    follower = SimpleNamespace(address="tcp://a", name="0", host="a", pid=2, memory_limit=2**30)
    failures = WorkerFailuresPlugin(SimpleNamespace(address="tcp://b:1", workers={follower.address: follower}))
    before = {"worker": "tcp://before", "name": "0"}
    failures.log_event(EXIT_TOPIC, before | {"pid": 1, "exitcode": -9})  # after the next process has joined
    failures.log_event("worker-restart-memory", before | {"pid": 2, "rss": 2**30})
    failures.log_event(EXIT_TOPIC, before | {"pid": 2, "exitcode": -9})
    assert [each.reason for each in failures.exits] == [
        "was killed by signal 9",
        "used 1.0 GiB of host memory, and its limit is 1.0 GiB",
    ]
