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
from clusters import CPU, compute_a_sum, running_cluster
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from distributed import Client, Security, rpc
from distributed.system import MEMORY_LIMIT
from helpers import (
    RunningCluster,
    addresses_of_session,
    command_line,
    leftover_directories,
    pids_of_session,
    promised,
    wait_until,
)

from jupyter_gpudask.client import kernel_client
from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.errors import ClusterLostError, ClusterStartError, ResultsLostError
from jupyter_gpudask.protocol.state import TlsCredentials
from jupyter_gpudask.supervisor.fork_server import Preparation
from jupyter_gpudask.supervisor.supervisor import Supervisor

pytestmark = pytest.mark.cluster


def hold_gil(seconds, begun):
    """Sleep inside compiled code without letting another thread of the process run, and make the file `begun`."""
    import ctypes

    begun.touch()
    ctypes.PyDLL(None).sleep(seconds)


async def test_a_cluster_starts_works_reports_and_closes_without_a_trace():
    progress = []

    async with running_cluster(CPU | {"workers": 2}, on_progress=progress.append) as cluster:
        total = await asyncio.to_thread(compute_a_sum, cluster.ready)
        assert await asyncio.to_thread(rechunk_by_p2p, cluster.ready) == 40 * 40
        await asyncio.sleep(0.6)  # a heartbeat
        pid, ready, state = cluster.pid, cluster.ready, await cluster.state()
    assert [(step.ready, step.total) for step in progress][-1] == (2, 2)
    assert (ready.engine, ready.workers, ready.cpu_reason) == ("cpu", 2, "")
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


async def test_closing_takes_under_five_seconds_even_when_a_worker_is_stuck(tmp_path):
    begun = tmp_path / "begun"

    async with running_cluster() as cluster:
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        stuck = client.submit(hold_gil, 60, begun)
        await asyncio.to_thread(wait_until, begun.exists)
        with promised(5.5):
            await cluster.close()
        stuck.cancel()
        await asyncio.to_thread(client.close, 1)
        pid = cluster.pid
    assert pids_of_session(pid) == []


async def test_a_client_that_shuts_down_the_cluster_is_the_reason_of_its_loss_before_its_processes_have_ended():
    losses, pids = [], []

    def lose(loss):
        losses.append((loss, pids_of_session(pids[0])))

    async with running_cluster(on_lost=lose) as cluster:
        pids.append(cluster.pid)
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        await asyncio.to_thread(client.shutdown)
        await asyncio.to_thread(wait_until, lambda: losses)
        assert not cluster.running
        await cluster.close()
        assert pids_of_session(cluster.pid) == []
    [(loss, left)] = losses
    assert loss.reason.startswith("A client or Dask's idle timeout has shut down the cluster;")
    assert loss.log == ""
    assert left != []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_signal_to_the_supervisor_ends_everything_and_who_waits_is_told(monkeypatch, number):
    monkeypatch.setattr(kernel_client, "_REASON_TIMEOUT", 0.5)  # nobody tells the client the reason
    losses = []

    async with running_cluster(on_lost=losses.append) as cluster:
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        future = client.submit(time.sleep, 1000)
        waiting = asyncio.create_task(asyncio.to_thread(future.result))
        await asyncio.to_thread(wait_until, lambda: any(client.processing().values()))
        os.kill(cluster.pid, number)
        await asyncio.to_thread(wait_until, lambda: losses)
        with pytest.raises(ClusterLostError):
            await cluster.state()
        with pytest.raises(ResultsLostError, match="The connection to the scheduler of the cluster was lost"):
            await waiting
        await asyncio.to_thread(client.close, 1)
        pid = cluster.pid
    assert len(losses) == 1
    assert ("SIGKILL" in str(losses[0])) == (number == signal.SIGKILL)
    assert pids_of_session(pid) == []
    assert leftover_directories() == []


