"""Clusters of dask-gateway: started, used, scaled and stopped, and what is said if the Gateway cannot be used."""

import json
import os
import re
import signal
import tempfile
import urllib.request
from pathlib import Path

import psutil
import pytest
from faults import SilentServer
from gateway import GatewayServer
from helpers import command_line, places_of, wait_until
from servers import Server, kernel_of
from slurm import free_port

pytestmark = [pytest.mark.cluster, pytest.mark.engines, pytest.mark.timeout(400)]

LIMIT = 120.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A Jupyter server with presets of a Gateway."""
    pytest.importorskip("dask_gateway_server", reason="run make test-engines")
    configuration = tmp_path_factory.mktemp("dask")
    (configuration / "gateway.yaml").write_text(
        json.dumps({"gateway": {"auth": {"kwargs": {"password": GatewayServer.password}}}})
    )
    (configuration / "gateway.yaml").chmod(0o600)
    silent = SilentServer()
    with tempfile.TemporaryDirectory() as folder:
        gateway = GatewayServer(Path(folder), dict(os.environ))
        addresses = {f"DASK_GATEWAY__{name.upper()}": gateway.options[name] for name in ("address", "proxy_address")}
        environment = {**os.environ, "DASK_CONFIG": str(configuration), **addresses}

        def preset(**options):
            return {"class": "dask_gateway.GatewayCluster", "start_timeout": 90, "options": gateway.options | options}

        presets = {
            "gateway": preset(),
            "no-gateway": preset(address=f"http://127.0.0.1:{free_port()}"),
            "no-entry": preset(auth="kerberos"),
            "full": preset(limit=0) | {"start_timeout": 20},
            "hangs": preset(address=f"http://127.0.0.1:{silent.port}") | {"start_timeout": 8},
            "dies": preset(scheduler="false"),
            "no-scheduler-address": preset(proxy_address=f"127.0.0.1:{free_port()}") | {"start_timeout": 8},
        }
        own = tmp_path_factory.mktemp("server")
        server = Server(own, f"--GpuDask.presets={presets!r}", environment=environment)
        server.gateway, server.silent, server.folder = gateway, silent, own
        try:
            yield server
        finally:
            server.stop()
            gateway.stop()
            silent.stop()


@pytest.fixture
def kernel(server):
    """A kernel with the magics, after which the Gateway has no cluster."""
    with kernel_of(server) as kernel:
        yield kernel
    wait_until(lambda: not schedulers(), 60)


def schedulers():
    return [process for process in psutil.process_iter() if "dask_gateway.scheduler_preload" in command_line(process)]


def test_a_cluster_computes_is_scaled_adapts_and_is_stopped(server, kernel):
    kernel.ok("started = %gpudask start --preset gateway --workers 2", timeout=LIMIT)
    assert kernel.ok("started.client.scheduler.address[:10]").value == "'gateway://'"
    cell = kernel.ok(
        "%%gpudask\nimport dask.array as da\nda.ones((400, 400), chunks=100).sum().compute()", timeout=LIMIT
    )
    assert "160000" in cell.value
    wait_until(lambda: len(server.cluster(kernel)["state"]["workers"]) == 2, LIMIT)
    why = server.cluster(kernel)["limits"]["dashboard"]
    dashboard = re.search(rf"open it at ({server.gateway.options['address']}/clusters/\S+) instead\.$", why)[1]
    with urllib.request.urlopen(dashboard, timeout=30) as answer:
        assert b"<title>Dask Diagnostic UI</title>" in answer.read()
    key = kernel.ok("print(started.client.security.tls_client_key)").printed.split("\n")[1]
    assert key not in str([command_line(process) for process in psutil.process_iter()])
    kernel.ok("started.client.run(lambda: __import__('logging').getLogger('distributed.worker').info('from a worker'))")
    assert "from a worker" in kernel.ok("shown = %gpudask logs\nprint(shown)", timeout=LIMIT).printed

    kernel.ok("%gpudask scale 1", timeout=LIMIT)
    wait_until(lambda: len(server.cluster(kernel)["state"]["workers"]) == 1, LIMIT)
    assert "Adaptive: 1 to 2 workers" in kernel.ok("shown = %gpudask adapt 1 2\nprint(shown)", timeout=LIMIT).printed
    kernel.ok("import time\nfutures = started.client.map(lambda i: time.sleep(1), range(60), pure=False)")
    wait_until(lambda: len(server.cluster(kernel)["state"]["workers"]) == 2, LIMIT)
    kernel.ok("del futures")
    wait_until(lambda: len(server.cluster(kernel)["state"]["workers"]) == 1, LIMIT)
    kernel.ok("%gpudask stop", timeout=LIMIT)
    wait_until(lambda: not schedulers(), 60)


def test_a_cluster_whose_scheduler_is_killed_says_so(server, kernel):
    kernel.ok("started = %gpudask start --preset gateway", timeout=LIMIT)
    for process in schedulers():
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: server.cluster(kernel)["status"] == "failed", LIMIT)
    assert "The scheduler of dask_gateway.GatewayCluster does not respond" in server.cluster(kernel)["reason"]
    kernel.ok("started = %gpudask start --preset gateway", timeout=LIMIT)
    assert kernel.ok("started.client.submit(lambda: 41).result()", timeout=LIMIT).value == "41"


@pytest.mark.parametrize(
    ("preset", "sentence"),
    [
        ("no-gateway", "dask_gateway.GatewayCluster does not start: Cannot connect to host 127.0.0.1:"),
        ("no-entry", "dask_gateway.GatewayCluster does not start: "),
        ("dies", "dask_gateway.GatewayCluster does not start: Cluster "),
        (
            "full",
            "No worker was up after 20 s: none has reached the scheduler that dask_gateway.GatewayCluster at {} has",
        ),
        (
            "no-scheduler-address",
            "No worker was up after 8 s: dask_gateway.GatewayCluster at {} has not started a scheduler that",
        ),
    ],
)
def test_a_gateway_that_cannot_be_used_is_a_sentence(server, kernel, preset, sentence):
    reply = kernel.run(f"%gpudask start --preset {preset}", timeout=LIMIT)
    assert reply.status == "error"
    assert sentence.format(server.gateway.options["address"]) in reply.error_value + reply.printed


def test_a_gateway_that_never_answers_is_a_sentence_within_the_start_timeout(server, kernel):
    said = server.silent.refusal(kernel, "hangs")
    gateway = f"dask_gateway.GatewayCluster at http://127.0.0.1:{server.silent.port}"
    assert f"No worker was up after 8 s: {gateway} has not started a scheduler that responds." in said


@pytest.mark.quick
def test_neither_the_password_nor_the_key_of_the_cluster_can_be_read_elsewhere(server, kernel):
    replies = [kernel.ok("started = %gpudask start --preset gateway\nprint(started)\nstarted", timeout=LIMIT)]
    cell = kernel.ok("%%gpudask\nimport dask.array as da\nda.ones((4, 4), chunks=2).sum().compute()", timeout=LIMIT)
    assert "16.0" in cell.value
    key = kernel.ok("print(started.client.security.tls_client_key)").printed.split("\n")[1]
    replies += [
        kernel.ok(f"shown = %gpudask {command}\nprint(shown)\nshown", timeout=LIMIT)
        for command in ("status", "logs", "doctor")
    ]
    replies.append(kernel.run("%gpudask scale 10000", timeout=LIMIT))
    secrets = [GatewayServer.password, key]
    assert len(key) > 40
    leases = [path for path in (server.runtime, Path(tempfile.gettempdir())) for path in path.glob("*gpudask*")]
    # Where it is searched for, a text that is there is found.
    assert str(server.log_path) in places_of(["ServerApp"], server.folder)
    assert places_of([f"kernel-{kernel.id}.json"], server.folder, *filter(Path.is_dir, leases)) != []
    assert places_of(secrets, server.folder, server.runtime, *filter(Path.is_dir, leases)) == []
    assert [secret for secret in secrets if secret in str(replies)] == []  # what the notebook is saved with
    assert [secret for secret in secrets if secret in json.dumps(server.cluster(kernel))] == []
    assert GatewayServer.password not in server.gateway.log_path.read_text()


def test_a_wrong_password_is_a_sentence_that_does_not_show_it(kernel):
    wrong = json.dumps({"password": "a-wrong-password"})
    kernel.ok(f"import os\nos.environ['DASK_GATEWAY__AUTH__KWARGS'] = {wrong!r}")
    reply = kernel.run("%gpudask start --preset gateway", timeout=LIMIT)
    said = reply.error_value + reply.printed
    assert "dask_gateway.GatewayCluster does not start: " in said
    assert "Authentication failed" in said or "401" in said
    assert "a-wrong-password" not in said


@pytest.fixture
def others(server, kernel):  # noqa: ARG001 - which ends later, and then finds no cluster
    """The kernel of somebody else, who has started a cluster with one worker without this package's magics."""
    with kernel_of(server) as others:
        others.ok("import dask_gateway\ncluster = dask_gateway.Gateway().new_cluster()", timeout=LIMIT)
        others.ok("cluster.scale(1)\nclient = cluster.get_client(set_as_default=False)")
        others.ok(f"client.wait_for_workers(1, timeout={LIMIT})", timeout=LIMIT)
        yield others
        others.ok("cluster.shutdown()", timeout=LIMIT)


