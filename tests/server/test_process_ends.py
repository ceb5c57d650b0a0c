"""Killed workers, supervisors, kernels and servers: what goes on, and what is left behind."""

import os
import signal
import socket
from contextlib import suppress

import psutil
import pytest
from helpers import (
    ON_GPUS,
    addresses_of_session,
    command_line,
    fake_gpu_environment,
    fill_disk,
    promised,
    small_disk,
    wait_until,
)

from jupyter_gpudask.machine.leases import LeaseFolder
from jupyter_gpudask.machine.unix_socket import bind_socket, connect_socket, socket_path

pytestmark = pytest.mark.cluster


@pytest.fixture
def isolated_server(own_server, tmp_path):
    """A server with folders of its own, which does not restart kernels.

    Dask gives a worker up that is down at the end of a pause after any of its deaths; without a pause that is always.
    """
    folders = {name: tmp_path / name for name in ("runtime", "tmp")}
    for folder in folders.values():
        folder.mkdir()
    environment = dict(os.environ) if ON_GPUS else fake_gpu_environment(FAKE_GPUS="2")
    environment |= {"JUPYTER_RUNTIME_DIR": str(folders["runtime"]), "TMPDIR": str(folders["tmp"])}
    environment["DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT"] = "0"
    presets = {"local": {"class": "distributed.LocalCluster", "options": {"n_workers": 1}}}
    options = ["--AsyncIOLoopKernelRestarter.restart_limit=0", f"--GpuDask.presets={presets!r}"]
    server = own_server(*options, environment=environment)
    server.folders = folders
    return server


def start(server, kernel):
    body = {"kernel_id": kernel.id, "spec": {"gpus": 1}}
    assert server.fetch("clusters", "POST", body).status == 202
    cluster = server.settled(kernel)
    assert cluster["status"] == "ready", cluster
    return cluster


def left_of(server, *names):
    """Sockets, leases and folders of clusters that still exist."""
    patterns = {
        "socket": ("runtime", "*.sock"),
        "lease": ("runtime", "*/*.lease"),
        "folder": ("tmp", "jupyter-gpudask-*"),
    }
    return [path for name in names for path in server.folders[patterns[name][0]].glob(patterns[name][1])]


def answers(address):
    with socket.socket() as caller:
        return caller.connect_ex(address) == 0


def test_a_cluster_whose_supervisor_or_kernel_is_killed_leaves_nothing_and_others_keep_running(
    isolated_server, tmp_path, gone
):
    server, elsewhere = isolated_server, tmp_path / "elsewhere"
    elsewhere.mkdir()
    kernel, other = server.kernel("doomed.ipynb"), server.kernel()
    rest = start(server, other)["pid"]
    # In a folder where the server does not look by itself, and with a process in a group of its own.
    kernel.ok(f"%load_ext jupyter_gpudask\nimport os, subprocess\nos.environ['TMPDIR'] = {str(elsewhere)!r}")
    kernel.ok("started = %gpudask start --gpus 1\nclient = started.client")
    kernel.ok("sleep = lambda: subprocess.Popen(['sleep', '777'], process_group=0).pid")
    child = psutil.Process(int(kernel.ok("print(client.submit(sleep).result())").printed))
    pid, ports = server.cluster(kernel)["pid"], addresses_of_session(server.cluster(kernel)["pid"])
    assert list(elsewhere.glob("jupyter-gpudask-*"))
    os.kill(pid, signal.SIGKILL)  # in which the scheduler and the nannies are
    gone(pid)
    wait_until(lambda: not child.is_running() and not list(elsewhere.glob("jupyter-gpudask-*")))
    wait_until(lambda: len(left_of(server, "lease", "folder")) == 2)  # those of the other
    assert not any(answers(port) for port in ports)
    wait_until(lambda: server.cluster(kernel)["status"] == "failed")
    assert "killed by SIGKILL" in server.cluster(kernel)["reason"]
    cluster = server.settled(other)
    assert (cluster["pid"], cluster["state"]["workers"][0]["status"]) == (rest, "running")

    os.kill(other.pid, signal.SIGKILL)
    wait_until(lambda: server.cluster(other) is None)  # Jupyter needs some seconds to notice
    gone(rest)
    wait_until(lambda: not left_of(server, "lease", "folder"))


