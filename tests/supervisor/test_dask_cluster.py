"""What a cluster does while it is up: it is scaled and emptied."""

import asyncio
import collections
import os
import time
from pathlib import Path

import pytest
from clusters import CPU, compute_a_sum, with_cluster
from distributed import Event, Queue, Variable, wait
from helpers import fake_gpu_environment, wait_until

from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.errors import GpuDaskError, ResultsLostError
from jupyter_gpudask.worker.preload import INTERVAL

pytestmark = pytest.mark.cluster


async def workers_become(cluster, count):
    async with asyncio.timeout(60):
        while len((await cluster.state()).workers) != count:
            await asyncio.sleep(0.1)


def intervals(ready):
    """The longest interval of each kind of stream, once a graph was submitted."""

    def of_scheduler(dask_scheduler):
        comms = (dask_scheduler.stream_comms, dask_scheduler.client_comms)
        return [max(stream.interval for stream in streams.values()) for streams in comms]

    def of_worker(dask_worker):
        return dask_worker.batched_stream.interval

    client = connect(ready, set_as_default=False)
    try:
        assert client.submit(abs, -1).result() == 1
        assert len(client.run(of_worker)) == 2
        return [client.scheduler_comm.interval, *client.run_on_scheduler(of_scheduler), *client.run(of_worker).values()]
    finally:
        client.close(1)


def test_a_cluster_is_scaled_up_and_down_and_all_its_streams_send_soon():
    async def use(cluster):
        await cluster.scale(2)
        await workers_become(cluster, 2)
        assert await asyncio.to_thread(intervals, cluster.ready) == [INTERVAL] * 5
        await cluster.scale(1)
        await workers_become(cluster, 1)
        with pytest.raises(GpuDaskError, match="limits the workers of a cluster to 3"):
            await cluster.scale(4)

    with_cluster(use, max_workers=3)


def test_a_cluster_on_gpus_is_scaled_within_those_that_it_holds_and_reports_which_have_a_worker():
    async def use(cluster):
        held = tuple(gpu.uuid for gpu in cluster.ready.gpus)
        before = await cluster.state()
        assert (before.gpus, before.workers_wanted) == (held, 2)
        scaled = await cluster.scale(1)
        assert (scaled.gpus, scaled.workers_wanted) == (held[:1], 1)
        await workers_become(cluster, 1)
        with pytest.raises(GpuDaskError, match="3 workers need 3 GPUs, and this cluster holds 2"):
            await cluster.scale(3)
        await cluster.scale(2)
        await workers_become(cluster, 2)

    with_cluster(use, {}, environment=fake_gpu_environment())


@pytest.mark.parametrize("gpus", [False, True])
def test_results_of_workers_that_are_closed_by_scale_are_moved_and_not_computed_again(tmp_path, gpus):
    def note(number):
        (tmp_path / f"{number}-{time.monotonic_ns()}").touch()
        return number

    async def use(cluster):
        client = await asyncio.to_thread(connect, cluster.ready)
        try:
            await workers_become(cluster, 2)
            addresses = list(await asyncio.to_thread(lambda: client.scheduler_info()["workers"]))
            futures = [client.submit(note, n, workers=addresses[n % 2], allow_other_workers=True) for n in range(10)]
            scattered = await asyncio.to_thread(
                lambda: [client.scatter([address], workers=[address], hash=False)[0] for address in addresses]
            )
            await asyncio.to_thread(wait, futures)
            await cluster.scale(1)
            await workers_become(cluster, 1)
            assert await asyncio.to_thread(client.gather, futures) == list(range(10))
            assert await asyncio.to_thread(client.gather, scattered) == addresses
            assert len(list(tmp_path.iterdir())) == 10
        finally:
            await asyncio.to_thread(client.close, 1)

    if gpus:
        with_cluster(use, {}, environment=fake_gpu_environment())
    else:
        with_cluster(use, {"engine": "cpu", "workers": 2, "threads": 1})


