"""Clusters of kernels that are restarted, shut down or die."""

import os
import signal
import time

import psutil
import pytest
from helpers import ON_GPUS, ONE_WORKER, fake_gpu_environment, pids_of_session, wait_until

from jupyter_gpudask.machine.leases import LeaseFolder

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


@pytest.fixture(scope="module")
def server_with_gpu(server_in):
    """A server with two fake GPUs that limits clusters to two workers."""
    return server_in(lambda folder: fake_gpu_environment(FAKE_GPUS="2"), ["--GpuDask.max_workers=2"])


@pytest.fixture(scope="module")
def kernel_with_gpu(server_with_gpu):
    """A kernel whose cluster holds one of the two GPUs."""
    kernel = server_with_gpu.kernel("mine.ipynb")
    assert server_with_gpu.start(kernel, engine="cuda", gpus=[0], workers=None)["status"] == "ready"
    return kernel


@pytest.fixture
def other_holder(server_with_gpu):
    """A lease of another cluster on the other GPU."""
    folder = LeaseFolder(server_with_gpu.runtime / "gpudask-leases")
    with folder.locked():
        lease = folder.take(
            ["GPU-00000001-1111-2222-3333-444444444444"], holder="other.ipynb", kernel_id="", share=False
        )
    yield
    lease.release()


REFUSED = [
    ({"gpus": "all"}, "--gpus all", "GPU 1 is held by other.ipynb"),
    ({"gpus": [1]}, "--gpus 1,", "GPU 1 is held by other.ipynb"),
    ({"engine": "cpu", "workers": 3}, "--cpu 3", "This server limits the workers of a cluster to 2"),
    ({"pool": 200 * 10**9}, "--pool 200GB", "--pool asks for"),
    ({"profile": "big"}, "--profile big", "no profile 'big'"),
]


@pytest.mark.usefixtures("kernel_with_gpu")
def test_a_start_that_waits_shows_its_place_and_who_holds_the_gpu_until_it_is_stopped(server_with_gpu):
    server = server_with_gpu
    waiting = server.kernel("waiting.ipynb")
    line = LeaseFolder(server.runtime / "gpudask-leases").line
    spec = {"engine": "cuda", "gpus": [0], "workers": None, "wait": True}
    assert server.fetch("clusters", "POST", {"kernel_id": waiting.id, "spec": spec}).status == 202
    wait_until(lambda: server.cluster(waiting)["notes"], 60)
    assert server.cluster(waiting)["status"] == "starting"
    assert server.cluster(waiting)["notes"] == ["Waiting for GPUs at place 1 in line. GPU 0 is held by mine.ipynb."]
    assert len(line.read()) == 1
    server.fetch(f"clusters/{waiting.id}", "DELETE")
    wait_until(lambda: not line.read(), 60)


@pytest.mark.usefixtures("other_holder")
@pytest.mark.parametrize(("options", "_", "sentence"), REFUSED)
def test_the_server_refuses_an_impossible_restart_and_the_cluster_keeps_running(
    server_with_gpu, kernel_with_gpu, options, _, sentence
):
    server = server_with_gpu
    kernel = kernel_with_gpu
    pid = server.cluster(kernel)["pid"]
    refused = server.fetch(f"clusters/{kernel.id}/restart", "POST", {"spec": options})
    assert refused.status in (404, 409, 422)
    assert sentence in refused.body["message"]
    assert [server.cluster(kernel)[name] for name in ("status", "pid")] == ["ready", pid]


@pytest.mark.usefixtures("other_holder")
def test_the_magic_refuses_an_impossible_restart_and_the_cluster_keeps_running(server_with_gpu, kernel_with_gpu):
    server = server_with_gpu
    kernel = kernel_with_gpu
    pid = server.cluster(kernel)["pid"]
    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start")
    for _, line, sentence in REFUSED:
        reply = kernel.run(f"%gpudask restart {line}")
        assert (reply.error, sentence in reply.error_value) == ("UsageError", True), (line, reply.error_value)
    assert [server.cluster(kernel)[name] for name in ("status", "pid")] == ["ready", pid]


@pytest.mark.usefixtures("other_holder")
def test_the_magics_name_the_holder_of_each_gpu(kernel_with_gpu):
    kernel = kernel_with_gpu
    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start")
    seen = kernel.ok("seen = %gpudask gpus\nseen").value.splitlines()
    assert "held by" in seen[0]
    assert ("this kernel" in seen[1], "other.ipynb" in seen[2]) == (True, True)
    kernel.ok("examined = %gpudask doctor")
    found = eval(kernel.ok("{one.subject: (one.verdict, one.text) for one in examined.findings}").value)  # noqa: S307
    assert found["GPU 0"][0] == "ok"
    assert "free; held by this kernel" in found["GPU 0"][1]
    assert found["GPU 1"][0] == "note"
    assert "free; held by other.ipynb" in found["GPU 1"][1]
