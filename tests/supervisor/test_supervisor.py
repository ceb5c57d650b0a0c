"""The supervisor as its parent sees it: real processes, and what is left of them."""

import asyncio
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from contextlib import suppress

import dask.array as da
import psutil
import pytest
from clusters import CPU, compute_a_sum, with_cluster
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from distributed import Client, Security, rpc
from distributed.system import MEMORY_LIMIT
from helpers import command_line, leftover_directories, pids_of_session, promised, wait_until

from jupyter_gpudask.client import kernel_client
from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.errors import ClusterLostError, ClusterStartError, ResultsLostError
from jupyter_gpudask.protocol import TlsCredentials
from jupyter_gpudask.supervisor.fork_server import Preparation
from jupyter_gpudask.supervisor.supervisor import Supervisor

pytestmark = pytest.mark.cluster


def hold_gil(seconds):
    """Sleep inside compiled code without letting any other thread of the process run."""
    import ctypes

    ctypes.PyDLL(None).sleep(seconds)


def test_a_cluster_starts_works_reports_and_closes_without_a_trace():
    progress = []

    async def use(cluster):
        total = await asyncio.to_thread(compute_a_sum, cluster.ready)
        assert await asyncio.to_thread(rechunk_by_p2p, cluster.ready) == 40 * 40
        await asyncio.sleep(0.6)  # a heartbeat
        return cluster.pid, cluster.ready, total, await cluster.state()

    pid, ready, total, state = with_cluster(use, CPU | {"workers": 2}, on_progress=progress.append)
    assert [(step.ready, step.total) for step in progress][-1] == (2, 2)
    assert (ready.engine, ready.workers, ready.stand_in) == ("cpu", 2, "")
    assert ready.address.startswith("unix:///")
    assert ready.credentials is None
    assert total == 5050
    assert [worker.name for worker in state.workers] == ["0", "1"]
    assert all(worker.pid and worker.memory and worker.status == "running" for worker in state.workers)
    assert all(worker.spilled_to_disk == 0 and worker.gpu_index is None for worker in state.workers)
    assert pids_of_session(pid) == []
    assert leftover_directories() == []


def rechunk_by_p2p(ready):
    """The sum of many blocks from a P2P shuffle between workers, through the optimization of graphs."""
    with connect(ready, set_as_default=False) as client:
        blocks = da.ones((40, 40), chunks=(40, 1)).rechunk((1, 40), method="p2p")
        return int(client.compute(blocks.sum()).result(timeout=60))


def test_closing_takes_under_five_seconds_even_when_a_worker_is_stuck():
    async def use(cluster):
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        stuck = client.submit(hold_gil, 60)
        await asyncio.sleep(1)
        with promised(5.5):
            await cluster.close()
        stuck.cancel()
        await asyncio.to_thread(client.close, 1)
        return cluster.pid

    pid = with_cluster(use)
    assert pids_of_session(pid) == []


def test_a_client_that_shuts_down_the_cluster_is_the_reason_of_its_loss():
    losses = []

    async def use(cluster):
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        await asyncio.to_thread(client.shutdown)
        await asyncio.to_thread(wait_until, lambda: losses)
        return cluster.pid

    pid = with_cluster(use, on_lost=losses.append)
    assert losses[0].reason.startswith("A client or Dask's idle timeout has shut down the cluster;")
    assert losses[0].log == ""
    assert pids_of_session(pid) == []


def test_a_loss_is_reported_before_the_processes_have_ended_and_close_waits_for_their_end():
    pids, left = [], []

    async def use(cluster):
        pids.append(cluster.pid)
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        await asyncio.to_thread(client.shutdown)
        await asyncio.to_thread(wait_until, lambda: left)
        assert not cluster.running
        await cluster.close()
        return pids_of_session(cluster.pid)

    assert with_cluster(use, on_lost=lambda _: left.append(pids_of_session(pids[0]))) == []
    assert len(left) == 1
    assert left[0] != []