def test_a_worker_with_an_actor_stays_and_scale_says_so_and_idle_workers_are_closed_instead_of_busy_ones(tmp_path):
    async def use(cluster):
        client = await asyncio.to_thread(connect, cluster.ready)
        try:
            await workers_become(cluster, 2)
            first, last = await asyncio.to_thread(lambda: list(client.scheduler_info()["workers"]))
            future = client.submit(collections.Counter, "abc", actor=True, workers=[first])
            actor = await asyncio.to_thread(future.result)
            other = client.submit(collections.Counter, "abc", actor=True, workers=[last])
            await asyncio.to_thread(other.result)
            with pytest.raises(GpuDaskError, match=r"not closed: 1\. Their results or actors cannot be moved"):
                await cluster.scale(1)
            assert [len((await cluster.state()).workers), (await cluster.state()).workers_wanted] == [2, 2]
            assert await asyncio.to_thread(lambda: actor.total().result()) == 3
            del other
            busy = client.submit(wait_for_file, 7, path=str(tmp_path / "file"), workers=[first], pure=False)
            await asyncio.to_thread(lambda: wait_until(lambda: is_processing(client, busy.key)))
            await workers_become(cluster, 2)
            await cluster.scale(1)
            await workers_become(cluster, 1)
            (tmp_path / "file").touch()
            assert await asyncio.to_thread(busy.result) == 7
            assert await asyncio.to_thread(lambda: actor.total().result()) == 3
            assert list(await asyncio.to_thread(client.has_what)) == [first]
        finally:
            await asyncio.to_thread(client.close, 1)

    with_cluster(use, {"engine": "cpu", "workers": 2, "threads": 1})


def is_processing(client, key):
    return any(key in map(str, keys) for keys in client.processing().values())


def wait_for_file(number, path):
    while not Path(path).exists():
        time.sleep(0.05)
    return number


@pytest.mark.parametrize("gpus", [pytest.param(False, marks=pytest.mark.slow), True])
def test_an_adaptive_cluster_starts_workers_for_work_closes_idle_ones_and_keeps_results(tmp_path, gpus):
    async def use(cluster):
        client = await asyncio.to_thread(connect, cluster.ready)
        try:
            with pytest.raises(GpuDaskError, match="3"):
                await cluster.adapt(1, 3)
            assert (await cluster.state()).adaptive_range == (1, 2)
            await workers_become(cluster, 1)
            # Dask expects each to take half a second, and starts workers if all would take more than five.
            futures = client.map(wait_for_file, range(100), path=str(tmp_path / "file"), pure=False)
            await workers_become(cluster, 2)
            (tmp_path / "file").touch()
            await workers_become(cluster, 1)
            assert await asyncio.to_thread(client.gather, futures) == list(range(100))
            assert (await cluster.scale(2)).adaptive_range is None
            await workers_become(cluster, 2)
            assert (await cluster.adapt(2, 2)).adaptive_range == (2, 2)
        finally:
            await asyncio.to_thread(client.close)

    start = {"environment": fake_gpu_environment()} if gpus else {"max_workers": 2}
    with_cluster(use, {"adapt": "1,2"} | ({} if gpus else CPU | {"workers": 2, "threads": 1}), **start)


@pytest.mark.parametrize(
    ("options", "start", "sentence"),
    [
        ({"adapt": "1,3"}, {"environment": fake_gpu_environment()}, "3 workers need 3 GPUs, and this cluster holds 2"),
        (CPU | {"adapt": "1,3"}, {"max_workers": 2}, "limits the workers of a cluster to 2; 3 were requested"),
    ],
)
def test_an_adaptive_cluster_that_could_grow_too_large_is_not_started(options, start, sentence):
    with pytest.raises(GpuDaskError, match=sentence):
        with_cluster(None, options, **start)


