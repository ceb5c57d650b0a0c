"""A kernel and its server share the kernel's cluster, whichever of them started it."""

import asyncio
import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from helpers import ON_GPUS, ONE_WORKER, START_ONE, fake_gpu_environment, promised, wait_until, without_gpus

from jupyter_gpudask.machine.unix_socket import bind_socket, connect_socket, peer_of, socket_path
from jupyter_gpudask.protocol.messages import AttachOrStart, Interpreter
from jupyter_gpudask.server.kernel_socket import KernelSocket

pytestmark = pytest.mark.cluster

LOAD = "%load_ext jupyter_gpudask"


@pytest.fixture(scope="module")
def server(server_in):
    return server_in(options=["--GpuDask.price_per_gpu_hour=3", "--GpuDask.currency=EUR"])


@pytest.fixture
def kernel(kernel):
    """A kernel with the magics."""
    kernel.ok(LOAD)
    return kernel


INTERRUPTED_ONCE = """
from jupyter_gpudask.client import connect as module
connect = module.connect
def interrupted(*arguments, **options):
    module.connect = connect
    raise KeyboardInterrupt
module.connect = interrupted
"""


def test_the_magic_uses_the_cluster_that_the_browser_started_also_after_an_interrupted_attach(server, kernel):
    assert kernel.run("%gpudask status").error_value.startswith("This kernel has no cluster.")
    kernel.ok("import sys; sys.path.insert(0, '/a/folder')")
    pid = server.start(kernel)["pid"]
    kernel.ok(INTERRUPTED_ONCE)
    assert kernel.run("%gpudask status").error == "KeyboardInterrupt"
    attached = kernel.ok("%%gpudask\n1")
    assert not any(text.startswith("Started: ") for text in attached.displayed)
    assert "State at" in kernel.ok("%gpudask status").displayed[0]
    started = kernel.ok(START_ONE)
    assert "already running" in started.value
    assert f'<a href="{server.base}gpudask/dashboard/{kernel.id}/status" target="_blank">' in started.html[-1]
    assert "other options" in kernel.run("%gpudask start --cpu 2").error_value
    path = kernel.ok(f"started = {START_ONE}\nset(started.client.run(lambda: sys.path[0]).values())").value
    assert path == "{'/a/folder'}"
    assert "Scheduler" in kernel.ok("%gpudask logs").value
    ready = "get_ipython().magics_manager.registry['GpuDaskMagics'].session.cluster.ready"
    assert kernel.ok(f"{ready}.price_per_gpu_hour, {ready}.currency").value == "(3.0, 'EUR')"
    assert server.supervisors() == [pid]
    kernel.ok("%gpudask stop")
    assert server.cluster(kernel) is None
    assert kernel.run("%gpudask status").error_value.startswith("This kernel has no cluster.")  # and lost none


def test_the_browser_sees_restarts_and_closes_the_cluster_that_the_magic_started(server, kernel):
    kernel.ok("import os, sys; os.environ['COLOUR'] = 'green'; sys.path.insert(0, '/a/folder')")
    kernel.ok("os.environb[b'NO_TEXT'] = b'\\xe9'")
    kernel.ok("import dask; dask.config.set({'colours.of.workers': 3})")
    started = kernel.ok(f"started = {START_ONE}\nstarted").value
    assert ("CPU cluster" in started) is not ON_GPUS
    assert "dashboard" not in started
    cluster = server.cluster(kernel)
    assert (cluster["status"], cluster["workers_ready"], server.supervisors()) == ("ready", 1, [cluster["pid"]])
    look = (
        "def look():\n    import dask, os, sys\n    colours = dask.config.get('colours.of.workers', None)\n"
        "    return os.environ.get('COLOUR'), sys.path[0], sys.executable, colours\n"
    )
    found = kernel.ok(f"{look}started.client.submit(look).result()").value
    assert found == str(("green", "/a/folder", sys.executable, 3))

    # The client has one link, which opens the dashboard through the server.
    path = f"{server.base}gpudask/dashboard/{kernel.id}/status"
    shown = kernel.ok("started.client").html[-1]
    assert kernel.ok("started.client.dashboard_link").value == repr(path)
    assert (re.findall('href="([^"]*)"', shown), re.findall("https?://", shown)) == ([path], [])
    assert "href" not in kernel.ok("started.client.scheduler_info()").html[-1]
    assert b"Dask" in server.fetch(path.removeprefix(server.base), prefix="").text

    server.fetch(f"clusters/{kernel.id}/restart", "POST", {"spec": {"threads": 1}})
    server.settled(kernel)
    cell = "%%gpudask\nimport dask.array as da\nda.ones(10).sum().compute()"
    assert "10" in kernel.ok(cell).value
    assert len(server.supervisors()) == 1
    server.fetch(f"clusters/{kernel.id}", "DELETE")
    assert "The cluster was closed" in kernel.run("%gpudask status").error_value
    displayed = kernel.ok(cell).displayed
    assert any("The cluster was closed; its results are lost. A new" in text for text in displayed)
    assert server.cluster(kernel)["status"] == "ready"