def test_code_that_waits_for_a_cluster_that_was_killed_gets_one_message_also_if_nobody_knows_why(monkeypatch):
    monkeypatch.setattr(kernel_client, "_REASON_TIMEOUT", 0.5)

    async def use(cluster):
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        waiting = asyncio.create_task(asyncio.to_thread(client.submit(time.sleep, 1000).result))
        await asyncio.sleep(1)
        os.kill(cluster.pid, signal.SIGKILL)
        with pytest.raises(ResultsLostError, match="The connection to the scheduler of the cluster was lost"):
            await waiting
        await asyncio.to_thread(client.close, 1)

    with_cluster(use)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_the_supervisor_ends_everything_and_the_parent_is_told(number):
    losses = []

    async def use(cluster):
        os.kill(cluster.pid, number)
        await asyncio.to_thread(wait_until, lambda: losses)
        with pytest.raises(ClusterLostError):
            await cluster.state()
        return cluster.pid

    pid = with_cluster(use, on_lost=losses.append)
    assert len(losses) == 1
    assert ("SIGKILL" in str(losses[0])) == (number == signal.SIGKILL)
    assert pids_of_session(pid) == []
    assert leftover_directories() == []


def test_state_and_log_report_the_workers_that_were_killed_and_not_those_that_were_restarted():
    async def use(cluster):
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        restarted = (await cluster.state()).workers[0].pid
        await asyncio.to_thread(client.restart)
        killed = (await cluster.state()).workers[0].pid
        os.kill(killed, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: str(killed) in cluster.log(), 3)
        while not (exits := (await cluster.state()).worker_exits):  # the nanny logs it before the scheduler knows
            await asyncio.sleep(0.02)
        await asyncio.to_thread(client.close, 1)
        return restarted, killed, exits, cluster.log()

    restarted, killed, exits, log = with_cluster(use)
    assert restarted != killed
    (end,) = exits
    assert (end.worker, end.pid, end.reason, end.over_memory_limit) == (
        "0",
        killed,
        "was killed by signal 9",
        False,
    )
    assert abs(end.time - time.time()) < 60
    assert f"Worker process {killed} was killed by signal 9" in log
    assert re.search(r"^\d{4}-\d\d-\d\d .* - distributed.nanny - ", log, re.MULTILINE), "Dask's lines have a time"
    assert f"Worker process {restarted} " not in log


def test_state_and_log_report_the_worker_that_exceeded_its_memory_limit():
    async def use(cluster):
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        pid = (await cluster.state()).workers[0].pid
        hog = client.submit(lambda: b"x" * 600_000_000, pure=False)
        await asyncio.to_thread(wait_until, lambda: f"Worker process {pid} " in cluster.log(), 10)
        hog.cancel()
        exits = (await cluster.state()).worker_exits
        await asyncio.to_thread(client.close, 1)
        return pid, exits, cluster.log()

    pid, exits, log = with_cluster(use, CPU | {"memory_limit": 500_000_000})
    (end,) = exits
    assert (end.pid, end.over_memory_limit) == (pid, True)
    assert re.fullmatch(r"used \d+ MiB of host memory, and its limit is 477 MiB", end.reason)
    assert f"(pid={pid}) exceeded 95% memory budget" in log


def test_a_worker_that_is_stuck_in_compiled_code_does_not_outlive_a_killed_supervisor():
    async def use(cluster):
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        stuck = client.submit(hold_gil, 60)
        worker = (await cluster.state()).workers[0].pid
        await asyncio.sleep(1)
        # Stopped, the launcher cannot help: it is Linux that must end the worker.
        cluster._reading.cancel()
        os.kill(cluster.pid, signal.SIGKILL)
        seconds = await asyncio.to_thread(wait_until, lambda: not psutil.pid_exists(worker), 3)
        stuck.cancel()
        await asyncio.to_thread(client.close, 1)
        return seconds

    assert with_cluster(use) < 3


