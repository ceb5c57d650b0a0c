"""Metrics for Prometheus, of the server and of the exporter of the machine."""

import getpass
import json
import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pytest
import yaml
from helpers import fake_gpu_environment, wait_until
from managers import managed
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from users import ANNA, BERT, UUID, as_root, lease_registry, process_of

from jupyter_gpudask.errors import ClusterLostError, GpuReservedError
from jupyter_gpudask.protocol.spec import ClusterSpec
from jupyter_gpudask.server.cluster import KernelCluster
from jupyter_gpudask.server.monitor import Monitor
from jupyter_gpudask.server.prometheus import PrometheusMetrics

DOCS = Path(__file__).parents[2] / "docs"


def samples(text):
    """The value of each of our samples, by name and values of labels in alphabetical order."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("gpudask_")
    }


async def test_each_change_of_a_status_is_counted_once_whichever_thread_asks():
    registry = CollectorRegistry()

    def read():
        return samples(generate_latest(registry).decode())

    async with managed() as manager:
        metrics = PrometheusMetrics(manager, Monitor(manager), registry)
        for kernel_id, error in [
            ("a", GpuReservedError("gpus-reserved", gpus="GPU 0 is reserved")),
            ("b", ClusterLostError("closed")),
        ]:
            cluster = manager.clusters[kernel_id] = KernelCluster(kernel_id, ClusterSpec(), manager._on_change)
            assert read()["gpudask_clusters", "starting"] == 1
            if kernel_id == "b":
                cluster._set_status("ready")
                cluster._notify()  # the state of its workers has changed
            cluster.fail(error)
            cluster._notify()
        values = {}
        thread = threading.Thread(target=lambda: values.update(read()))  # where there is no event loop
        thread.start()
        thread.join()
        assert values["gpudask_clusters", "failed"] == 2
        assert values["gpudask_clusters", "ready"] == values["gpudask_clusters", "starting"] == 0
        assert values["gpudask_cluster_start_seconds_count",] == 1
        assert values["gpudask_cluster_failures_total", "GpuReservedError"] == 1
        assert values["gpudask_cluster_failures_total", "ClusterLostError"] == 1
        metrics.close()
        assert generate_latest(registry) == b""
        assert manager._observers == []


HOST_ONLY = """
import numpy as np, dask.array as da
def host_only(block):
    return np.sort(np.asarray(block))
da.arange(6, chunks=2).map_blocks(host_only, dtype=int).sum().compute()
"""


@pytest.mark.cluster
def test_the_server_reports_reserved_gpus_their_use_and_cells_with_what_these_computed_on_the_host(own_server):
    server = own_server(environment=fake_gpu_environment(cupy=True))
    kernel = server.kernel("a.ipynb")
    assert server.start(kernel, engine="cuda", gpus=1, workers=None)["status"] == "ready"
    user = getpass.getuser()

    def read():
        return samples(server.fetch("metrics", prefix="").text.decode())

    def held():
        return {key[1:]: value for key, value in read().items() if key[0] == "gpudask_gpus_reserved"}

    wait_until(lambda: any(key[:2] == ("gpudask_gpu_reservations", "1") for key in read()))
    values = read()
    assert ("gpudask_gpu_reservations", "0", user) in {key[:3] for key in values}
    by_gpu = {key[:2]: value for key, value in values.items()}
    assert [by_gpu["gpudask_gpu_reservations", gpu] for gpu in "01"] == [1, 0]
    assert by_gpu["gpudask_gpu_utilization_ratio", "0"] == 0.37
    assert by_gpu["gpudask_gpu_memory_used_bytes", "0"] == 2**30
    assert by_gpu["gpudask_gpu_memory_total_bytes", "0"] == 140 * 2**30
    assert values["gpudask_cluster_start_seconds_count",] == 1
    assert held() == {("busy", user): 0, ("idle", user): 1}

    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start\nimport time")
    kernel.ok("%%gpudask --dataframe pandas\n1")
    kernel.ok(f"%%gpudask --dataframe pandas{HOST_ONLY}")
    kernel.run("%%gpudask --dataframe pandas\n1 / 0")
    wait_until(lambda: read().get(("gpudask_cells_total", "cuda")) == 3)
    assert read()["gpudask_fallback_blocks_total",] == 3
    kernel.ok("sleeping = started.client.submit(time.sleep, 60)\nNone")
    wait_until(lambda: held() == {("busy", user): 1, ("idle", user): 0})
    assert server.fetch("metrics", headers={}, prefix="").status == 403


HOLD = """
with leases.lock():
    lease = leases.take([UUID], holder="secret.ipynb", kernel_id="k", share=True)