def test_state_and_log_report_the_workers_that_were_killed_or_used_too_much_memory_and_not_those_restarted():
    with RunningCluster(CPU | {"memory_limit": 500_000_000}) as cluster:
        client, process = cluster.client, cluster.process

        def next_exit(pid, number):
            # The nanny logs it before the scheduler knows; `state` also reads the log.
            wait_until(lambda: len(cluster.state().worker_exits) >= number and f"process {pid} " in process.log())
            return cluster.state().worker_exits[number - 1]

        restarted = cluster.state().workers[0].pid
        client.restart()
        killed = cluster.state().workers[0].pid
        assert restarted != killed
        os.kill(killed, signal.SIGKILL)
        end = next_exit(killed, 1)
        assert (end.worker, end.pid, end.reason) == ("0", killed, "was killed by signal 9")
        assert not end.over_memory_limit
        assert abs(end.time - time.time()) < 60
        assert f"Worker process {killed} was killed by signal 9" in process.log()
        assert re.search(r"^\d{4}-\d\d-\d\d .* - distributed.nanny - ", process.log(), re.MULTILINE), (
            "Dask logs the time"
        )
        assert f"Worker process {restarted} " not in process.log()
        client.wait_for_workers(1, timeout=60)
        pid = next(iter(client.run(os.getpid).values()))
        hog = client.submit(lambda: b"x" * 600_000_000, pure=False)
        end = next_exit(pid, 2)
        hog.cancel()
        assert (end.pid, end.over_memory_limit) == (pid, True)
        assert re.fullmatch(r"used \d+ MiB of host memory, and its limit is 477 MiB", end.reason)
        assert f"(pid={pid}) exceeded 95% memory budget" in process.log()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
async def test_neither_a_worker_that_is_stuck_in_compiled_code_nor_the_fork_server_outlives_a_killed_supervisor(
    monkeypatch, tmp_path, method
):
    monkeypatch.setenv("DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD", method)
    begun = tmp_path / "begun"

    async with running_cluster() as cluster:
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        stuck = client.submit(hold_gil, 60, begun)
        await asyncio.to_thread(wait_until, begun.exists)
        processes = pids_of_session(cluster.pid)
        assert len(processes) >= (3 if method == "forkserver" else 2)
        # Stopped, the launcher cannot help: it is Linux that must end the worker.
        cluster._reading.cancel()
        os.kill(cluster.pid, signal.SIGKILL)
        with promised(3):
            await asyncio.to_thread(wait_until, lambda: not pids_of_session(cluster.pid), 120)
        stuck.cancel()
        await asyncio.to_thread(client.close, 1)


