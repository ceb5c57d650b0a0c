"""What a cluster does while it is up: it is scaled and emptied."""

import collections
import os
import time
from pathlib import Path

import pytest
from distributed import Event, Queue, Variable
from helpers import RunningCluster, fake_gpu_environment, wait_until

from jupyter_gpudask.errors import GpuDaskError, ResultsLostError
from jupyter_gpudask.worker.preload import INTERVAL

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def on_cpu():
    options = {"engine": "cpu", "workers": 2, "threads": 1}
    with RunningCluster(options, max_workers=3, set_as_default=True) as cluster:  # actors need a default client
        yield cluster


@pytest.fixture(scope="module")
def on_gpus():
    with RunningCluster({"adapt": "1,2"}, environment=fake_gpu_environment()) as cluster:
        assert cluster.state().adaptive_range == (1, 2)
        yield cluster


def emptied(cluster):
    """The cluster with two workers and nothing else."""
    cluster.run(cluster.process.scale(2))
    wait_until(lambda: [bool(worker.pid) for worker in cluster.state().workers] == [True, True], 60)
    cluster.run(cluster.process.reset())
    return cluster


@pytest.fixture
def cpu(on_cpu):
    return emptied(on_cpu)


@pytest.fixture
def gpus(on_gpus):
    return emptied(on_gpus)


def intervals(client):
    """The longest interval of each kind of stream, once a graph was submitted."""

    def of_scheduler(dask_scheduler):
        comms = (dask_scheduler.stream_comms, dask_scheduler.client_comms)
        return [max(stream.interval for stream in streams.values()) for streams in comms]

    def of_worker(dask_worker):
        return dask_worker.batched_stream.interval

    assert client.submit(abs, -1).result() == 1
    return [client.scheduler_comm.interval, *client.run_on_scheduler(of_scheduler), *client.run(of_worker).values()]


def test_a_cluster_is_scaled_up_and_down_and_all_its_streams_send_soon(cpu):
    cpu.run(cpu.process.scale(3))
    cpu.wait_for_workers(3)
    assert intervals(cpu.client) == [INTERVAL] * 6
    cpu.run(cpu.process.scale(1))
    cpu.wait_for_workers(1)
    with pytest.raises(GpuDaskError, match="limits the workers of a cluster to 3"):
        cpu.run(cpu.process.scale(4))
    cpu.run(cpu.process.scale(2))  # at once: the new worker may get the name of one that has just left
    cpu.wait_for_workers(2)


def test_workers_record_less_than_by_dasks_defaults(cpu):
    def records(dask_worker):
        return dask_worker.periodic_callbacks["profile"].callback_time, dask_worker.state.log.maxlen

    assert set(cpu.client.run(records).values()) == {(100, 100)}


def test_a_cluster_on_gpus_is_scaled_within_those_that_it_holds_and_reports_which_have_a_worker(gpus):
    held = tuple(gpu.uuid for gpu in gpus.process.ready.gpus)
    before = gpus.state()
    assert (before.gpus, before.workers_wanted) == (held, 2)
    scaled = gpus.run(gpus.process.scale(1))
    assert (scaled.gpus, scaled.workers_wanted) == (held[:1], 1)
    gpus.wait_for_workers(1)
    with pytest.raises(GpuDaskError, match="3 workers need 3 GPUs, and this cluster has 2"):
        gpus.run(gpus.process.scale(3))


def test_results_of_workers_that_are_closed_by_scale_are_moved_and_not_computed_again(tmp_path, gpus):
    client = gpus.client

    def note(number):
        (tmp_path / f"{number}-{time.monotonic_ns()}").touch()
        return number

    addresses = list(client.scheduler_info()["workers"])
    futures = [client.submit(note, n, workers=addresses[n % 2], allow_other_workers=True) for n in range(10)]
    scattered = [client.scatter([address], workers=[address], hash=False)[0] for address in addresses]
    wait_until(lambda: all(future.done() for future in futures))
    gpus.run(gpus.process.scale(1))
    gpus.wait_for_workers(1)
    assert client.gather(futures) == list(range(10))
    assert client.gather(scattered) == addresses
    assert len(list(tmp_path.iterdir())) == 10


