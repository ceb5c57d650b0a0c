"""What a cell for GPUs computes: once, with the user's options, as Dask does; and refused if it does not fit."""

import signal
import sys
import threading
import time
from dataclasses import dataclass
from itertools import product

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from device import MARKS, cupy
from distributed import LocalCluster, SchedulerPlugin, get_worker
from helpers import wait_until

from jupyter_gpudask.client.kernel_client import KernelClient
from jupyter_gpudask.errors import ResultTooLargeError
from jupyter_gpudask.graph.workers import WORKER
from jupyter_gpudask.overlay import CellRecord, set_outside
from jupyter_gpudask.patches import computation as fitting
from jupyter_gpudask.switch.context import default_client, switched_to

pytestmark = [*MARKS, pytest.mark.cluster]


class Submissions(SchedulerPlugin):
    """The annotations of the tasks of each graph that the scheduler was sent."""

    name = "submissions"

    def __init__(self):
        self.seen = []

    def update_graph(self, scheduler, *, tasks, annotations, **_):
        self.seen.append((len(tasks), annotations))


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0", resources={"GPU": 2}
        ) as cluster,
        KernelClient(cluster) as client,
    ):
        yield client


@pytest.fixture
def submissions(client):
    plugin = Submissions()
    client.cluster.scheduler.add_plugin(plugin)
    yield plugin.seen
    client.cluster.scheduler.remove_plugin(plugin.name)


@pytest.fixture
def cell(client):
    with default_client.computing_on(client), switched_to("cupy", "pandas", CellRecord()):
        yield


@pytest.fixture
def cell_with_results_on_host(client):
    with default_client.computing_on(client), switched_to("cupy", "pandas", CellRecord(results="host")):
        yield


@pytest.fixture
def events():
    BEGUN.clear()
    DONE.clear()
    yield DONE
    DONE.set()


def wait_until_nothing_is_left_of(client):
    wait_until(lambda: not client.cluster.scheduler.tasks)


READS, FAILURES, PLACES = [], [], set()
BEGUN, DONE = threading.Event(), threading.Event()

# Blocks are computed in this process, by functions that travel by name.


def read(block):
    READS.append(1)
    return block


def fail_once(block):
    if not FAILURES:
        FAILURES.append(1)
        raise OSError("not yet")
    return block


def fail(block):
    BEGUN.wait(30)
    raise LookupError(f"no block of {len(block)}")


def slow(block):
    BEGUN.set()
    DONE.wait(30)
    return block


def interrupt(block):
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name != "wait":  # for the result
        time.sleep(0.01)
    signal.pthread_kill(main, signal.SIGINT)
    return slow(block)


def note_place(block):
    PLACES.add(get_worker().address)
    return block


def read_frame(number):
    READS.append(1)
    return pd.DataFrame({"a": range(number, number + 5), "b": 1.0, "c": 2.0})


def source():
    return da.ones(8, chunks=2).map_blocks(read, dtype=float, meta=da.ones(1)._meta)


def on_blocks(function, array):
    return array.map_blocks(function, dtype=float, meta=array._meta)


def two_arrays():
    x = source()
    return x[x > 0], (x + 1)[x > 0]


def with_a_delayed():
    x = source()
    return x[x > 0], dask.delayed(len)(x.to_delayed()[0]), x.sum()


def two_frames():
    frame = dd.from_map(read_frame, range(3), meta=pd.DataFrame({"a": [1], "b": [1.0], "c": [1.0]}))
    frame = frame[frame.a > 1]
    return frame.b + 1, frame.groupby("a").c.sum()


def reads_of(compute, make):
    READS.clear()
    dask.compute(*compute(*make()))
    return len(READS)


