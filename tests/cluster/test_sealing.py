"""Graphs reach the workers, and the scheduler never unpickles what is in them."""

import asyncio
import os
import sys

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask._expr import LLGExpr
from distributed import get_client, wait
from distributed.protocol.pickle import dumps, loads

from jupyter_gpudask.cluster.connection import connect
from jupyter_gpudask.cluster.launcher import ClusterProcess
from jupyter_gpudask.cluster.sealing import SealedTask, seal
from jupyter_gpudask.models import ClusterSpec


@pytest.fixture(scope="module")
def client():
    loop = asyncio.new_event_loop()
    spec = ClusterSpec(engine="cpu", workers=2, threads=1, resources={"GPU": 1})
    cluster = loop.run_until_complete(ClusterProcess.start(spec, path=sys.path))
    client = connect(cluster.ready)
    yield client
    client.close()
    loop.run_until_complete(cluster.close())
    loop.close()


class Witness:
    """Remembers every process that unpickled it."""

    def __init__(self, pids=()):
        self.pids = list(pids)

    def __reduce__(self):
        return _revive, (self.pids,)


def _revive(pids):
    return Witness([*pids, os.getpid()])


def test_only_a_worker_opens_a_task(client):
    x = da.ones((4, 4), chunks=2)
    witness = Witness()
    pids = client.submit(lambda witness: (witness.pids, os.getpid()), witness).result()
    assert pids[0] == [pids[1]]
    assert client.run_on_scheduler(os.getpid) not in pids[0]
    assert x.map_blocks(lambda block, witness: block * len(witness.pids), witness, dtype=float).sum().compute() == 16


def test_a_sealed_task_shows_key_and_dependencies_and_runs_where_it_is_called():
    task = dask._task_spec.Task("key", np.add, dask._task_spec.TaskRef("other"), np.arange(1000.0))
    sealed = loads(dumps(loads(dumps(SealedTask.seal(task, {})))))
    assert isinstance(sealed, SealedTask)
    assert (sealed.key, sealed.dependencies, sealed.is_coro) == ("key", {"other"}, False)
    np.testing.assert_array_equal(sealed({"other": 1.0}), np.arange(1000.0) + 1)


def test_what_a_worker_cannot_unpickle_is_an_error_of_the_task(client):
    class Trap:
        def __reduce__(self):
            return __import__, ("no_such_module",)

    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        client.submit(str, Trap()).result()
    assert client.submit(abs, -1).result() == 1


def test_a_coroutine_function_is_awaited_by_the_worker(client):
    async def add(number):
        await asyncio.sleep(0)
        return number + 1

    assert client.submit(add, 1).result() == 2


def test_large_data_is_not_copied_and_goes_into_a_graph_once():
    data = np.zeros(10**6)
    graph = {number: dask._task_spec.Task(number, np.add, number, data) for number in range(50)}
    buffers = []
    payload = dumps(seal(LLGExpr(graph), list(graph)), buffer_callback=buffers.append)
    assert len(payload) < 50_000
    assert [buffer.raw().nbytes for buffer in buffers] == [8 * 10**6]
    arrived = loads(payload, buffers=buffers).__dask_graph__()
    assert all(np.array_equal(arrived[number](), data + number) for number in (0, 49))


def test_arrays_frames_delayed_and_futures_compute_as_ever(client):
    x = da.random.default_rng(0).normal(size=(200, 200), chunks=50)
    np.testing.assert_allclose((x @ x.T).mean(axis=0).compute(), (x @ x.T).mean(axis=0).compute(scheduler="sync"))
    frame = pd.DataFrame({"a": np.arange(1000), "b": np.arange(1000) % 7})
    ddf = dd.from_pandas(frame, npartitions=5)
    pd.testing.assert_series_equal(ddf.groupby("b").a.mean().compute().sort_index(), frame.groupby("b").a.mean())
    assert dask.delayed(sum)([dask.delayed(abs)(-number) for number in range(5)]).compute() == 10
    futures = client.map(lambda number: number**2, range(10))
    assert client.submit(sum, futures).result() == 285
    assert sum(client.gather(futures)) == 285


@pytest.mark.usefixtures("client")
def test_a_shuffle_between_workers_keeps_its_barrier_readable():
    frame = pd.DataFrame({"key": np.arange(1000) % 13, "value": 1.0})
    left = dd.from_pandas(frame, npartitions=4)
    with dask.config.set({"dataframe.shuffle.method": "p2p"}):
        assert len(left.merge(left, on="key").compute()) == len(frame.merge(frame, on="key"))


def test_persisted_blocks_scattered_data_and_actors_work(client):
    x = da.arange(100, chunks=10).persist()
    wait(x)
    assert x.sum().compute() == 4950
    remote = client.scatter(np.arange(10))
    assert client.submit(np.sum, remote).result() == 45
    actor = client.submit(dict, actor=True).result()
    actor.update({"a": 1}).result()
    assert actor.get("a").result() == 1


def test_annotations_and_resources_still_count(client):
    with dask.annotate(resources={"GPU": 1}):
        assert client.submit(lambda: 1, resources={"GPU": 1}).result() == 1
    worker = next(iter(client.scheduler_info()["workers"]))
    with dask.annotate(workers=[worker]):
        x = da.ones(100, chunks=10).persist()
    wait(x)
    assert {where for places in client.who_has(x).values() for where in places} == {worker}


def test_what_is_not_asked_for_is_not_computed(client):
    ran = client.submit(lambda: 1, key="wanted", pure=False)
    assert client.get({"a": (abs, -1), "b": (os._exit, 1)}, "a") == 1
    assert ran.result() == 1


def test_a_task_that_computes_on_the_cluster_sends_its_graph_sealed_too(client):
    def inside():
        with get_client() as inner:
            pids = inner.submit(lambda witness: witness.pids, Witness(), pure=False).result()
            return pids, inner._graph_to_futures.sealed

    pids, sealed = client.submit(inside).result()
    assert sealed
    assert client.run_on_scheduler(os.getpid) not in pids


def test_an_error_in_a_task_comes_back_as_it_was_raised(client):
    with pytest.raises(ZeroDivisionError):
        client.submit(lambda: 1 / 0).result()


def test_an_error_can_be_recreated_here(client):
    future = client.submit(lambda: 1 / 0, pure=False)
    wait(future)
    with pytest.raises(ZeroDivisionError):
        client.recreate_error_locally(future)


@pytest.mark.usefixtures("client")
def test_many_small_tasks_are_no_large_graph():
    x = da.ones(20_000, chunks=10)
    assert (x + 1).sum().compute() == 40_000
