"""Interpreter and environment of a kernel."""

import json
import os
import sys

import pytest
from helpers import ONE_WORKER, wait_until

from jupyter_gpudask.errors import KernelUnsuitableError
from jupyter_gpudask.server.kernels import _interpreter_of

pytestmark = pytest.mark.cluster


def add_kernelspec(server, name, argv, language="python", **environment):
    folder = server.root.parent / "data" / "kernels" / name
    folder.mkdir(parents=True)
    specification = {"argv": argv, "display_name": name, "language": language, "env": environment}
    (folder / "kernel.json").write_text(json.dumps(specification))


@pytest.fixture(scope="module")
def server_with_kernels(server_in):
    server = server_in(lambda folder: {**os.environ, "JUPYTER_PATH": str(folder / "data")})
    python = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    add_kernelspec(server, "coloured", python, COLOUR="green")
    add_kernelspec(server, "wrapped", ["/bin/sh", "-c", 'export COLOUR=red; "$@"; true', "sh", *python])
    add_kernelspec(server, "other", ["/bin/sh", "-c", "sleep 60", "{connection_file}"], language="R")
    return server


@pytest.mark.parametrize(("name", "colour"), [("coloured", "green"), ("wrapped", "red")])
def test_a_cluster_has_the_interpreter_and_environment_of_its_kernel(server_with_kernels, name, colour):
    server = server_with_kernels
    kernel_id = server.fetch("kernels", "POST", {"name": name}, prefix="api/").body["id"]
    body = {"kernel_id": kernel_id, "spec": ONE_WORKER}
    wait_until(lambda: any(kernel_id in text for text in command_lines()))
    server.fetch("clusters", "POST", body)
    wait_until(lambda: server.fetch(f"clusters/{kernel_id}").body["status"] != "starting", 40)
    cluster = server.fetch(f"clusters/{kernel_id}").body
    assert cluster["status"] == "ready", cluster
    with open(f"/proc/{cluster['pid']}/environ") as file:  # noqa: PTH123
        assert f"COLOUR={colour}" in file.read().split("\0")
    with open(f"/proc/{cluster['pid']}/cmdline") as file:  # noqa: PTH123
        assert file.read().split("\0")[0] == sys.executable
    server.fetch(f"kernels/{kernel_id}", "DELETE", prefix="api/")


def test_a_kernel_of_another_language_has_no_cluster(server_with_kernels):
    server = server_with_kernels
    kernel_id = server.fetch("kernels", "POST", {"name": "other"}, prefix="api/").body["id"]
    server.fetch("clusters", "POST", {"kernel_id": kernel_id})
    wait_until(lambda: server.fetch(f"clusters/{kernel_id}").body["status"] == "failed")
    assert server.fetch(f"clusters/{kernel_id}").body["reason"] == "This kernel is not a Python kernel."
    server.fetch(f"kernels/{kernel_id}", "DELETE", prefix="api/")


def command_lines():
    for pid in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
        try:
            with open(f"/proc/{pid}/cmdline") as file:  # noqa: PTH123
                text = file.read()
        except OSError:
            continue
        if "ipykernel_launcher" in text:
            yield text


def test_a_process_that_reuses_the_pid_of_a_dead_kernel_is_not_taken_for_it():
    with pytest.raises(KernelUnsuitableError, match="cannot be inspected"):
        _interpreter_of(os.getpid(), "kernel-1234.json")
