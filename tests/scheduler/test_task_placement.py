"""Tasks that have been placed begin on their worker, and no worker computes more of them than it needs next."""

import time
from collections import Counter
from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from distributed import Client, LocalCluster, wait
from distributed.collections import HeapSet
from helpers import wait_until

from jupyter_gpudask.graph import subtrees
from jupyter_gpudask.graph.optimize import ArrayOptimizer, WithOptimizer
from jupyter_gpudask.graph.subtrees import ClusterSize
from jupyter_gpudask.graph.workers import WORKER
from jupyter_gpudask.scheduler import placement

SETTINGS = {
    "distributed.scheduler.validate": True,
    "distributed.scheduler.work-stealing": False,
    # as for large blocks, whose transfers take longer than tasks
    "distributed.scheduler.bandwidth": "1 MB",
    "distributed.scheduler.unknown-task-duration": "1 us",
}


@pytest.fixture
def client():
    with (
        dask.config.set(SETTINGS),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.sync(on_loop, placement.install, cluster.scheduler)
        yield client


async def on_loop(function, scheduler):
    function(scheduler)


def slow(number):
    time.sleep(0.01)
    return np.full(1000, number)


def submit(client, count=40, **annotations):
    """Futures of tasks; the first half is of the first worker, if not annotated otherwise."""
    layers = {}
    for n in range(count):
        annotated = {WORKER: (int(n >= count // 2), 2, False)} | annotations
        tasks = {("slow", n): (slow, n)}
        layers[f"layer-{n}"] = MaterializedLayer(tasks, annotations=annotated)
    graph = HighLevelGraph(layers, {name: set() for name in layers})
    return client.get(graph, [("slow", n) for n in range(count)], sync=False)


def where(client, futures):
    """The position of the worker of each future."""
    workers = sorted(client.scheduler_info()["workers"])
    has = client.who_has(futures)
    return [workers.index(has[future.key][0]) for future in futures]


def test_each_worker_computes_its_own_tasks(client):
    futures = submit(client)
    assert [int(result[0]) for result in client.gather(futures)] == list(range(40))
    places = where(client, futures)
    # at the end, a worker that has none left takes one of the other's
    assert sum(place == (n >= 20) for n, place in enumerate(places)) >= 36


def test_tasks_wait_in_the_queue(client):
    futures = submit(client)
    scheduler = client.cluster.scheduler
    processing = [len(worker.processing) for worker in scheduler.workers.values()]
    client.gather(futures)
    assert max(processing) <= 2


def test_a_worker_without_tasks_of_its_own_takes_others(client):
    futures = submit(client, **{WORKER: (0, 2, False)})
    client.gather(futures)
    assert Counter(where(client, futures))[1] >= 10


def test_what_the_user_asks_for_comes_first(client):
    address = sorted(client.scheduler_info()["workers"])[1]
    futures = submit(client, workers=[address])
    client.gather(futures)
    assert where(client, futures) == [1] * 40


class OptimizingClient(Client):
    """As that of a kernel."""

    def _graph_to_futures(self, expr, *args, **kwargs):
        optimizer = ArrayOptimizer(ClusterSize(2, 2, 10**9), is_on_gpus=True)
        return super()._graph_to_futures(WithOptimizer(expr, optimizer), *args, **kwargs)


@pytest.fixture
def cuts_small(monkeypatch):
    """Small graphs are cut by workers, too."""
    monkeypatch.setattr(subtrees, "SMALL", 0)


@pytest.mark.usefixtures("cuts_small")
def test_arrays_are_the_same_and_only_what_must_moves(client):
    x = da.random.RandomState(1).random_sample((800, 800), chunks=100)
    array = x.map_overlap(twice, depth=1).std(axis=1)
    expected = array.compute(scheduler="sync")
    moved = []
    with OptimizingClient(client.cluster, set_as_default=False) as optimizing:
        for each in (client, optimizing):
            client.run(received)
            np.testing.assert_array_equal(array.compute(scheduler=each), expected)
            moved.append(sum(client.run(received).values()))
    assert moved[1] < 0.75 * moved[0]


@pytest.mark.usefixtures("cuts_small")
@pytest.mark.parametrize("wanted", ["rows of columns", "rows from everywhere"])
def test_each_worker_gets_one_piece_of_a_block_of_another_one(client, wanted):
    columns = da.fft.fft(da.random.RandomState(1).random_sample((200, 200), chunks=(200, 10)), axis=0)
    if wanted == "rows of columns":
        array = columns.rechunk((10, 200), threshold=100, method="tasks")
    else:
        array = da.concatenate([columns[:, n::7] for n in range(7)], axis=1)
    expected = array.compute(scheduler="sync")
    with OptimizingClient(client.cluster, set_as_default=False) as optimizing:
        client.run(received)
        np.testing.assert_array_equal(array.compute(scheduler=optimizing), expected)
    # half of the array for the blocks, and half for the result
    assert 0 < sum(client.run(received).values()) < 1.2 * array.nbytes


def workers_of(client, run):
    """How many workers have run tasks of `run`."""
    client.run(executed)
    run()
    return sum(count > 0 for count in client.run(executed).values())


def test_what_takes_little_else_than_messages_stays_on_one_worker(client):
    columns = da.random.RandomState(1).random_sample((200, 200), chunks=(200, 10)).map_blocks(np.cumsum, axis=0)
    rows = columns.rechunk((10, 200), threshold=100, method="tasks")
    expected = rows.compute(scheduler="sync")
    with OptimizingClient(client.cluster, set_as_default=False) as optimizing:
        run = partial(rows.compute, scheduler=optimizing)
        assert workers_of(client, lambda: np.testing.assert_array_equal(run(), expected)) == 1
        # of which nothing is sent but the sums of each worker
        assert workers_of(client, partial(columns.mean().compute, scheduler=optimizing)) == 2
        slow = rows.map_blocks(unknown)
        assert workers_of(client, partial(slow.compute, scheduler=optimizing)) == 2
        kept = columns.persist(scheduler=optimizing)
        wait(kept)
        assert len(set(map(tuple, client.who_has(kept).values()))) == 2
        total = kept.rechunk((10, 200), threshold=100, method="tasks")
        assert workers_of(client, partial(total.compute, scheduler=optimizing)) == 2


def unknown(block):
    return block


def executed(dask_worker):
    before, dask_worker.counted = getattr(dask_worker, "counted", 0), dask_worker.state.executed_count
    return dask_worker.counted - before


def twice(block):
    return block * 2


def received(dask_worker):
    log = dask_worker.transfer_incoming_log
    total = sum(entry["total"] for entry in log)
    log.clear()
    return total


def test_it_can_be_removed(client):
    scheduler = client.cluster.scheduler
    futures = submit(client)
    client.sync(on_loop, placement.remove, scheduler)
    assert type(scheduler.queued) is HeapSet
    assert placement.NAME not in scheduler.plugins
    assert len(client.gather(futures)) == 40


def test_results_are_located_when_they_are_kept_or_computed_or_begin_later(client):
    def located(keys):
        return client.run_on_scheduler(lambda dask_scheduler: placement.locate(dask_scheduler, keys, 2))

    futures = submit(client)
    keys = [future.key for future in futures]
    expected = {key: int(key[1] >= 20) for key in keys}
    wait_until(lambda: located([*keys, "unknown"]) == expected)
    later = [client.submit(np.sum, futures[n], key=f"later-{n}") for n in (0, 39)]
    both = client.submit(sum, later[:1], key="both")
    wait_until(lambda: located(["later-0", "later-39", "both"]) == {"later-0": 0, "later-39": 1, "both": 0})
    client.gather([*later, both])
    places = dict(zip(keys, where(client, futures), strict=True))
    assert located(keys) == places