def test_a_worker_with_an_actor_stays_and_scale_says_so_and_idle_workers_are_closed_instead_of_busy_ones(cpu, tmp_path):
    client = cpu.client
    first, last = client.scheduler_info()["workers"]
    kept = client.submit(collections.Counter, "abc", actor=True, workers=[first])
    actor = kept.result()
    other = client.submit(collections.Counter, "abc", actor=True, workers=[last])
    other.result()
    with pytest.raises(GpuDaskError, match=r"not closed: 1\. Their results or actors cannot be moved"):
        cpu.run(cpu.process.scale(1))
    assert [len(cpu.state().workers), cpu.state().workers_wanted] == [2, 2]
    assert actor.total().result() == 3
    del other
    busy = client.submit(wait_for_file, 7, path=str(tmp_path / "file"), workers=[first], pure=False)
    wait_until(lambda: any(busy.key in map(str, keys) for keys in client.processing().values()))
    cpu.wait_for_workers(2)
    cpu.run(cpu.process.scale(1))
    cpu.wait_for_workers(1)
    (tmp_path / "file").touch()
    assert busy.result() == 7
    assert actor.total().result() == 3
    assert list(client.has_what()) == [first]
    assert kept.status == "finished"


def wait_for_file(number, path):
    while not Path(path).exists():
        time.sleep(0.05)
    return number


def test_an_adaptive_cluster_starts_workers_for_work_closes_idle_ones_and_keeps_results(gpus, tmp_path):
    with pytest.raises(GpuDaskError, match="3"):
        gpus.run(gpus.process.adapt(1, 3))
    assert gpus.run(gpus.process.adapt(1, 2)).adaptive_range == (1, 2)
    gpus.wait_for_workers(1)
    # Dask expects each to take half a second, and starts workers if all would take more than five.
    futures = gpus.client.map(wait_for_file, range(100), path=str(tmp_path / "file"), pure=False)
    gpus.wait_for_workers(2)
    (tmp_path / "file").touch()
    gpus.wait_for_workers(1)
    assert gpus.client.gather(futures) == list(range(100))
    assert gpus.run(gpus.process.scale(2)).adaptive_range is None


class Counter:
    """An actor that holds memory."""

    def __init__(self):
        self.memory = bytearray(2**24)


def fill(client):
    """Results, names and an actor, as a notebook leaves them."""
    published, named, queued = (client.submit(bytearray, 2**24, pure=False) for _ in range(3))
    client.publish_dataset(published, name="dataset")
    Variable("variable", client=client).set(named)
    Queue("queue", client=client).put(queued)
    actor = client.submit(Counter, actor=True)
    actor.result()
    assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 4
    return actor


def look(client):
    """What the scheduler and the workers still hold, by name."""

    def scheduler(dask_scheduler):
        extensions = dask_scheduler.extensions
        return (
            len(dask_scheduler.tasks),
            list(extensions["publish"].datasets),
            list(extensions["variables"].variables),
            list(extensions["queues"].queues),
        )

    def worker(dask_worker):
        return os.getpid(), len(dask_worker.data), len(dask_worker.state.actors)

    return client.run_on_scheduler(scheduler), set(client.run(worker).values())


def test_what_clients_hold_is_reported_and_an_emptied_cluster_keeps_its_workers_and_nothing_else(cpu):
    before = {(worker.pid, 0, 0) for worker in cpu.state().workers}
    assert cpu.state().result_bytes == 0
    actor = fill(cpu.client)
    wait_until(lambda: 3 * 2**24 <= cpu.state().result_bytes < 5 * 2**24)
    assert cpu.run(cpu.process.reset()).result_bytes == 0
    assert look(cpu.client) == ((0, [], [], []), before)
    assert actor.status == "cancelled"
    assert cpu.client.submit(sum, range(101)).result() == 5050


def test_released_results_are_lost_can_be_computed_again_and_unfinished_tasks_go_on(cpu):
    client = cpu.client
    first = client.submit(bytes, 2**20, key="first")
    assert client.submit(len, first).result() == 2**20
    gate = Event("gate", client=client)
    waiting = client.submit(lambda data, gate: gate.wait("60s") and len(data), first, gate)
    wait_until(lambda: any(client.processing().values()))
    state = cpu.state()
    assert state.result_bytes >= 2**20
    assert max(worker.result_bytes for worker in state.workers) == state.result_bytes
    assert cpu.run(cpu.process.release()).result_bytes == 0
    wait_until(first.cancelled)
    with pytest.raises(ResultsLostError, match="results that are no longer on the workers"):
        first.result()
    again = client.submit(bytes, 2**20, key="first")
    assert len(again.result()) == 2**20
    gate.set()
    assert waiting.result() == 2**20
