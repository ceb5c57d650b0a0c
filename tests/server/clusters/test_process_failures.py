"""Killed workers, supervisors and kernels."""

import os
import signal

import psutil
import pytest
from helpers import ON_GPUS, ONE_WORKER, START_ONE, pids_of_session, wait_until

pytestmark = pytest.mark.cluster


def test_after_the_kill_of_a_worker_a_supervisor_or_a_kernel_the_others_keep_running(own_server, gone):
    server = own_server()
    doomed, other = server.kernel(), server.kernel()
    pid, rest = server.start(doomed)["pid"], server.start(other)["pid"]

    worker = server.cluster(doomed)["state"]["workers"][0]["pid"]
    os.kill(worker, signal.SIGKILL)  # its nanny, which lives in the supervisor, starts another

    def has_another_worker():
        workers = server.cluster(doomed)["state"]["workers"]
        return workers and workers[0]["pid"] not in (worker, None)

    wait_until(has_another_worker)

    os.kill(pid, signal.SIGKILL)  # the supervisor, and so the scheduler and the nannies
    wait_until(lambda: server.cluster(doomed)["status"] == "failed")
    assert "killed by SIGKILL" in server.cluster(doomed)["reason"]
    gone(pid)

    os.kill(doomed.pid, signal.SIGKILL)
    assert server.cluster(other)["pid"] == rest
    server.fetch(f"clusters/{doomed.id}/restart", "POST", {})
    assert server.settled(doomed)["status"] == "ready"
    assert sorted(server.supervisors()) == sorted([server.cluster(doomed)["pid"], rest])


@pytest.mark.slow
def test_a_worker_that_exceeds_its_memory_limit_is_logged_and_restarted(server):
    limit, size = ("4GB", 10**10) if ON_GPUS else ("400MB", 10**9)
    kernel = server.kernel()
    pid = server.start(kernel, memory_limit=limit)["pid"]
    worker = server.cluster(kernel)["state"]["workers"][0]["pid"]
    kernel.ok(f"%load_ext jupyter_gpudask\nstarted = {START_ONE} --memory-limit {limit}")
    kernel.ok(f"def grow():\n    import time\n    held = bytearray({size})\n    time.sleep(5)\n    return len(held)")
    reply = kernel.run("started.client.submit(grow, retries=0).result()", timeout=200)
    assert reply.error == "WorkersEndedError"
    assert "that had the task grow ended, 4 in all. The last one used" in reply.error_value
    assert "memory budget" in server.fetch(f"clusters/{kernel.id}/logs").body["logs"]["supervisor"]
    wait_until(lambda: server.cluster(kernel)["state"]["workers"])
    again = server.cluster(kernel)
    assert (again["status"], again["pid"]) == ("ready", pid)
    assert again["state"]["workers"][0]["pid"] != worker
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")


@pytest.mark.parametrize("profile", ["", pytest.param("local", marks=pytest.mark.slow)])
def test_a_worker_that_is_killed_repeatedly_is_restarted_each_time(own_server, profile):
    """Dask gives one up that is down at the end of a pause after any of its deaths; without a pause that is always."""
    profiles = {"local": {"class": "distributed.LocalCluster", "options": {"n_workers": 1}}}
    environment = {**os.environ, "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "0"}
    server = own_server(f"--GpuDask.profiles={profiles!r}", environment=environment)
    kernel = server.kernel()
    order = {"kernel_id": kernel.id, "profile": profile, "spec": {} if profile else ONE_WORKER}
    assert server.fetch("clusters", "POST", order).status == 202
    assert server.settled(kernel)["status"] == "ready"
    died = {None}
    for _ in range(3):
        wait_until(lambda: {worker["pid"] for worker in server.cluster(kernel)["state"]["workers"]} - died, 60)
        worker = server.cluster(kernel)["state"]["workers"][0]["pid"]
        os.kill(worker, signal.SIGKILL)
        died.add(worker)
    wait_until(lambda: {worker["pid"] for worker in server.cluster(kernel)["state"]["workers"]} - died, 60)


def test_a_cluster_that_the_kernel_requested_survives_the_crash_of_the_kernel(server):
    kernel = server.kernel()
    kernel.ok(f"%load_ext jupyter_gpudask\n{START_ONE}")
    pid = server.cluster(kernel)["pid"]
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.disconnect()
    kernel.ok("%load_ext jupyter_gpudask\n%gpudask status")
    assert server.cluster(kernel)["pid"] == pid
    assert pids_of_session(pid)
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")


def test_a_killed_supervisor_leaves_no_directory_and_no_process_of_a_task(server, tmp_path):
    """Neither a folder where the server does not look by itself, nor a process in a group of its own."""
    kernel = server.kernel()
    kernel.ok(f"%load_ext jupyter_gpudask\nimport os, subprocess\nos.environ['TMPDIR'] = {str(tmp_path)!r}")
    kernel.ok(f"started = {START_ONE}\nsleep = lambda: subprocess.Popen(['sleep', '777'], process_group=0).pid")
    child = psutil.Process(int(kernel.ok("print(started.client.submit(sleep).result())").printed))
    assert list(tmp_path.glob("jupyter-gpudask-*"))
    os.kill(server.cluster(kernel)["pid"], signal.SIGKILL)
    wait_until(lambda: not child.is_running())
    wait_until(lambda: not list(tmp_path.glob("jupyter-gpudask-*")))
    assert server.cluster(kernel)["status"] == "failed"
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")
