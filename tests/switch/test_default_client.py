"""Which client is Dask's default during a cell, and what it leaves behind."""

import dask.config
import pytest
from distributed import Client, LocalCluster
from distributed import client as distributed_client

from jupyter_gpudask.switch.default_client import DefaultClient


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