PARENT = """
import asyncio, os, sys, time
from distributed.protocol.pickle import dumps
from jupyter_gpudask.launcher.cluster_process import ClusterProcess
from jupyter_gpudask.protocol import PROTOCOL_VERSION, ClusterSpec

async def main():
    cluster = await ClusterProcess.start(ClusterSpec(engine="cpu", workers=1))
    if "fork" in sys.argv and os.fork() == 0:   # a child that holds the pipe open, as multiprocessing's do
        time.sleep(20)
        os._exit(0)
    if "busy" in sys.argv:   # what holds up its loop, so that it cannot end in good order
        from jupyter_gpudask.client.connect import connect
        client = await asyncio.to_thread(connect, cluster.ready)
        client.loop.add_callback(client.scheduler.run_function, function=dumps(time.sleep), args=dumps((30,)))
        await asyncio.sleep(0.5)
    print(cluster.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("number", "arguments"),
    [(signal.SIGKILL, []), (signal.SIGTERM, []), (signal.SIGKILL, ["fork"]), (signal.SIGKILL, ["busy"])],
)
def test_nothing_outlives_the_parent_by_three_seconds(number, arguments):
    with subprocess.Popen([sys.executable, "-c", PARENT, *arguments], stdout=subprocess.PIPE, text=True) as parent:
        supervisor = int(parent.stdout.readline())
        children = psutil.Process(parent.pid).children()
        assert len(pids_of_session(supervisor)) >= 2
        with promised(3):
            parent.send_signal(number)
            parent.stdout.close()
            wait_until(lambda: not pids_of_session(supervisor), 120)
        for child in children:
            if child.pid != supervisor and child.is_running():
                child.kill()
    assert leftover_directories() == []


def test_a_supervisor_ends_with_its_parent_in_little_processor_time():
    """On a machine with much other work it would take many times as long."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        supervisor = psutil.Process(int(parent.stdout.readline()))
        before = after = sum(supervisor.cpu_times()[:2])
        parent.kill()
        parent.stdout.close()
        with suppress(psutil.Error):
            while supervisor.status() != psutil.STATUS_ZOMBIE:
                after = sum(supervisor.cpu_times()[:2])
                time.sleep(0.005)
    assert after - before < 0.2
    assert leftover_directories() == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (CPU | {"start_timeout": 0.01}, "0 of 1 workers were up after 0.01 s"),
        (CPU | {"environment": {"PYTHONHOME": "/nonexistent"}}, "A worker died while it started"),
    ],
)
def test_a_cluster_that_does_not_come_up_fails_loudly_and_leaves_nothing(options, sentence):
    async def use(cluster):
        pytest.fail(f"it came up: {cluster.ready}")

    with pytest.raises(ClusterStartError, match=sentence):
        with_cluster(use, options)
    assert leftover_directories() == []
    assert not [
        child for child in psutil.Process().children(recursive=True) if "jupyter_gpudask" in str(command_line(child))
    ]


def test_a_client_without_the_credentials_gets_nothing():
    async def use(cluster):
        address = cluster.ready.address
        plain = address.replace("tls://", "tcp://")
        other = Security.temporary()
        for where, security in ((plain, None), (address, other)):
            with pytest.raises((OSError, TimeoutError)):
                await Client(where, security=security, asynchronous=True, timeout=3, set_as_default=False)
        for address in await asyncio.to_thread(worker_addresses, cluster.ready):
            for where, security in ((address.replace("tls://", "tcp://"), Security()), (address, other)):
                with pytest.raises((OSError, TimeoutError)):
                    async with rpc(where, connection_args=security.get_connection_args("worker"), timeout=3) as worker:
                        await worker.identity()
        return await asyncio.to_thread(compute_a_sum, cluster.ready)

    assert with_cluster(use, CPU | {"protocol": "tcp"}) == 5050


def worker_addresses(ready):
    with connect(ready, set_as_default=False) as client:
        addresses = list(client.scheduler_info()["workers"])
    assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
    assert addresses
    return addresses


def listening(session):
    for pid in pids_of_session(session):
        for connection in psutil.Process(pid).net_connections(kind="inet"):
            if connection.status == psutil.CONN_LISTEN:
                yield connection


IMPOSTOR_LIMIT = 5