PARENT = """
import asyncio, os, sys, time
from distributed.protocol.pickle import dumps
from jupyter_gpudask.launcher.cluster import ClusterProcess
from jupyter_gpudask.protocol.messages import PROTOCOL_VERSION
from jupyter_gpudask.protocol.spec import ClusterSpec

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


@pytest.mark.parametrize("hindrance", ["fork", "busy"])
def test_nothing_outlives_the_parent_by_three_seconds_and_its_end_takes_little_processor_time(hindrance):
    """On a machine with much other work, much processor time would take many times as long."""
    with subprocess.Popen([sys.executable, "-c", PARENT, hindrance], stdout=subprocess.PIPE, text=True) as parent:
        supervisor = psutil.Process(int(parent.stdout.readline()))
        children = psutil.Process(parent.pid).children()
        assert len(pids_of_session(supervisor.pid)) >= 2
        before = after = sum(supervisor.cpu_times()[:2])
        with promised(3):
            parent.kill()
            parent.stdout.close()
            with suppress(psutil.Error):
                while supervisor.status() != psutil.STATUS_ZOMBIE:
                    after = sum(supervisor.cpu_times()[:2])
                    time.sleep(0.005)
            wait_until(lambda: not pids_of_session(supervisor.pid), 120)
        for child in children:
            if child != supervisor and child.is_running():
                child.kill()
    assert hindrance != "fork" or after - before < 0.2
    assert leftover_directories() == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (CPU | {"start_timeout": 0.01}, "0 of 1 workers were up after 0.01 s"),
        (CPU | {"environment": {"PYTHONHOME": "/nonexistent"}}, "A worker died while it started"),
    ],
)
async def test_a_cluster_that_does_not_come_up_fails_loudly_and_leaves_nothing(options, sentence):
    def processes():
        children = psutil.Process().children(recursive=True)
        return {child.pid for child in children if "jupyter_gpudask" in str(command_line(child))}

    others = processes()  # of clusters that other tests share
    with pytest.raises(ClusterStartError, match=sentence):
        async with running_cluster(options):
            pytest.fail("it came up")
    assert leftover_directories() == []
    assert processes() <= others


@pytest.fixture(scope="module")
def with_tls():
    with RunningCluster(CPU | {"protocol": "tcp"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def on_sockets():
    options = CPU | {"environment": "COLOUR=green", "resources": "GPU=1", "threads": 1}
    with RunningCluster(options, environment={**os.environ, "COLOUR": "blue"}) as cluster:
        yield cluster


def test_a_client_without_the_credentials_gets_nothing(with_tls):
    address, other = with_tls.process.ready.address, Security.temporary()
    workers = list(with_tls.client.scheduler_info()["workers"])
    assert [each.rpartition(":")[0] for each in workers] == ["tls://127.0.0.1"]

    def plain(address):
        return address.replace("tls://", "tcp://")

    async def run():
        for where, security in ((plain(address), None), (address, other)):
            with pytest.raises((OSError, TimeoutError)):
                await Client(where, security=security, asynchronous=True, timeout=2, set_as_default=False)
        for where, security in ((plain(workers[0]), Security()), (workers[0], other)):
            with pytest.raises((OSError, TimeoutError)):
                async with rpc(where, connection_args=security.get_connection_args("worker"), timeout=2) as worker:
                    await worker.identity()

    with_tls.run(run())
    assert with_tls.client.submit(sum, range(101)).result() == 5050


def test_a_client_refuses_a_scheduler_without_the_key_of_the_cluster(with_tls):
    heard = []

    async def hear(_, writer):
        heard.append(True)
        writer.close()

    async def run():
        own, other = with_tls.process.ready.credentials, Security.temporary()
        assert load_pem_private_key(own.key.encode(), None).key_size == 2048
        context = other.get_listen_args("scheduler")["ssl_context"]
        context.verify_mode = ssl.CERT_NONE  # the impostor accepts everybody
        async with await asyncio.start_server(hear, "127.0.0.1", 0, ssl=context) as impostor:
            address = f"tls://127.0.0.1:{impostor.sockets[0].getsockname()[1]}"
            given = TlsCredentials(ca=other.tls_ca_file, certificate=other.tls_client_cert, key=other.tls_client_key)
            for credentials, is_heard in ((own, False), (given, True)):
                ready = with_tls.process.ready.model_copy(update={"address": address, "credentials": credentials})
                with pytest.raises(OSError):  # noqa: PT011 - whichever it is
                    await asyncio.to_thread(connect, ready, set_as_default=False, timeout=IMPOSTOR_LIMIT)
                assert bool(heard) is is_heard

    with_tls.run(run())


IMPOSTOR_LIMIT = 5

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
    with RunningCluster(CPU, environment={**os.environ, "PYTHONPATH": str(tmp_path)}) as cluster:
        assert cluster.process.ready.address.startswith("tls://127.0.0.1:")
        assert cluster.client.submit(sum, range(101)).result() == 5050


@pytest.mark.parametrize(("fixture", "count"), [("on_sockets", 2), ("with_tls", 5)])
def test_every_port_is_on_the_loopback_address(fixture, count, request):
    process = request.getfixturevalue(fixture).process
    ports = addresses_of_session(process.pid)
    assert len(ports) == count  # HTTP servers; scheduler, nanny and worker
    assert process.ready.dashboard_port is None
    assert {port.ip for port in ports} == {"127.0.0.1"}
    assert 8787 not in [port.port for port in ports]


def test_the_environment_and_resources_reach_the_workers_and_their_logs_have_what_tasks_print(on_sockets):
    def look(dask_worker):
        state, memory = dask_worker.state, dask_worker.memory_manager.memory_limit
        return os.environ.get("COLOUR"), state.total_resources, state.nthreads, memory

    def speak():
        sys.stdout.write("a word from the worker\n")
        sys.stdout.flush()

    assert list(on_sockets.client.run(look).values()) == [("green", {"GPU": 1.0}, 1, MEMORY_LIMIT)]
    on_sockets.client.submit(speak).result()
    assert "a word from the worker" in on_sockets.run(on_sockets.process.worker_log("0"))
    assert on_sockets.run(on_sockets.process.worker_log("1")) == ""


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