def test_a_cluster_of_somebody_else_is_joined_by_its_name_used_and_left(server, others, kernel):
    name, address = eval(others.ok("cluster.name, cluster.scheduler_address").value)  # noqa: S307
    dashboard = others.ok("cluster.dashboard_link").value.strip("'")
    connected = kernel.ok(f"joined = %gpudask connect gateway://{name}\nprint(joined)", timeout=LIMIT).printed
    assert f"Connected to 1 worker at {address}" in connected
    assert "does not use TLS" not in connected
    wait_until(lambda: (server.cluster(kernel) or {}).get("limits"), LIMIT)
    why = server.cluster(kernel)["limits"]["dashboard"]
    assert why == f"Dask's dashboard is not shown here: open it at {dashboard} instead."
    cell = kernel.ok("%%gpudask\nimport dask.array as da\nda.ones((400, 400), chunks=100).sum().compute()")
    assert "160000" in cell.value
    key = kernel.ok("print(joined.client.security.tls_key)").printed.split("\n")[1]
    assert key not in connected + kernel.ok("joined").value + str(list(map(command_line, psutil.process_iter())))
    assert "It is not stopped from here." in kernel.run("%gpudask stop").error_value
    kernel.ok("%gpudask disconnect")
    again = kernel.ok(f"joined = %gpudask connect {address}\nprint(joined)", timeout=LIMIT).printed
    assert "Connected to 1 worker" in again
    kernel.ok("%gpudask disconnect")
    assert others.ok("client.submit(lambda: 41).result()", timeout=LIMIT).value == "41"
    assert (
        "gpudask-joined"
        not in others.ok("client.run_on_scheduler(lambda dask_scheduler: str(dask_scheduler.plugins))").value
    )


def test_a_cluster_that_cannot_be_joined_is_a_sentence(others, kernel):
    def refusal(name):
        return kernel.run(f"%gpudask connect gateway://{name}", timeout=LIMIT).error_value

    name, address = eval(others.ok("cluster.name, cluster.scheduler_address").value)  # noqa: S307
    assert "does not give access to the cluster nothing: Cluster nothing not found. Check the name" in refusal(
        "nothing"
    )
    reason = refusal(f"127.0.0.1:1/{name}")
    assert f"has the scheduler of the cluster {name} at {address}, not at gateway://127.0.0.1:1/{name}." in reason
    kernel.ok("import dask.config")
    kernel.ok("before = dask.config.set({'gateway.auth.kwargs': {'password': 'a-wrong-password'}})")
    reason = refusal(name)
    assert f"does not give access to the cluster {name}: " in reason
    assert "a-wrong-password" not in reason
    kernel.ok(f"before = dask.config.set({{'gateway.address': 'http://127.0.0.1:{free_port()}'}})")
    assert "Cannot connect to host 127.0.0.1" in refusal(name)
    kernel.ok("before = dask.config.set({'gateway.address': None})")
    assert "Set gateway.address and gateway.auth in Dask's configuration." in refusal(name)