class Counter:
    """An actor that holds memory."""

    def __init__(self):
        self.memory = bytearray(2**24)


def fill(ready):
    """Results, names and an actor, as a notebook leaves them."""
    client = connect(ready, set_as_default=False)
    published, named, queued = (client.submit(bytearray, 2**24, pure=False) for _ in range(3))
    client.publish_dataset(published, name="dataset")
    Variable("variable", client=client).set(named)
    Queue("queue", client=client).put(queued)
    actor = client.submit(Counter, actor=True)
    actor.result()
    assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 4
    return client


def look(ready):
    """What the scheduler and the worker still hold, by name."""

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

    with connect(ready, set_as_default=False) as client:
        return client.run_on_scheduler(scheduler), next(iter(client.run(worker).values()))


def test_what_clients_hold_is_reported_and_an_emptied_cluster_keeps_its_workers_and_nothing_else():
    async def use(cluster):
        before = (await cluster.state()).workers[0].pid
        assert (await cluster.state()).held == 0
        client = await asyncio.to_thread(fill, cluster.ready)
        assert 3 * 2**24 <= (await cluster.state()).held < 5 * 2**24
        assert (await cluster.reset()).held == 0
        held, (pid, results, actors) = await asyncio.to_thread(look, cluster.ready)
        total = await asyncio.to_thread(compute_a_sum, cluster.ready)
        await asyncio.to_thread(client.close, 1)
        return before, held, (pid, results, actors), total

    before, held, worker, total = with_cluster(use)
    assert held == (0, [], [], [])
    assert worker == (before, 0, 0)
    assert total == 5050


def test_released_results_are_lost_can_be_computed_again_and_unfinished_tasks_go_on():
    def use_results(ready, events):
        with connect(ready, set_as_default=False) as client:
            first = client.submit(bytes, 2**20, key="first")
            gate = Event("gate", client=client)
            waiting = client.submit(lambda data, gate: gate.wait("60s") and len(data), first, gate)
            client.submit(len, first).result()
            wait_until(lambda: client.processing() and any(client.processing().values()))
            events.append("filled")
            wait_until(first.cancelled)
            with pytest.raises(ResultsLostError, match="results that are no longer on the workers"):
                first.result()
            again = client.submit(bytes, 2**20, key="first")
            assert len(again.result()) == 2**20
            gate.set()
            assert waiting.result() == 2**20

    async def use(cluster):
        events = []
        using = asyncio.create_task(asyncio.to_thread(use_results, cluster.ready, events))
        while not events and not using.done():
            await asyncio.sleep(0.05)
        if using.done():
            await using
        state = await cluster.state()
        assert state.held >= 2**20
        assert state.workers[0].held == state.held
        assert (await cluster.release()).held == 0
        await using

    with_cluster(use, CPU | {"threads": 2})


def test_a_reset_stops_tasks_that_still_run():
    def forever():
        import time

        while True:
            time.sleep(0.01)

    async def use(cluster):
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        client.submit(forever)
        await asyncio.sleep(1)
        await cluster.reset()
        total = await asyncio.wait_for(asyncio.to_thread(compute_a_sum, cluster.ready), 30)
        await asyncio.to_thread(client.close, 1)
        return total

    assert with_cluster(use, CPU | {"threads": 1}) == 5050


ON_ONE_CORE = """
import asyncio, os
from jupyter_gpudask.launcher.cluster_process import ClusterProcess
from jupyter_gpudask.protocol import ClusterSpec

async def run():
    cluster = await ClusterProcess.start(ClusterSpec.parse({"engine": "cpu"}))
    try:
        print([worker.threads for worker in (await cluster.state()).workers])
    finally:
        await cluster.close()

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
asyncio.run(run())
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="all processes may use one core only")
def test_the_stand_in_has_as_many_threads_as_cores_that_its_process_may_use(run_python):
    assert run_python(ON_ONE_CORE) == "[1]\n"
