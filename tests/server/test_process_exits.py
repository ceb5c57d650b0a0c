"""Killed processes leave no process, lease, folder or port behind for more than 5 seconds; on fake or real GPUs."""

import os
import signal
import socket
from contextlib import suppress

import psutil
import pytest
from helpers import ON_GPUS, command_line, fake_gpu_environment, pids_of_session, promised, wait_until

from jupyter_gpudask.machine.unix_socket import bind_socket, connect_socket, socket_path

pytestmark = pytest.mark.cluster


@pytest.fixture
def server(own_server, tmp_path):
    folders = {name: tmp_path / name for name in ("runtime", "tmp")}
    for folder in folders.values():
        folder.mkdir()
    environment = dict(os.environ) if ON_GPUS else fake_gpu_environment(FAKE_GPUS="2")
    environment |= {"JUPYTER_RUNTIME_DIR": str(folders["runtime"]), "TMPDIR": str(folders["tmp"])}
    server = own_server("--AsyncIOLoopKernelRestarter.restart_limit=0", environment=environment)
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


def ports_of(session):
    return [
        connection.laddr.port
        for pid in pids_of_session(session)
        for connection in psutil.Process(pid).net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]


def answers(port):
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def test_a_killed_server_leaves_nothing_but_a_socket_that_the_next_server_removes(server, gone):
    kernel, starting = server.kernel(), server.kernel()
    pid = start(server, kernel)["pid"]
    server.fetch("clusters", "POST", {"kernel_id": starting.id, "spec": {"gpus": 1}})
    wait_until(lambda: len(server.supervisors()) == 2)
    supervisors, ports = server.supervisors(), ports_of(pid)
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


def test_a_server_that_shuts_down_leaves_nothing(server, gone):
    pid = start(server, server.kernel())["pid"]
    server.stop()
    with promised(1):
        gone(pid)
    assert not left_of(server, "socket", "lease", "folder")


@pytest.mark.parametrize(
    "part", ["supervisor", "kernel", *(pytest.param(part, marks=pytest.mark.slow) for part in ("scheduler", "nanny"))]
)
def test_a_cluster_whose_process_is_killed_leaves_nothing_and_other_clusters_keep_running(server, part, gone):
    kernel, other = server.kernel("doomed.ipynb"), server.kernel()
    cluster, rest = start(server, kernel), start(server, other)
    kernel.ok("%load_ext jupyter_gpudask\nimport os\nstarted = %gpudask start --gpus 1")
    pids = {
        "supervisor": cluster["pid"],
        "scheduler": int(kernel.ok("print(started.client.run_on_scheduler(os.getpid))").printed),
        "nanny": int(kernel.ok("print(*started.client.run(os.getpid, nanny=True).values())").printed),
        "kernel": kernel.pid,
    }
    ports = ports_of(cluster["pid"])
    os.kill(pids[part], signal.SIGKILL)
    kernel.disconnect()
    if part == "kernel":  # Jupyter needs some seconds to notice
        wait_until(lambda: server.cluster(kernel) is None)
    gone(cluster["pid"])
    wait_until(lambda: len(left_of(server, "lease", "folder")) == 2)  # those of the other
    assert not any(answers(port) for port in ports)
    if part != "kernel":
        wait_until(lambda: server.cluster(kernel)["status"] == "failed")
        assert "killed by SIGKILL" in server.cluster(kernel)["reason"]
    assert server.settled(other)["pid"] == rest["pid"]
    assert server.cluster(other)["state"]["workers"][0]["status"] == "running"


def test_a_killed_worker_restarts_on_its_gpu(server):
    kernel = server.kernel()
    cluster = start(server, kernel)
    (worker,) = cluster["state"]["workers"]
    os.kill(worker["pid"], signal.SIGKILL)

    def another():
        workers = server.cluster(kernel)["state"]["workers"]
        return workers and workers[0]["pid"] not in (worker["pid"], None)

    wait_until(another)
    assert server.cluster(kernel)["state"]["workers"][0]["gpu_uuid"] == worker["gpu_uuid"]
    assert server.cluster(kernel)["pid"] == cluster["pid"]
