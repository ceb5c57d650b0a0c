"""Graphs on a cluster with GPUs: a worker materializes them, and the scheduler unpickles nothing of the user's."""

import os
import tabnanny
import threading

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask._expr import Expr, LLGExpr
from dask._task_spec import DataNode, Dict, List, Task, TaskRef, Tuple
from distributed import Event, get_client, wait
from distributed.protocol.pickle import dumps, loads
from distributed.protocol.serialize import deserialize, serialize, to_serialize
from helpers import client_of, wait_until

from jupyter_gpudask.worker.graphs import PickledExpression, make_opaque, materialize

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def client():
    """Of a cluster with two GPUs that only NVML pretends to have."""
    with client_of({"gpus": 2}) as client:
        yield client


class Witness:
    """Remembers every process that unpickled it."""

    def __init__(self, pids=()):
        self.pids = list(pids)

    def __reduce__(self):
        return _revive, (self.pids,)


def _revive(pids):
    return Witness([*pids, os.getpid()])


class OnUnpickling:
    """Calls a function where it is unpickled."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def _die_once(path):
    if not path.exists():
        path.touch()
        os._exit(1)


def _fail_in_tasks():
    if threading.current_thread().name.count("Default-Threads"):
        raise OSError("cannot be read here")
    return OnUnpickling(_fail_in_tasks)


def test_only_workers_unpickle_what_is_in_a_graph(client):
    witness = Witness()
    scheduler = client.run_on_scheduler(os.getpid)
    workers = set(client.run(os.getpid).values())
    for pids in (
        client.submit(lambda witness: witness.pids, witness).result(),
        client.submit(lambda: witness.pids).result(),
        dask.delayed(lambda witness: witness.pids)(witness).compute(),
    ):
        assert scheduler not in pids
        assert pids[-1] in workers
    x = da.ones(4, chunks=2).map_blocks(lambda block, seen: block * (scheduler in seen.pids), witness, dtype=float)
    assert x.sum().compute() == 0


def test_the_supervisor_imports_no_module_that_a_graph_names(client):
    assert client.submit(tabnanny.format_witnesses, []).result() == "at tab size "
    assert client.get({"data": DataNode("data", [tabnanny.check])}, "data") == [tabnanny.check]
    assert client.gather(client.map(tabnanny.format_witnesses, [[]], pure=False)) == ["at tab size "]
    frame = dd.from_pandas(pd.DataFrame({"a": [1, 2]}), npartitions=2)
    assert frame.a.sum().compute() == 3
    names = ["tabnanny", "dask.dataframe", "dask.array"]  # Dask imports pandas itself where workers are forked
    assert client.run_on_scheduler(eval, f"[name for name in {names} if name in __import__('sys').modules]") == []


@pytest.mark.usefixtures("client")
def test_the_kernel_does_not_materialize_graphs(monkeypatch):
    x = (da.ones((40, 40), chunks=10) + 1).sum()
    frame = dd.from_pandas(pd.DataFrame({"a": range(10), "b": 1}), npartitions=3).groupby("b").a.sum()
    kernel = os.getpid()

    def refuse(*_):
        assert os.getpid() != kernel

    for materializing in ("__dask_graph__", "_layer"):
        for kind in (Expr, type(x.__dask_graph__())):
            monkeypatch.setattr(kind, materializing, refuse, raising=False)
    assert x.compute() == 3200
    assert frame.compute().tolist() == [45]


def test_an_opaque_graph_keeps_keys_and_dependencies_and_computes_the_same():
    secret = Witness([1])
    graph = {
        "data": DataNode("data", secret),
        "call": Task(
            "call", lambda seen, *, more: (len(seen.pids), more), secret, more=List(TaskRef("number"), secret)
        ),
        "dict": Task("dict", sorted, Dict({"b": TaskRef("number"), "a": 1})),
        "number": Task("number", abs, -3),
    }
    graph["fused"] = Task.fuse(Task("inner", lambda: 1), Task("fused", lambda x, y: x + y, TaskRef("inner"), 2))
    graph["lists"] = Task("lists", tuple, List([1, 2], Tuple((3,), TaskRef("number"))), _data_producer=True)
    opaque = loads(dumps(make_opaque(graph)))
    assert {key: node.dependencies for key, node in opaque.items()} == {k: n.dependencies for k, n in graph.items()}
    assert {key: node.data_producer for key, node in opaque.items()} == {k: n.data_producer for k, n in graph.items()}
    assert len(opaque["data"]().pids) == 2
    count, (number, again) = opaque["call"]({"number": 3})
    assert (count, number, len(again.pids)) == (2, 3, 2)
    assert opaque["number"]() == 3
    assert opaque["lists"]({"number": 3}) == ([1, 2], ((3,), 3))
    assert opaque["dict"]({"number": 3}) == ["a", "b"]
    assert opaque["fused"]() == 3


def test_what_a_worker_cannot_unpickle_is_the_error_of_the_computation(client):
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        client.submit(str, OnUnpickling(__import__, "no_such_module"), pure=False).result()
    assert client.submit(abs, -1).result() == 1


def test_what_cannot_be_unpickled_where_its_task_runs_is_an_error_of_that_task(client):
    workers = set(client.run(os.getpid).values())
    with pytest.raises(OSError, match="cannot be read here"):
        client.submit(str, OnUnpickling(_fail_in_tasks), pure=False).result()
    assert set(client.run(os.getpid).values()) == workers


def test_a_graph_whose_worker_dies_goes_to_another(client, tmp_path):
    assert client.submit(lambda _: "done", OnUnpickling(_die_once, tmp_path / "died"), pure=False).result() == "done"
    wait_until(lambda: len(client.scheduler_info()["workers"]) == 2)


def test_large_data_is_not_copied_and_goes_into_a_graph_once():
    data = np.zeros(10**6)
    shared = {number: Task(number, np.add, number, data) for number in range(25)}
    closed_over = {number: Task(number, lambda n: data + n, number) for number in range(25, 50)}
    header, frames = serialize(to_serialize(LLGExpr(shared | closed_over)))
    sent = materialize(PickledExpression(header, frames), list(range(50)))
    assert sum(memoryview(frame).nbytes for frame in sent.frames) < 2 * data.nbytes
    arrived = deserialize(sent.header, sent.frames).__dask_graph__()
    assert all(np.array_equal(arrived[number](), data + number) for number in (0, 49))


def test_a_graph_is_taken_while_all_threads_for_tasks_are_busy(client):
    go = Event()
    client.wait_until_counted(10)
    before = client.tasks_submitted
    busy = client.map(lambda _: go.wait(30), range(2), pure=False)
    x = da.ones(10, chunks=5).persist()
    client.wait_until_counted(20)
    taken = client.tasks_submitted
    go.set()
    assert taken == before + 2 + 2
    assert x.sum().compute() == 10
    assert client.gather(busy) == [True, True]


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


def test_the_scheduler_does_not_unpickle_the_graph_of_a_task_that_computes_either(client):
    def inside():
        with get_client() as inner:
            return inner.submit(lambda witness: witness.pids, Witness(), pure=False).result()

    assert client.run_on_scheduler(os.getpid) not in client.submit(inside).result()


def test_an_error_in_a_task_comes_back_as_it_was_raised(client):
    future = client.submit(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        future.result()
    frame, codes = future.traceback(), []
    while frame is not None:
        codes.append(frame.tb_frame.f_code)
        frame = frame.tb_next
    assert codes[-1].co_name == "<lambda>"
    assert not [code.co_filename for code in codes if "jupyter_gpudask" in code.co_filename]


def test_the_users_large_data_is_warned_of_as_ever(client):
    with pytest.warns(UserWarning, match="Sending large graph of size 11"):
        assert client.submit(len, b"0" * 12_000_000).result() == 12_000_000


@pytest.mark.usefixtures("client")
def test_a_task_is_tried_again_as_often_as_asked(tmp_path):
    def flaky():
        (tmp_path / "tries").open("a").write(".")
        assert len((tmp_path / "tries").read_text()) == 3

    dask.delayed(flaky)().compute(retries=2)


def test_blocks_that_are_kept_are_reduced_in_a_few_tasks_on_the_worker_that_has_them(client):
    def executed():
        return sum(client.run(lambda dask_worker: dask_worker.state.executed_count).values())

    kept = da.random.RandomState(1).random_sample((64, 64), chunks=4).persist()
    before = executed()
    total = kept.sum().compute()
    at_once = executed() - before  # while the blocks were computed
    wait(kept)
    again = executed()
    assert kept.sum().compute() == total
    assert (kept**2).sum().compute() > 0
    assert executed() - again < 2 * 40  # of 256 blocks
    assert at_once < 256 + 40
