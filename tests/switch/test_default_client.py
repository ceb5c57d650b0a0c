"""Which client is Dask's default during a cell, and what it leaves behind."""

import dask
import dask.config
import pytest
from distributed import Client, LocalCluster, get_client
from distributed import client as distributed_client

from jupyter_gpudask.overlay import CellRecord
from jupyter_gpudask.switch.context import DefaultClient, default_client, switched_to


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
        assert get_client() is mine
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