@pytest.mark.parametrize("preset", ["", pytest.param("local", marks=pytest.mark.slow)])
def test_a_worker_that_is_killed_repeatedly_is_restarted_each_time_on_its_gpu(isolated_server, preset):
    server = isolated_server
    kernel = server.kernel()
    order = {"kernel_id": kernel.id, "preset": preset, "spec": {} if preset else {"gpus": 1}}
    assert server.fetch("clusters", "POST", order).status == 202
    assert server.settled(kernel)["status"] == "ready"
    died, gpus = {None}, set()

    def is_another():
        workers = server.cluster(kernel)["state"]["workers"]
        gpus.update(worker["gpu_uuid"] for worker in workers)
        return {worker["pid"] for worker in workers} - died

    for _ in range(3):
        wait_until(is_another, 60)
        worker = server.cluster(kernel)["state"]["workers"][0]["pid"]
        os.kill(worker, signal.SIGKILL)
        died.add(worker)
    wait_until(is_another, 60)
    assert len(gpus) == 1


def test_a_killed_server_leaves_nothing_but_a_socket_that_the_next_server_removes(isolated_server, gone):
    server = isolated_server
    kernel, starting = server.kernel(), server.kernel()
    pid = start(server, kernel)["pid"]
    server.fetch("clusters", "POST", {"kernel_id": starting.id, "spec": {"gpus": 1}})
    wait_until(lambda: len(server.supervisors()) == 2)
    supervisors, ports = server.supervisors(), addresses_of_session(pid)
    children = psutil.Process(server.pid).children(recursive=True)
    kernels = [child for child in children if "ipykernel" in " ".join(command_line(child))]
    assert left_of(server, "socket")
    assert len(ports) >= 2  # the HTTP servers of scheduler and worker
    with promised(3):
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait()
        gone(*supervisors, limit=120)
    wait_until(lambda: not left_of(server, "lease", "folder"))
    assert not any(answers(port) for port in ports)
    (stale,) = left_of(server, "socket")
    assert connect_socket(stale) is None
    bind_socket(socket_path(server.folders["runtime"], os.getpid())).close()  # as the next server does
    assert not stale.exists()
    rest = [child for child in children if child not in kernels and child.is_running()]
    assert not [child for child in rest if child.status() != psutil.STATUS_ZOMBIE]
    for process in kernels:  # they notice their parent's end by themselves, sooner or later
        with suppress(psutil.NoSuchProcess):
            process.kill()


def notebook(server, path, **request):
    content = {"type": "notebook", "format": "json", "content": {"cells": [], "metadata": {}, "nbformat": 4}}
    content["content"] |= {"nbformat_minor": 5}
    return server.fetch(f"contents/{path}", "PUT", content, prefix="api/", **request)


def test_saving_and_renaming_a_notebook_on_a_full_disk_does_not_affect_its_cluster(own_server, tmp_path):
    with small_disk(tmp_path / "notebooks") as root, small_disk(tmp_path / "runtime") as runtime:
        environment = fake_gpu_environment(FAKE_GPUS="1", JUPYTER_RUNTIME_DIR=str(runtime))
        server = own_server(environment=environment)
        try:
            assert notebook(server, "before.ipynb").status == 201
            kernel = server.kernel("before.ipynb")
            pid = server.start(kernel, engine="auto", workers=None)["pid"]
            session = server.fetch("sessions", prefix="api/").body[0]
            other = server.kernel("other.ipynb")
            fill_disk(root)
            fill_disk(runtime)

            saved = notebook(server, "before.ipynb")
            assert saved.status == 500
            renamed = server.fetch(f"sessions/{session['id']}", "PATCH", {"path": "after.ipynb"}, prefix="api/")
            assert renamed.status == 200
            server.fetch("gpus")  # updates the names of the holders
            wait_until(lambda: server.cluster(kernel)["notebooks"] == ["after.ipynb"])
            refused = server.start(other, engine="auto", workers=None)

            cluster = server.cluster(kernel)
            assert (cluster["status"], cluster["pid"], len(cluster["state"]["workers"])) == ("ready", pid, 1)
            assert refused["status"] == "failed"
            assert [lease.pid for lease in LeaseFolder(runtime / "gpudask-leases").read()] == [pid]
        finally:
            server.stop()
