"""Which client is Dask's default during a cell, and what it leaves behind."""

import time

import dask
import dask.array as da
import dask.config
import dask.dataframe as dd
import pandas as pd
import pytest
from distributed import Client, LocalCluster, futures_of
from distributed import client as distributed_client

from jupyter_gpudask.overlay.cell_record import CellRecord
from jupyter_gpudask.switch.context import switched_to
from jupyter_gpudask.switch.default_client import DefaultClient, default_client


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def scheduler_as_before():
    """A client that is closed restores what it found when it was made: in some of these tests, what a cell had set."""
    before = dask.config.get("scheduler", None)
    yield
    dask.config.set(scheduler=before)


@pytest.fixture
def mine(cluster):
    client = Client(cluster, set_as_default=False)
    yield client
    client.close()


@pytest.fixture
def others(cluster):
    """The client that is Dask's default before the cell."""
    client = Client(cluster)
    yield client
    client.close()


def default():
    return distributed_client._get_global_client(), dask.config.get("scheduler", None)


def test_the_cell_computes_with_its_own_and_the_other_is_the_default_again(mine, others):
    before = default()
    with DefaultClient().computing_on(mine):
        assert default() == (mine, "dask.distributed")
    assert default() == before
    assert before[0] is others


@pytest.mark.usefixtures("others")
def test_an_interrupt_while_it_begins_leaves_what_there_was(mine, monkeypatch):
    def take(self, client):
        original(self, client)
        raise KeyboardInterrupt

    original, before, clients = DefaultClient._take, default(), DefaultClient()
    with monkeypatch.context() as patch:
        patch.setattr(DefaultClient, "_take", take)
        with pytest.raises(KeyboardInterrupt), clients.computing_on(mine):
            pytest.fail("it began")
    assert default() == before
    with clients.computing_on(mine):
        assert default()[0] is mine
    assert default() == before


def test_a_scheduler_that_the_cell_chose_for_good_stays(mine):
    with dask.config.set(scheduler="sync"):
        with DefaultClient().computing_on(mine):
            dask.config.set(scheduler="threads")
        assert default()[1] == "threads"
        with DefaultClient().computing_on(mine):
            pass
        assert default()[1] == "threads"


@pytest.mark.usefixtures("others")
def test_a_client_that_the_cell_made_the_default_stays_that(mine, cluster):
    with DefaultClient().computing_on(mine):
        third = Client(cluster)
    assert default()[0] is third
    third.close()


def test_a_client_of_a_local_cluster_computes_on_the_cluster_of_the_cell(mine):
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as client:
        before = client.submit(abs, -5)
        assert before.client is client
        with default_client.computing_on(mine), switched_to("numpy", "pandas", CellRecord(results="host")):
            x = client.persist(da.ones(6, chunks=3))
            assert {future.client for future in futures_of(x)} == {mine}
            assert float((x + 1).sum().compute()) == 12
            assert client.gather(client.compute([x.sum(), x.max()])) == [6, 1]
            kept = client.map(abs, [-1, -2])
            assert client.gather(kept) == [1, 2]
            assert client.submit(sum, client.scatter([1, 2])).result() == 3
            assert client.gather(before) == client.submit(abs, before).result() == 5, "it stays where it is"
            assert float(x.sum().compute(scheduler=client)) == 6
        assert client.submit(abs, -1).client is client
        assert client.gather(kept) == [1, 2], "an ordinary cell gets what it has begun"
        assert client.submit(sum, kept).result() == 3
        assert client.gather([before]) == [5]


@pytest.fixture
def local():
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as client:
        yield client


@pytest.fixture
def cell(mine):
    with default_client.computing_on(mine), switched_to("numpy", "pandas", CellRecord(results="host")):
        yield


@pytest.mark.usefixtures("cell")
def test_a_collection_that_the_client_of_a_local_cluster_gets_is_computed_once(local):
    parts = []
    frame = dd.from_pandas(pd.DataFrame({"k": range(8), "x": 1, "y": 2}), npartitions=4)
    frame = frame.map_partitions(lambda part: parts.append(len(part)) or part, meta=frame._meta)
    found = local.compute(frame.set_index("k").x.sum()).result()
    assert found == 8
    assert len([rows for rows in parts if rows]) == 8, "for the divisions, and for the sum"


def test_results_of_the_local_cluster_are_found_in_collections_and_tasks(local, mine):
    number = local.submit(abs, -5)
    array = local.persist(da.ones(4, chunks=2))
    frame = local.persist(dd.from_pandas(pd.DataFrame({"x": [1, 2, 3]}), npartitions=2))
    with default_client.computing_on(mine), switched_to("numpy", "pandas", CellRecord(results="host")):
        computed = [local.compute(each) for each in (dask.delayed(abs)(number), (array + 1).sum(), frame.x.sum())]
        assert {future.client for future in computed} == {local}
        assert local.gather(computed) == [5, 8, 6]
        assert list(local.gather(iter(computed))) == [5, 8, 6]


def test_futures_of_a_cell_are_cancelled_by_the_client_of_a_local_cluster(local, mine):
    with default_client.computing_on(mine), switched_to("numpy", "pandas", CellRecord()):
        futures = local.map(time.sleep, [0.5, 0.6])
        assert set(local.who_has(futures)) == {future.key for future in futures}
        local.cancel(futures[:1])
        assert futures[0].cancelled()
        assert list(local.gather(iter(local.map(abs, [-1])))) == [1]
    local.cancel(futures[1])
    assert futures[1].cancelled()


def test_datasets_of_a_local_cluster_are_found_in_a_cell(local, mine):
    local.publish_dataset(before=local.submit(abs, -1))
    with default_client.computing_on(mine), switched_to("numpy", "pandas", CellRecord()):
        assert local.get_dataset("before").result() == 1
        local.publish_dataset(within=local.submit(abs, -2))
        assert local.get_dataset("within").result() == 2
        assert local.get_dataset("none", default=3) == 3
        with pytest.raises(KeyError):
            local.get_dataset("none")


def test_a_client_that_was_given_an_address_computes_there(mine, cluster):
    with (
        Client(cluster.scheduler_address, set_as_default=False) as client,
        default_client.computing_on(mine),
        switched_to("numpy", "pandas", CellRecord()),
    ):
        assert client.submit(abs, -1).client is client


def refused():
    return RuntimeError("the cluster was stopped")


def test_a_cell_whose_client_was_closed_computes_nowhere_else_until_it_ends(cluster, others):
    before = default()
    mine = Client(cluster, set_as_default=False)
    cells = DefaultClient()
    with cells.computing_on(mine):
        cells.refuse(others, refused)  # the client of no cell
        assert dask.delayed(abs)(-1).compute() == 1
        mine.close()
        cells.refuse(mine, refused)
        with pytest.raises(RuntimeError, match="the cluster was stopped"):
            dask.delayed(abs)(-1).compute()
        assert dask.delayed(abs)(-1).compute(scheduler="sync") == 1
    assert default() == before
    assert before[0] is others


def test_without_another_client_that_runs_dask_computes_in_the_kernel_again(cluster):
    other, mine = Client(cluster), Client(cluster, set_as_default=False)
    cells = DefaultClient()
    with cells.computing_on(mine):
        other.close()
        mine.close()
        cells.refuse(mine, refused)
    assert default() == (None, None)
    assert dask.delayed(abs)(-1).compute() == 1
