"""One of two hosts vanishes from the network in the middle of a cell: the other does the work, and users see which."""

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers import wait_until
from namespaces import Network, has_namespaces
from servers import Server, kernel_of
from sshd import SshServer

pytestmark = [pytest.mark.cluster, pytest.mark.engines, pytest.mark.timeout(400)]

LIMIT = 240.0

CELL = """
%%gpudask
import time
from pathlib import Path

def begun(number):
    Path({folder!r}, str(number)).touch()
    while not Path({folder!r}, 'gate').exists():
        time.sleep(0.05)
    return number

parts = [dask.delayed(begun)(number) for number in range(8)]
dask.delayed(sum)(parts).compute()
"""


@pytest.fixture(scope="module")
def network():
    """This machine and two hosts."""
    pytest.importorskip("asyncssh", reason="run make test-engines")
    if shutil.which("sshd") is None:
        pytest.skip("sshd is missing: run make test-engines")
    if not has_namespaces():
        pytest.skip("network namespaces need root and iproute2")
    network = Network(2)
    yield network
    network.close()


@pytest.fixture(scope="module")
def server(network, tmp_path_factory):
    """A Jupyter server with a preset of two hosts."""
    with tempfile.TemporaryDirectory() as folder:
        servers, connections = [], []
        for address in network.hosts:
            (own := Path(folder) / address).mkdir()
            servers.append(SshServer(own, address, network.command(address)))
            connections.append(servers[-1].options())
        options = {
            "hosts": [network.here, *network.hosts],
            "connect_options": [{}, *connections],
            "worker_options": {"nthreads": 2},
        }
        presets = {"two": {"class": "distributed.SSHCluster", "options": options, "start_timeout": 90}}
        server = Server(
            tmp_path_factory.mktemp("server"), f"--GpuDask.presets={presets!r}", environment=dict(os.environ)
        )
        yield server
        server.stop()
        for each in servers:
            each.stop()


def test_the_other_host_finishes_a_cell_and_the_footer_the_status_and_the_panel_name_the_lost_one(
    server, network, tmp_path
):
    kept, lost = network.hosts
    with kernel_of(server) as kernel:
        kernel.ok("import dask\nstarted = %gpudask start --preset two", timeout=LIMIT)
        assert kernel.ok("started.client.scheduler.address[:6]").value == "'tls://'"
        wait_until(lambda: len(server.cluster(kernel)["state"]["workers"]) == 2, LIMIT)
        assert {worker["host"] for worker in server.cluster(kernel)["state"]["workers"]} == {kept, lost}
        assert server.cluster(kernel)["state"]["lost_hosts"] == []

        def lose_host():
            try:
                wait_until(lambda: len(list(tmp_path.iterdir())) == 4, LIMIT)  # two tasks on each host
                network.pull(lost)
                wait_until(lambda: server.cluster(kernel)["state"]["lost_hosts"], LIMIT)
            finally:
                (tmp_path / "gate").touch()

        with ThreadPoolExecutor(1) as thread:
            losing = thread.submit(lose_host)
            reply = kernel.ok(CELL.format(folder=str(tmp_path)).strip(), timeout=2 * LIMIT)
            losing.result()
        assert "28" in reply.value
        assert f"lost machine {lost}: the others did the work" in reply.displayed[-1]
        [lost_host] = server.cluster(kernel)["state"]["lost_hosts"]
        assert (lost_host["host"], lost_host["workers"]) == (lost, [lost])
        status = kernel.ok("shown = %gpudask status\nprint(shown)", timeout=LIMIT).printed
        assert f"Machine {lost} does not respond; its worker {lost} is lost." in status
        after = kernel.ok("%%gpudask\ndask.delayed(sum)([1, 2]).compute()", timeout=LIMIT)
        assert "lost host" not in after.displayed[-1]
        kernel.ok("%gpudask stop", timeout=LIMIT)
