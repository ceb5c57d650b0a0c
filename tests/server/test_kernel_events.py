"""Clusters of kernels that are restarted, shut down or die."""

import os
import signal
import time

import pytest
from helpers import ON_GPUS, ONE_WORKER, fake_gpu_environment, wait_until

from jupyter_gpudask.machine.leases import LeaseFolder

pytestmark = pytest.mark.cluster

RESTARTS = "AsyncIOLoopKernelRestarter: restarting kernel"


def test_a_kernel_that_is_interrupted_restarted_or_crashes_keeps_its_cluster_and_the_workers(server, kernel):
    def pids():
        cluster = server.settled(kernel)
        return cluster["status"], cluster["pid"], cluster["state"]["workers"][0]["pid"]

    server.start(kernel)
    before = pids()
    for action, status in (("interrupt", 204), ("restart", 200)):
        assert server.fetch(f"kernels/{kernel.id}/{action}", "POST", {}, prefix="api/").status == status
        time.sleep(0.5)
        assert pids() == before, action
    server.socket(f"kernels/{kernel.id}/channels", prefix="api/").close()  # a tab of the browser
    for crash in (lambda: os.kill(kernel.pid, signal.SIGKILL), lambda: kernel.client.execute("exit")):
        process, restarts = kernel.pid, server.log.count(RESTARTS)
        crash()
        wait_until(lambda restarts=restarts: server.log.count(RESTARTS) > restarts)
        time.sleep(0.5)
        kernel.disconnect()
        assert kernel.pid != process
        assert pids() == before


def test_shutting_down_a_kernel_closes_its_cluster_while_it_is_starting(server, gone):
    kernel = server.kernel("doomed.ipynb")
    server.fetch("clusters", "POST", {"kernel_id": kernel.id, "spec": ONE_WORKER})
    wait_until(server.supervisors)
    supervisors = server.supervisors()
    assert server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/").status == 204
    gone(*supervisors)
    wait_until(lambda: server.cluster(kernel) is None)


def test_notebooks_on_one_kernel_share_its_cluster_which_has_their_names_and_ends_with_the_kernel(server, gone):
    kernel = server.kernel("old.ipynb")
    order = {"path": "two.ipynb", "name": "two.ipynb", "type": "notebook", "kernel": {"id": kernel.id}}
    assert server.fetch("sessions", "POST", order, prefix="api/").status == 201
    cluster = server.start(kernel)
    assert (cluster["notebooks"], server.supervisors()) == (["old.ipynb", "two.ipynb"], [cluster["pid"]])
    (session,) = [each["id"] for each in server.fetch("sessions", prefix="api/").body if each["path"] == "old.ipynb"]
    server.fetch(f"sessions/{session}", "PATCH", {"path": "new.ipynb"}, prefix="api/")
    assert sorted(server.cluster(kernel)["notebooks"]) == ["new.ipynb", "two.ipynb"]
    assert server.fetch(f"sessions/{session}", "DELETE", prefix="api/").status == 204
    gone(cluster["pid"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["KernelManager.autorestart=False"],
        [
            f"MappingKernelManager.cull_idle_timeout={30 if ON_GPUS else 8}",  # longer than a start
            *("MappingKernelManager.cull_interval=1", "MappingKernelManager.cull_connected=True"),
        ],
    ],
    ids=["dies", "is culled"],
)
def test_the_cluster_of_a_kernel_that_is_culled_or_dies_and_is_not_restarted_is_closed(own_server, options, gone):
    server = own_server(*(f"--{option}" for option in options))
    kernel = server.kernel()
    pid = server.start(kernel)["pid"]
    if len(options) == 1:
        os.kill(kernel.pid, signal.SIGKILL)
    wait_until(lambda: server.cluster(kernel) is None, 60)
    gone(pid)


def test_an_impossible_restart_is_refused_gpus_have_the_names_of_their_holders_and_the_policy_renews(own_server, gone):
    options = ["--GpuDask.max_workers=2", "--GpuDask.restart_policy=renew"]
    server = own_server(*options, environment=fake_gpu_environment(FAKE_GPUS="2"))
    kernel = server.kernel("mine.ipynb")
    pid = server.start(kernel, engine="cuda", gpus=[0], workers=None)["pid"]
    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start")
    folder = LeaseFolder(server.runtime / "gpudask-leases")
    with folder.lock():
        lease = folder.take(
            ["GPU-00000001-1111-2222-3333-444444444444"], holder="other.ipynb", kernel_id="", share=False
        )
    for options, line, sentence in [
        ({"gpus": "all"}, "--gpus all", "GPU 1 is reserved by other.ipynb"),
        ({"gpus": [1]}, "--gpus 1,", "GPU 1 is reserved by other.ipynb"),
        ({"engine": "cpu", "workers": 3}, "--cpu 3", "This server limits the workers of a cluster to 2"),
        ({"pool": 200 * 10**9}, "--pool 200GB", "--pool asks for"),
        ({"preset": "big"}, "--preset big", "no preset 'big'"),
    ]:
        refused = server.fetch(f"clusters/{kernel.id}/restart", "POST", {"spec": options})
        assert (refused.status in (404, 409, 422), sentence in refused.body["message"]) == (True, True), line
        reply = kernel.run(f"%gpudask restart {line}")
        assert (reply.error, sentence in reply.error_value) == ("UsageError", True), (line, reply.error_value)
    assert [server.cluster(kernel)[name] for name in ("status", "pid")] == ["ready", pid]

    seen = kernel.ok("seen = %gpudask gpus\nseen").value.splitlines()
    assert "reserved by" in seen[0]
    assert ("this kernel" in seen[1], "other.ipynb" in seen[2]) == (True, True)
    kernel.ok("examined = %gpudask doctor")
    found = kernel.ok("{one.subject: (one.verdict, one.text) for one in examined.findings}").value
    held = [eval(found)[f"GPU {index}"] for index in range(2)]  # noqa: S307
    assert [verdict for verdict, _ in held] == ["ok", "note"]
    assert "free; reserved by this kernel" in held[0][1]
    assert "free; reserved by other.ipynb" in held[1][1]
    lease.release()

    server.fetch(f"kernels/{kernel.id}/restart", "POST", {}, prefix="api/")
    gone(pid)
    assert server.settled(kernel)["status"] == "ready"
