"""The lifecycle of a cluster with its kernel: each row of the table in docs/server.md."""

import os
import signal
import time

import psutil
import pytest
from helpers import ON_GPUS, ONE_WORKER, pids_of_session, wait_until

pytestmark = pytest.mark.cluster


def pids(kernel, server):
    cluster = server.cluster(kernel)
    return cluster["pid"], cluster["state"]["workers"][0]["pid"]


def stays(kernel, server, pid, worker):
    cluster = server.settled(kernel)
    return (cluster["status"], cluster["pid"], cluster["state"]["workers"][0]["pid"]) == ("ready", pid, worker)


@pytest.mark.parametrize(("action", "status"), [("interrupt", 204), ("restart", 200)])
def test_a_kernel_that_is_interrupted_or_restarted_keeps_its_cluster_and_the_workers(server, action, status):
    kernel = server.kernel()
    server.start(kernel)
    pid, worker = pids(kernel, server)
    assert server.fetch(f"kernels/{kernel.id}/{action}", "POST", {}, prefix="api/").status == status
    time.sleep(0.5)
    assert stays(kernel, server, pid, worker)
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")


@pytest.mark.parametrize("how", ["crash", "exit"])
def test_a_kernel_that_crashes_or_exits_and_is_restarted_by_jupyter_keeps_its_workers(server, how):
    kernel = server.kernel()
    server.start(kernel)
    pid, worker = pids(kernel, server)
    before, restarts = kernel.pid, server.log.count("AsyncIOLoopKernelRestarter: restarting kernel")
    if how == "crash":
        os.kill(before, signal.SIGKILL)
    else:
        kernel.client.execute("exit")
    wait_until(lambda: server.log.count("AsyncIOLoopKernelRestarter: restarting kernel") > restarts)
    time.sleep(0.5)
    kernel.disconnect()
    assert kernel.pid != before
    assert stays(kernel, server, pid, worker)
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")


def test_shutting_down_a_kernel_closes_its_cluster_even_while_it_is_starting(server, gone):
    for wait in (True, False):
        kernel = server.kernel("doomed.ipynb")
        body = {"kernel_id": kernel.id, "spec": ONE_WORKER}
        server.fetch("clusters", "POST", body)
        if wait:
            server.settled(kernel)
        else:
            wait_until(server.supervisors)
        supervisors = server.supervisors()
        assert server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/").status == 204
        gone(*supervisors)
        wait_until(lambda kernel=kernel: server.cluster(kernel) is None)


def test_renaming_a_notebook_renames_its_cluster_and_deleting_its_session_closes_the_cluster(server, gone):
    kernel = server.kernel("old.ipynb")
    pid = server.start(kernel)["pid"]
    session = server.fetch("sessions", prefix="api/").body[-1]
    server.fetch(f"sessions/{session['id']}", "PATCH", {"path": "new.ipynb"}, prefix="api/")
    assert server.cluster(kernel)["name"] == "new.ipynb"
    assert server.fetch(f"sessions/{session['id']}", "DELETE", prefix="api/").status == 204
    gone(pid)


def test_closing_a_tab_does_not_affect_the_cluster(server):
    kernel = server.kernel()
    server.start(kernel)
    pid, worker = pids(kernel, server)
    server.socket(f"kernels/{kernel.id}/channels", prefix="api/").close()
    time.sleep(0.5)
    assert stays(kernel, server, pid, worker)
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")


def test_a_new_kernel_has_no_cluster_until_one_is_requested(server):
    kernel = server.kernel()
    assert server.cluster(kernel) is None
    kernel.ok("%load_ext jupyter_gpudask")
    assert server.cluster(kernel) is None
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")


def test_two_notebooks_on_one_kernel_share_its_cluster(server):
    kernel = server.kernel("one.ipynb")
    order = {"path": "two.ipynb", "name": "two.ipynb", "type": "notebook", "kernel": {"id": kernel.id}}
    assert server.fetch("sessions", "POST", order, prefix="api/").status == 201
    assert server.start(kernel)["notebooks"] == ["one.ipynb", "two.ipynb"]
    assert len(server.supervisors()) == 1
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")


@pytest.mark.parametrize(
    "option",
    [
        "AsyncIOLoopKernelRestarter.restart_limit=0",
        pytest.param("KernelManager.autorestart=False", marks=pytest.mark.slow),
    ],
)
def test_the_cluster_of_a_kernel_that_dies_and_is_not_restarted_is_closed(own_server, option, gone):
    server = own_server(f"--{option}")
    kernel = server.kernel()
    pid = server.start(kernel)["pid"]
    os.kill(kernel.pid, signal.SIGKILL)
    wait_until(lambda: server.cluster(kernel) is None)
    gone(pid)


@pytest.mark.slow
def test_the_cluster_of_a_culled_kernel_is_closed(own_server, gone):
    server = own_server(
        f"--MappingKernelManager.cull_idle_timeout={30 if ON_GPUS else 8}",  # longer than a start
        "--MappingKernelManager.cull_interval=1",
        "--MappingKernelManager.cull_connected=True",
    )
    kernel = server.kernel()
    pid = server.start(kernel)["pid"]
    wait_until(lambda: server.cluster(kernel) is None, 60)
    gone(pid)


@pytest.mark.parametrize("policy", ["renew", pytest.param("stop", marks=pytest.mark.slow)])
def test_the_restart_policy_renews_or_stops_the_cluster(own_server, policy, gone):
    server = own_server(f"--GpuDask.restart_policy={policy}")
    kernel = server.kernel()
    pid = server.start(kernel)["pid"]
    server.fetch(f"kernels/{kernel.id}/restart", "POST", {}, prefix="api/")
    gone(pid)
    cluster = server.settled(kernel)
    if policy == "renew":
        assert cluster["status"] == "ready"
    else:
        assert cluster["status"] == "closed"
        assert cluster["reason"] == "The cluster was closed when its kernel was restarted."


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_clusters_end_with_the_server(own_server, number, gone):
    server = own_server()
    kernels = [server.kernel(), server.kernel()]
    supervisors = [server.start(kernel)["pid"] for kernel in kernels]
    os.kill(server.pid, number)
    server.process.wait(30)
    gone(*supervisors)
    for kernel in kernels:
        kernel.disconnect()
    leftover = [process for process in psutil.process_iter() if server_of(process) == server.pid]
    for process in leftover:  # kernels notice their parent's end by themselves, sooner or later
        process.kill()
    assert not [process for pid in supervisors for process in pids_of_session(pid)]


def server_of(process):
    try:
        return int(process.environ().get("JPY_PARENT_PID", 0))
    except (psutil.Error, OSError):
        return 0
