"""The record of the use of GPUs, as a Jupyter server's clusters leave it and ``jupyter gpudask usage`` reads it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import fake_gpu_environment, wait_until

from jupyter_gpudask.machine.lease_registry import LeaseRegistry

pytestmark = pytest.mark.cluster

PROGRAM = Path(sys.executable).with_name("jupyter-gpudask")


def reasons(folder):
    return [each.reason for each in sorted(LeaseRegistry(folder).usage(), key=lambda each: each.since)]


def shown_reasons(registry):
    """The reasons in the output of the command, in the order in which the clusters started."""
    command = [PROGRAM, "usage", "--json", f"--lease-directory={registry}"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line)["reason"] for line in printed.splitlines()]


def test_the_record_says_why_clusters_of_a_server_ended(own_server, tmp_path):
    registry = tmp_path / "registry"
    registry.mkdir()
    registry.chmod(0o1777)
    options, environment = [f"--GpuDask.lease_directory={registry}"], fake_gpu_environment(FAKE_GPUS="1")

    def started(server):
        kernel = server.kernel()
        answer = server.fetch("clusters", "POST", {"kernel_id": kernel.id, "spec": {"gpus": 1}})
        assert answer.status == 202, answer.text
        cluster = server.settled(kernel, 120)
        assert cluster["status"] in ("ready", "closed"), cluster
        return kernel

    server = own_server("--GpuDask.idle_timeout=1", *options, environment=environment)
    started(server)
    wait_until(lambda: reasons(registry) == ["idle"], 120)

    server = own_server(*options, environment=environment)
    kernel = started(server)
    assert reasons(registry) == ["idle", ""]
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")
    wait_until(lambda: reasons(registry) == ["idle", "kernel ended"], 120)

    started(server)
    server.stop()
    wait_until(lambda: reasons(registry) == ["idle", "kernel ended", "server ended"], 120)
    assert shown_reasons(registry) == reasons(registry)
