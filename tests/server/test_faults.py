"""What the server withstands: supervisors that say what they should not, and deaths of all kinds."""

import asyncio
import os
import signal
import stat
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from helpers import ON_GPUS, ONE_WORKER, START_ONE, command_line, pids_of_session, wait_until

from jupyter_gpudask.cluster import launcher
from jupyter_gpudask.models import PROTOCOL_VERSION, ClusterSpec
from jupyter_gpudask.server.kernels import Interpreter
from jupyter_gpudask.server.manager import ClusterManager
from jupyter_gpudask.server.policy import Policy

READY = '{"type": "ready", "engine": "cpu", "address": "tls://x", "credentials": null, "dashboard_port": null, '
READY += f'"workers": 1, "pid": 1, "protocol": {PROTOCOL_VERSION}}}'


class OneKernel:
    """A kernel whose interpreter is some program."""

    def __init__(self, program):
        self.program = str(program)

    def __contains__(self, kernel_id):
        return True

    def is_busy(self, kernel_id):
        return False

    def name(self, kernel_id):
        return "python3"

    async def interpreter(self, kernel_id):
        return Interpreter(self.program, dict(os.environ))

    async def notebooks(self):
        return {}

    def processes(self, notebooks):
        return {}


async def longest_pause(stop):
    """The longest time for which the loop did nothing else, in seconds, until `stop` is set."""
    loop, longest = asyncio.get_running_loop(), 0.0
    while not stop.is_set():
        before = loop.time()
        await asyncio.sleep(0.001)
        longest = max(longest, loop.time() - before)
    return longest


def outcome_of(body, tmp_path, start_timeout=120.0):
    """What becomes of a cluster whose supervisor is this program, and how long it held up the loop."""
    program = tmp_path / "python"
    program.write_text(f"#!{sys.executable}\nimport sys, time\nready = {READY!r}\n{textwrap.dedent(body)}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    async def run():
        manager, stop = ClusterManager(OneKernel(program), Policy()), asyncio.Event()
        measuring = asyncio.create_task(longest_pause(stop))
        cluster, _ = manager.create("k", ClusterSpec.parse({"engine": "cpu", "start_timeout": start_timeout}))
        async with asyncio.timeout(20):
            while cluster.status != "failed":
                await asyncio.sleep(0.05)
        stop.set()
        pause = await measuring
        await manager.close_all()
        assert str(program) not in str([command_line(child) for child in psutil.Process().children()])
        return cluster.end, pause

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("print('garbage')\ntime.sleep(60)", f"Not a message of protocol {PROTOCOL_VERSION}"),
        ("print('x' * 10_000_000)\ntime.sleep(60)", "a line without end"),
        ("print('x' * 10_000_000, end='', flush=True)\ntime.sleep(60)", "a line without end"),
        ("print(ready)\nfor _ in range(1000): print('garbage')\ntime.sleep(60)", "sends what is no message"),
        ("print(ready)\nwhile True: print('x' * 3_000_000)", "sends what is no message"),
        ("print(ready, flush=True)\nwhile True: print('{}' * 100)", "sends what is no message"),
        ("print(ready, flush=True)\ntime.sleep(0.5)\nsys.exit(3)", "ended with status 3"),
        ("for _ in range(300_000): print('noise' * 10, file=sys.stderr)\nsys.exit(3)", "ended with status 3"),
        (
            'print(\'{"type": "failed", "kind": "ProtocolError", "reason": "The supervisor speaks 1."}\')',
            "The supervisor speaks 1.",
        ),
        ('print(\'{"type": "failed", "kind": "os", "reason": "An older one."}\')', "An older one."),
        ("sys.exit('/bin/python: No module named jupyter_gpudask')", "has no jupyter_gpudask"),
        (
            "sys.exit('/bin/python: Error (ModuleNotFoundError: No module named \\'jupyter_gpudask\\')')",
            "has no jupyter_gpudask",
        ),
    ],
)
def test_a_supervisor_that_says_what_it_should_not_is_a_clear_error_and_holds_up_nothing(body, words, tmp_path):
    end, pause = outcome_of(body, tmp_path)
    assert words in str(end)
    assert pause < 0.25  # two cores, shared with the program that floods


def test_a_supervisor_that_says_nothing_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "_SILENCE_LIMIT", 1.0)
    end, _ = outcome_of("time.sleep(60)", tmp_path, start_timeout=0.5)
    assert "says nothing" in str(end)