def test_a_client_refuses_a_scheduler_without_the_key_of_the_cluster():
    heard = []

    async def hear(_, writer):
        heard.append(True)
        writer.close()

    async def use(cluster):
        own, other = cluster.ready.credentials, Security.temporary()
        assert load_pem_private_key(own.key.encode(), None).key_size == 2048
        context = other.get_listen_args("scheduler")["ssl_context"]
        context.verify_mode = ssl.CERT_NONE  # the impostor accepts everybody
        async with await asyncio.start_server(hear, "127.0.0.1", 0, ssl=context) as impostor:
            address = f"tls://127.0.0.1:{impostor.sockets[0].getsockname()[1]}"
            given = TlsCredentials(ca=other.tls_ca_file, certificate=other.tls_client_cert, key=other.tls_client_key)
            for credentials, is_heard in ((own, False), (given, True)):
                ready = cluster.ready.model_copy(update={"address": address, "credentials": credentials})
                with pytest.raises(OSError):  # noqa: PT011 - whichever it is
                    await asyncio.to_thread(connect, ready, set_as_default=False, timeout=IMPOSTOR_LIMIT)
                assert bool(heard) is is_heard

    with_cluster(use, CPU | {"protocol": "tcp"})


WITHOUT_UNIX_SOCKETS = """
import errno, socket

class Socket(socket.socket):
    def bind(self, address):
        if self.family == socket.AF_UNIX:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return super().bind(address)

socket.socket = Socket
"""


def test_where_the_file_system_does_not_support_unix_sockets_a_cluster_has_tls(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_UNIX_SOCKETS)

    async def use(cluster):
        assert cluster.ready.address.startswith("tls://127.0.0.1:")
        return await asyncio.to_thread(compute_a_sum, cluster.ready)

    assert with_cluster(use, environment={**os.environ, "PYTHONPATH": str(tmp_path)}) == 5050


@pytest.mark.parametrize("protocol", ["unix", "tcp"])
def test_every_port_is_on_the_loopback_address(protocol):
    async def use(cluster):
        return [connection.laddr for connection in listening(cluster.pid)], cluster.ready

    ports, ready = with_cluster(use, CPU | {"protocol": protocol})
    assert len(ports) == (2 if protocol == "unix" else 5)  # HTTP servers; scheduler, nanny and worker
    assert ready.dashboard_port is None
    assert {port.ip for port in ports} == {"127.0.0.1"}
    assert 8787 not in [port.port for port in ports]


def test_the_log_of_a_worker_has_what_its_tasks_print():
    def speak():
        sys.stdout.write("a word from the worker\n")
        sys.stdout.flush()

    async def use(cluster):
        def run():
            with connect(cluster.ready, set_as_default=False) as client:
                client.submit(speak).result()

        await asyncio.to_thread(run)
        return await cluster.worker_log("0"), await cluster.worker_log("1")

    log, none = with_cluster(use)
    assert "a word from the worker" in log
    assert none == ""


def test_the_environment_the_resources_and_the_memory_reach_the_workers():
    def look(dask_worker):
        state, memory = dask_worker.state, dask_worker.memory_manager.memory_limit
        return os.environ.get("COLOUR"), state.total_resources, state.nthreads, memory

    async def use(cluster):
        def run():
            with connect(cluster.ready, set_as_default=False) as client:
                return list(client.run(look).values())

        return await asyncio.to_thread(run)

    options = CPU | {"environment": "COLOUR=green", "resources": "GPU=1", "threads": 1}
    seen = with_cluster(use, options, environment={**os.environ, "COLOUR": "blue"})
    assert seen == [("green", {"GPU": 1.0}, 1, MEMORY_LIMIT)]


@pytest.mark.parametrize("error", [TimeoutError, OSError, asyncio.CancelledError])
def test_the_lease_is_given_back_after_all_processes_have_ended_however_the_close_fails(monkeypatch, error):
    done = []

    class Cluster:
        async def close(self, grace):
            done.append("close")
            raise error

        def end(self, reason):
            done.append("release")

    class Quiet:
        def send(self, event):
            pass

        async def flush(self):
            pass

        def remove(self):
            done.append("remove")

    monkeypatch.setattr("jupyter_gpudask.supervisor.supervisor.end_session", lambda: done.append("end"))
    supervisor = Supervisor(Quiet(), Preparation())
    supervisor._cluster, supervisor._directory, supervisor._status = Cluster(), Quiet(), "ready"
    asyncio.run(supervisor._end(is_asked_to_close=True))
    assert done == ["close", "end", "release", "remove"]