def test_blocks_on_gpus_that_no_metadata_names_are_returned_as_numpy_in_an_ordinary_cell(client):
    with switched_to("cupy", "pandas", CellRecord()):
        on_gpu = da.ones(4, chunks=2)
    array = da.Array(on_gpu.dask, on_gpu.name, on_gpu.chunks, dtype=float)  # as xarray.map_blocks
    outside = set_outside(CellRecord(results="host", fallback="host"))
    try:
        with default_client.computing_on(client):
            found, delayed = dask.compute(array, dask.delayed(cupy.asarray)(1.0))
    finally:
        set_outside(outside)
    assert type(found) is np.ndarray
    assert type(delayed) is cupy.ndarray, "what a delayed function returns"


@pytest.mark.filterwarnings("ignore:Computing mixed collections")
@pytest.mark.parametrize("make", [two_arrays, with_a_delayed, two_frames])
@pytest.mark.parametrize("compute", [dask.compute, dask.persist])
def test_what_collections_share_is_computed_as_often_as_outside(client, compute, make):
    with default_client.computing_on(client):
        outside = reads_of(compute, make)
        wait_until(lambda: not client.who_has())  # dataframes of pandas have the same keys in the cell
        with switched_to("cupy", "pandas", CellRecord()):
            inside = reads_of(compute, make)
    assert 0 < inside == outside


@pytest.mark.usefixtures("cell")
def test_one_graph_is_sent_with_the_options_of_the_call(client, submissions):
    address = min(client.scheduler_info()["workers"])
    options = {"retries": 3, "priority": 7, "workers": [address], "allow_other_workers": True, "resources": {"GPU": 1}}
    first, second = dask.compute(*two_arrays(), **options)
    assert [type(first), type(second)] == [cupy.ndarray] * 2
    ((_, annotations),) = submissions
    assert {name: set(map(str, values.values())) for name, values in annotations.items() if name != WORKER} == {
        name: {str(value)} for name, value in options.items()
    }


@pytest.mark.parametrize("optimize", [True, False])
def test_the_graph_is_that_which_is_sent_outside(client, submissions, optimize):
    with default_client.computing_on(client):
        dask.compute(*two_arrays(), optimize_graph=optimize)
        with switched_to("cupy", "pandas", CellRecord()):
            dask.compute(*two_arrays(), optimize_graph=optimize)
    (outside, _), (inside, _) = submissions
    assert inside == outside


@pytest.mark.usefixtures("cell", "client")
def test_a_block_that_fails_once_is_tried_again_if_that_was_asked_for():
    FAILURES.clear()
    x = da.ones(8, chunks=4)
    assert on_blocks(fail_once, x[x > 0]).compute(retries=1).sum() == 8


@pytest.mark.parametrize(
    "compute",
    [
        lambda client, *arrays: dask.compute(*arrays),
        lambda client, *arrays: dask.compute({"nested": list(arrays)}),
        lambda client, *arrays: dask.compute(*arrays, scheduler=client),
        lambda client, *arrays: client.compute(list(arrays), sync=True),
        lambda client, first, second: (first + second).compute(),
    ],
)
@pytest.mark.usefixtures("cell")
def test_what_does_not_fit_is_refused_with_its_size_and_nothing_of_it_stays(client, compute, monkeypatch):
    monkeypatch.setattr(fitting, "_free_memory", lambda: 100)
    some = da.ones(20, chunks=10)[da.ones(20, chunks=10) > 0]
    other = some + 1
    with pytest.raises(ResultTooLargeError, match=r"needs (160|320) B") as refusal:
        compute(client, some, other)
    assert refusal.value.__traceback__
    wait_until_nothing_is_left_of(client)


@pytest.mark.usefixtures("cell")
def test_what_the_user_keeps_is_refused_too_and_stays(client, monkeypatch):
    monkeypatch.setattr(fitting, "_free_memory", lambda: 100)
    kept = da.ones(20, chunks=20)[da.ones(20, chunks=20) > 0].persist()
    with pytest.raises(ResultTooLargeError, match=r"needs 160 B"):
        kept.compute()
    assert kept.sum().compute() == 20
    del kept
    wait_until_nothing_is_left_of(client)