def test_an_interpreter_that_is_not_there_is_a_clear_error(tmp_path):
    async def run():
        manager = ClusterManager(OneKernel(tmp_path / "python"), Policy())
        cluster, _ = manager.create("k", ClusterSpec(engine="cpu"))
        async with asyncio.timeout(5):
            while cluster.status != "failed":
                await asyncio.sleep(0.02)
        return cluster.end

    assert "does not start" in str(asyncio.run(run()))


def test_after_the_death_of_a_part_the_rest_works_and_says_why(own_server, gone):
    server = own_server()
    doomed, other = server.kernel(), server.kernel()
    pid, rest = server.start(doomed)["pid"], server.start(other)["pid"]

    worker = server.cluster(doomed)["state"]["workers"][0]["pid"]
    os.kill(worker, signal.SIGKILL)  # its nanny, which lives in the supervisor, starts another

    def has_another_worker():
        workers = server.cluster(doomed)["state"]["workers"]
        return workers and workers[0]["pid"] not in (worker, None)

    wait_until(has_another_worker, 15)

    os.kill(pid, signal.SIGKILL)  # the supervisor, and so the scheduler and the nannies
    wait_until(lambda: server.cluster(doomed)["status"] == "failed", 5)
    assert "killed by SIGKILL" in server.cluster(doomed)["reason"]
    gone(pid)

    os.kill(doomed.pid, signal.SIGKILL)
    assert server.cluster(other)["pid"] == rest
    server.fetch(f"clusters/{doomed.id}/restart", "POST", {})
    assert server.settled(doomed)["status"] == "ready"
    assert sorted(server.supervisors()) == sorted([server.cluster(doomed)["pid"], rest])


def test_a_worker_out_of_memory_is_told_with_its_reason_and_comes_back(server):
    limit, size = ("4GB", 10**10) if ON_GPUS else ("400MB", 10**9)
    kernel = server.kernel()
    pid = server.start(kernel, memory_limit=limit)["pid"]
    worker = server.cluster(kernel)["state"]["workers"][0]["pid"]
    kernel.ok(f"%load_ext jupyter_gpudask\nstarted = {START_ONE} --memory-limit {limit}")
    kernel.ok(f"def grow():\n    import time\n    held = bytearray({size})\n    time.sleep(5)\n    return len(held)")
    reply = kernel.run("started.client.submit(grow, retries=0).result()", timeout=200)
    assert reply.error == "KilledWorker"
    assert "memory budget" in server.fetch(f"clusters/{kernel.id}/logs").body["logs"]["supervisor"]
    wait_until(lambda: server.cluster(kernel)["state"]["workers"], 30)
    again = server.cluster(kernel)
    assert (again["status"], again["pid"]) == ("ready", pid)
    assert again["state"]["workers"][0]["pid"] != worker
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")


@pytest.mark.parametrize("profile", ["", "local"])
def test_a_worker_that_dies_again_and_again_comes_back_each_time(own_server, profile):
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


def test_the_death_of_a_kernel_that_started_its_cluster_itself_leaves_the_cluster_to_the_server(server):
    kernel = server.kernel()
    kernel.ok(f"%load_ext jupyter_gpudask\n{START_ONE}")
    pid = server.cluster(kernel)["pid"]
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.disconnect()
    kernel.ok("%load_ext jupyter_gpudask\n%gpudask status")
    assert server.cluster(kernel)["pid"] == pid
    assert pids_of_session(pid)
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")


def test_many_cycles_of_start_and_stop_leave_nothing(tmp_path):
    """With a small process that speaks the protocol; benchmarks/server_cycles.py does it with real ones."""
    program = tmp_path / "python"
    program.write_text(
        f"#!{sys.executable} -S\nimport sys\nprint({READY!r}, flush=True)\n"
        "next(line for line in sys.stdin if 'close' in line)\n"
    )
    program.chmod(0o700)

    async def run():
        manager = ClusterManager(OneKernel(program), Policy())
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # which would grow to its size
        me, seen = psutil.Process(), []
        others = len(me.children())
        for _ in range(60):
            cluster, _ = manager.create("k", ClusterSpec(engine="cpu"))
            while cluster.status == "starting":
                await asyncio.sleep(0.005)
            assert cluster.status == "ready", cluster.end
            await manager.close("k")
            seen.append((me.num_fds(), me.num_threads(), len(me.children()) - others))
        return seen

    seen = asyncio.run(run())
    growth = [after - before for before, after in zip(seen[20], seen[-1], strict=True)]
    assert max(growth) < 5  # of 40 cycles; a look at the kernel may be under way
    assert seen[-1][2] == 0