def test_the_magics_use_and_keep_the_gpus_of_the_cluster_that_the_browser_started(own_server):
    server = own_server("--GpuDask.hand_over_after=1", environment=fake_gpu_environment(FAKE_GPUS="2"))
    kernel, other = server.kernel(), server.kernel()
    pid = server.start(kernel, engine="cuda", gpus="all", workers=None)["pid"]
    kernel.ok(LOAD)
    assert "asked for: --gpus all instead of 1." in kernel.run("%gpudask start --gpus 1").error_value
    for gpus in ("2", "0,1"):  # the server answers the first, the kernel the second
        assert "already running" in kernel.ok(f"%gpudask start --gpus {gpus}").value
    assert "asked for: --gpus all instead of 1,." in kernel.run("%gpudask start --gpus 1,").error_value
    assert server.supervisors() == [pid]

    assert kernel.ok("%gpudask keep").value == "The cluster keeps its GPUs; its idle time begins anew."
    request = {"kernel_id": other.id, "spec": {"gpus": 1, "wait": True}}
    assert server.fetch("clusters", "POST", request).status == 202
    wait_until(lambda: server.cluster(kernel)["given_over_at"], 60)
    kept = kernel.ok("%gpudask keep").value
    assert kept.startswith("The cluster keeps its GPUs; its idle time begins anew. They are wanted by ")
    cluster = server.cluster(kernel)
    assert (cluster["status"], cluster["given_over_at"]) == ("ready", None)
    assert server.cluster(other)["status"] == "starting"


def restart(server, kernel):
    server.fetch(f"kernels/{kernel.id}/restart", "POST", {}, prefix="api/")
    kernel.disconnect()
    kernel.ok(LOAD)


@without_gpus
def test_a_restarted_kernel_gets_its_cluster_reset_and_may_change_its_options_until_it_uses_it(server, kernel):
    def pids():
        cluster = server.cluster(kernel)
        return cluster["pid"], cluster["state"]["workers"][0]["pid"]

    def order(workers):
        spec = {"engine": "cpu", "workers": workers}
        return server.fetch("clusters", "POST", {"kernel_id": kernel.id, "spec": spec}).status

    kernel.ok(f"%gpudask on\nstarted = {START_ONE}")
    wait_until(lambda: server.cluster(kernel)["automatic"])
    kernel.ok("%gpudask off")
    wait_until(lambda: not server.cluster(kernel)["automatic"])
    kernel.ok("%config GpuDask.on = True")
    wait_until(lambda: server.cluster(kernel)["automatic"])
    kernel.ok("%%gpudask\nimport dask.array as da\nx = da.ones(2**24, chunks=2**22).persist()")
    before = pids()
    restart(server, kernel)
    kernel.ok(f"started = {START_ONE}")
    held = kernel.ok("started.client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))")
    assert (held.value, pids(), server.cluster(kernel)["automatic"]) == ("0", before, False)

    restart(server, kernel)
    kernel.ok(f"import dask; dask.config.set({{'mine.number': 2}})\nstarted = {START_ONE}")
    assert kernel.ok("started.client.submit(lambda: dask.config.get('mine.number')).result()").value == "2"
    assert pids()[0] != before[0]

    restart(server, kernel)
    assert kernel.ok("%gpudask status").displayed  # the kernel attaches to the cluster, and does not use it
    kernel.ok("from distributed import get_client; before = get_client()")
    kernel.ok("%gpudask start --cpu 2")
    assert server.cluster(kernel)["spec"]["workers"] == 2
    assert kernel.ok("before.status, get_client().submit(sum, [1, 2]).result()").value == "('closed', 3)"
    clients = "get_client().run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.clients) - 1)"  # one is Dask's
    assert kernel.ok(clients).value == "1"
    kernel.ok("held = get_client().submit(sum, [1, 2])\nheld.result()")
    assert "asked for: --cpu 2 instead of --cpu 1" in kernel.run("%gpudask start --cpu 1").error_value
    assert order(1) == 409
    assert kernel.ok("held.result()").value == "3"
    restart(server, kernel)
    assert order(1) == 202
    assert server.settled(kernel)["status"] == "ready"
    assert (server.cluster(kernel)["spec"]["workers"], order(2)) == (1, 409)