print("held", flush=True)
sys.stdin.read()
"""
WAIT = """
from jupyter_gpudask.machine.leases import WaitingLine
place = leases.line.enter([UUID])
print("waits", flush=True)
sys.stdin.read()
"""


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def exporter_command(registry, port):
    options = [f"--lease-directory={registry.path}", f"--port={port}"]
    return [sys.executable, "-m", "jupyter", "gpudask", "exporter", *options]


@contextmanager
def exporter(registry, **settings):
    """The port of an exporter."""
    port = free_port()
    environment = fake_gpu_environment(**settings)
    with subprocess.Popen(
        exporter_command(registry, port), env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_until(lambda: process.poll() is not None or scrape(port), 120)
            assert process.poll() is None, process.stderr.read()
            yield port, process
        finally:
            process.terminate()


def scrape(port):
    """The samples of our metrics."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
            text = response.read().decode()
    except URLError:
        return []
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def expressions():
    """Each expression of the dashboard and of the alert rules, with the labels that the text beside it names."""
    dashboard = json.loads((DOCS / "grafana.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"], set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    for group in yaml.safe_load((DOCS / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["expr"], set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    yield dashboard["templating"]["list"][1]["query"].replace("label_values(", "").replace(", instance)", ""), set()


@as_root
def test_each_expression_of_the_dashboard_and_of_the_alerts_names_metrics_and_labels_that_the_exporter_has():
    with (
        lease_registry() as registry,
        process_of(ANNA, registry, HOLD) as anna,
        process_of(BERT, registry, WAIT) as bert,
    ):
        assert (anna.stdout.readline(), bert.stdout.readline()) == ("held\n", "waits\n")
        with exporter(registry) as (port, process):
            samples = scrape(port)
            listening = psutil.Process(process.pid).net_connections("inet")
            assert {each.laddr.ip for each in listening if each.status == psutil.CONN_LISTEN} == {"127.0.0.1"}
            command = exporter_command(registry, port)
            second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            assert second.returncode == 1
            assert second.stderr.startswith("The exporter cannot listen on 127.0.0.1")
            process.terminate()
            assert process.wait(60) == 0
    labels = {sample.name: set(sample.labels) for sample in samples}
    used = set()
    for expression, shown in expressions():
        names = set(re.findall(r"gpudask_\w+", expression))
        assert names <= labels.keys(), expression
        known = set.union(*(labels[name] for name in names)) | {"instance"}
        lists = re.findall(r"(?:by|on|group_\w+) \(([^()]+)\)", expression)
        wanted = {label for each in lists for label in each.split(", ")}
        wanted |= set(re.findall(r"[{,](\w+)=", expression)) | shown
        assert wanted <= known, expression
        used |= names
    assert used == labels.keys()
    values = {(sample.name, *sorted(sample.labels.values())): sample.value for sample in samples}
    assert values["gpudask_gpu_reservations", "0", UUID, "nobody"] == 1
    assert values["gpudask_waiting_starts", str(BERT)] == 1
    assert values["gpudask_gpu_utilization_ratio", "0", UUID] == 0.37
    assert "secret" not in str(samples)