@pytest.mark.usefixtures("cell", "client")
def test_what_is_on_the_host_does_not_count(monkeypatch):
    monkeypatch.setattr(fitting, "_free_memory", lambda: 100)
    few = da.ones(4, chunks=2)[da.ones(4, chunks=2) > 0]
    on_host = dask.delayed(np.ones)(1000)
    assert [len(result) for result in dask.compute(few, on_host)] == [4, 1000]
    assert [len(result) for result in dask.compute(few.persist(), on_host)] == [4, 1000]


@pytest.mark.usefixtures("cell")
def test_an_error_does_not_wait_for_the_rest(client, events):
    x = da.ones(4, chunks=4)
    with pytest.raises(LookupError, match="no block of 0"):
        dask.compute(on_blocks(slow, x[x > 0]), on_blocks(fail, x[x > 1]))
    assert not events.is_set()
    events.set()
    wait_until_nothing_is_left_of(client)


@pytest.mark.usefixtures("cell")
def test_an_interrupt_while_it_is_computed_leaves_nothing(client, events):
    x = da.ones(2, chunks=2)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        on_blocks(interrupt, x[x > 0]).compute()
    events.set()
    assert interrupted.value.__traceback__
    wait_until_nothing_is_left_of(client)


@pytest.mark.usefixtures("cell", "client")
def test_collections_may_come_from_an_iterator():
    x = da.ones(4, chunks=2)
    ((first, second),) = dask.compute(n * x for n in (1, 2))
    assert (float(first.sum()), float(second.sum())) == (4, 8)


@dataclass
class Pair:
    array: object
    number: int


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x, f: f,
        lambda x, f: [f, x, 2],
        lambda x, f: [[x, f]],
        lambda x, f: [{"a": [x], "b": f}],
        lambda x, f: {"a": f, "b": (x, {"sum": x.sum()})},
        lambda x, f: ({"a": x}, [x], [f]),
        lambda x, f: [[Pair(x, 2), f]],
        lambda x, f: [iter([x, f]), [iter([x])]],
        lambda x, f: [f, [x]],
        lambda x, f: [],
        lambda x, f: "text",
    ],
)
def test_a_client_computes_in_a_cell_what_it_computes_in_any(client, wrap):
    def compute(sync, traverse):
        results = client.compute(wrap(da.ones(4, chunks=2), client.submit(abs, -3)), sync=sync, traverse=traverse)
        return described(results if sync else client.gather(results))

    options = list(product([True, False], repeat=2))
    expected = [compute(*each) for each in options]
    with default_client.computing_on(client), switched_to("cupy", "pandas", CellRecord(results="host")):
        assert [compute(*each) for each in options] == expected


def described(value):
    """Its types and contents; of a Dask collection and of an iterator the type alone."""
    if isinstance(value, list | tuple):
        return type(value), [described(part) for part in value]
    if isinstance(value, dict):
        return type(value), [(described(key), described(part)) for key, part in value.items()]
    if isinstance(value, Pair):
        return type(value), described(value.array), value.number
    contents = value.tolist() if isinstance(value, np.ndarray | np.generic) else None
    return type(value), value if isinstance(value, int | str) else contents


@pytest.mark.usefixtures("cell")
def test_a_future_of_the_user_stays_when_what_is_computed_with_it_is_refused(client, monkeypatch):
    monkeypatch.setattr(fitting, "_free_memory", lambda: 100)
    some = da.ones(20, chunks=10)[da.ones(20, chunks=10) > 0]
    kept = client.submit(abs, -3)
    with pytest.raises(ResultTooLargeError, match=r"needs 160 B"):
        client.compute([kept, some], sync=True)
    assert kept.result() == 3
    del kept
    wait_until_nothing_is_left_of(client)


@pytest.mark.usefixtures("cell")
def test_it_runs_where_it_was_asked_to(client):
    address = min(client.scheduler_info()["workers"])
    PLACES.clear()
    x = da.ones(16, chunks=2)
    on_blocks(note_place, x[x > 0]).compute(workers=[address])
    assert {address} == PLACES
