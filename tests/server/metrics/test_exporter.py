"""The exporter of the machine, as a process, and what the dashboard for Grafana and the alert rules ask of it."""

import json
import os
import re
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pytest
import yaml
from helpers import fake_gpu_environment, wait_until
from prometheus_client.parser import text_string_to_metric_families
from users import ANNA, BERT, UUID, as_root, lease_registry, process_of

DOCS = Path(__file__).parents[3] / "docs"
HOLD = """
with leases.locked():
    lease = leases.take([UUID], holder="secret.ipynb", kernel_id="k", share=True)
print("held", flush=True)
sys.stdin.read()
"""
WAIT = """
from jupyter_gpudask.machine.waiting_line import WaitingLine
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
    assert values["gpudask_gpu_holders", "0", UUID, "nobody"] == 1
    assert values["gpudask_waiting_starts", str(BERT)] == 1
    assert values["gpudask_gpu_utilization_ratio", "0", UUID] == 0.37
    assert "secret" not in str(samples)


@as_root
def test_the_exporter_reports_who_waits_and_holds_while_the_driver_does_not_respond():
    with lease_registry() as registry, process_of(BERT, registry, WAIT) as bert:
        assert bert.stdout.readline() == "waits\n"
        with exporter(registry, FAKE_NVML_ERROR="DRIVER_NOT_LOADED") as (port, _):
            assert {sample.name for sample in scrape(port)} == {"gpudask_waiting_starts"}


@pytest.mark.parametrize("problem", ["port", "directory"])
def test_an_exporter_that_cannot_start_says_why(problem):
    with lease_registry() as registry, socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        if problem == "directory":
            registry.path /= "none"
        command = exporter_command(registry, other.getsockname()[1])
        ended = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False, timeout=120)
        registry.path = registry.path.parent if problem == "directory" else registry.path
    assert ended.returncode == 1
    said = {"port": "The exporter cannot listen on 127.0.0.1", "directory": "The lease directory"}[problem]
    assert ended.stderr.startswith(said)
