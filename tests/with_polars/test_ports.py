"""What an engine's ranks listen on: who may decide it, and what happens if it cannot be closed."""

import socket
from functools import partial
from types import SimpleNamespace

import pytest

from jupyter_gpudask.errors import BackendUnavailableError
from jupyter_gpudask.overlay import CellRecord, Overlay
from jupyter_gpudask.worker import polars_ports
from jupyter_gpudask.worker.polars_ports import PortsError, Ranks


def client_of(*hosts):
    workers = {f"tcp://{host}:{n}": {"host": host, "local_directory": str(n)} for n, host in enumerate(hosts)}
    scheduler = SimpleNamespace(identity=lambda n_workers: {"workers": workers})
    return SimpleNamespace(sync=lambda function, **options: function(**options), scheduler=scheduler, status="running")


def engine_client(*hosts, **record):
    from jupyter_gpudask.polars.cluster_engine import ClusterClient

    overlay = Overlay({"array": "cupy", "dataframe": "cudf"}, CellRecord(**record))
    overlay.enter()
    try:
        return ClusterClient(client_of(*hosts))
    finally:
        overlay.leave()


def test_several_machines_are_used_only_if_the_user_says_so():
    with pytest.raises(BackendUnavailableError, match="polars_over_network"):
        engine_client("a", "b", "a")
    assert engine_client("a", "b", "a", polars_over_network=True)._ranks == Ranks(3, are_local=False, may_listen=True)
    assert engine_client("a", "a")._ranks == Ranks(2, are_local=True, may_listen=False)


CREATED = []


@pytest.fixture
def new_listener():
    yield CREATED.pop
    while CREATED:
        CREATED.pop().close()


def new_communicator():
    CREATED.append(socket.create_server(("127.0.0.1", 0)))


def _setup_root():
    new_communicator()


@pytest.mark.parametrize(("are_local", "connects"), [(True, False), (False, True)])
def test_packets_to_the_communicator_are_dropped_on_one_machine(new_listener, are_local, connects):
    Ranks(2, are_local, may_listen=not are_local).set_up(partial(_setup_root))()
    with new_listener() as listener:
        try:
            socket.create_connection(listener.getsockname(), timeout=0.5).close()
        except TimeoutError:
            assert not connects
        else:
            assert connects


@pytest.mark.usefixtures("new_listener")
def test_a_communicator_that_cannot_be_closed_is_refused_unless_the_user_says_so(monkeypatch):
    def refuse(_):
        raise OSError("Protocol not available")

    monkeypatch.setattr(polars_ports, "_drop_packets", refuse)
    with pytest.raises(PortsError, match="Protocol not available"):
        Ranks(2, are_local=True, may_listen=False).set_up(partial(_setup_root))()
    Ranks(2, are_local=True, may_listen=True).set_up(partial(_setup_root))()
    assert len(CREATED) == 2