def test_an_interrupted_start_leaves_nothing(server, kernel):
    def interrupt():
        wait_until(server.supervisors)
        os.kill(kernel.pid, 2)

    reply = kernel.run(START_ONE, on_display=interrupt)
    assert reply.error == "KeyboardInterrupt"
    assert "threading.py" not in reply.traceback
    wait_until(lambda: not server.supervisors())
    wait_until(lambda: server.cluster(kernel) is None)


def test_the_magic_stops_a_cluster_that_the_browser_is_starting_without_waiting_for_it(server, kernel):
    server.fetch("clusters", "POST", {"kernel_id": kernel.id, "spec": ONE_WORKER})
    wait_until(server.supervisors, 30)
    (pid,) = server.supervisors()
    os.kill(pid, signal.SIGSTOP)  # as slow as on a machine that does other work
    with promised(2):
        assert kernel.ok("%gpudask stop").value == "The cluster is closed."
    assert server.cluster(kernel) is None
    assert not server.supervisors()
    assert kernel.ok("%gpudask stop").value == "There was no cluster."


STRANGER = """
import os, socket, sys
caller = socket.socket(socket.AF_UNIX)
os.setuid(65534)
caller.connect(sys.argv[1])
try:
    caller.sendall(b"{}" + bytes([10]))
    print(caller.recv(100))
except OSError:
    print(b"")
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_connection_of_another_user_is_refused(caplog):
    """Even if directory and socket are accessible to all: the server checks the credentials of the peer."""

    async def run(path):
        listening = KernelSocket(None, None, path)
        await listening.open()
        path.chmod(0o666)
        stranger = await asyncio.create_subprocess_exec(
            sys.executable, "-c", STRANGER, str(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        answer = await stranger.communicate()
        await listening.close()
        return answer

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        assert asyncio.run(run(Path(folder) / "gpudask-1.sock")) == (b"b''\n", b"")
    assert "refused process" in caplog.text
    assert "of user 65534." in caplog.text


def test_an_invalid_first_message_gets_one_short_error_at_a_socket_that_only_its_user_can_open(server):
    path = socket_path(server.runtime, server.pid)
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_uid) == (0o600, os.getuid())
    for line in ("garbage", "{}", '{"type": "attach", "protocol": 99}', "x" * 5_000_000):
        answer = json.loads(answer_to(path, line))
        assert (answer["type"], answer["kind"]) == ("failed", "ProtocolError")
    options = {f"unknown{number}": 1 for number in range(300_000)}
    interpreter = Interpreter(python=sys.executable, environment={})
    request = AttachOrStart(kernel_id="none", options=options, interpreter=interpreter)
    answer = answer_to(path, request.model_dump_json())
    assert "--unknown0 1 is not allowed" in answer
    assert len(answer) < 2000


def answer_to(path, line):
    """What the server answers to a first message."""
    with connect_socket(path) as caller:
        caller.settimeout(30)
        with contextlib.suppress(BrokenPipeError):  # the server responds before it has read everything
            caller.sendall(line.encode() + b"\n")
        return caller.makefile().readline()


def test_the_socket_of_a_server_that_has_ended_is_removed_and_that_of_a_running_one_is_not(tmp_path):
    folder = tmp_path / ("a-long-name-" * 9)
    folder.mkdir()
    dead, living, new = (socket_path(folder, pid) for pid in (1, 2, 3))
    bind_socket(dead).close()
    with bind_socket(living), bind_socket(new):
        assert set(folder.iterdir()) == {living, new}
        with connect_socket(living) as caller:
            assert peer_of(caller) == (os.getpid(), os.getuid())
    assert connect_socket(dead) is None


@pytest.mark.parametrize(
    ("name", "answer"),
    [("readlink", Path("pid:[1]")), ("read_text", "b1c5e6ab-of-another-host")],
    ids=["container", "host"],
)
def test_a_socket_of_another_container_or_host_with_the_same_home_is_kept(tmp_path, monkeypatch, name, answer):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(Path, name, lambda _: answer)
        theirs = socket_path(tmp_path, 7)
        bind_socket(theirs).close()  # nobody answers, as for a socket of another host on NFS
    mine = socket_path(tmp_path, 7)
    with bind_socket(mine):
        assert set(tmp_path.iterdir()) == {theirs, mine}
        assert mine != theirs
