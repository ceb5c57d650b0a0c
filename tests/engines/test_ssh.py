"""Clusters whose workers are started over SSH: used, scaled and stopped, and what is said if a host cannot be used."""

import os
import shutil
import tempfile
from pathlib import Path

import psutil
import pytest
from faults import SilentServer
from helpers import command_line, wait_until
from servers import Server, kernel_of
from slurm import free_port
from sshd import SshServer

pytestmark = [pytest.mark.cluster, pytest.mark.engines, pytest.mark.timeout(400)]

LIMIT = 120.0
PORTS = {"interface": "lo", "worker_port": "29000:29009", "dashboard_address": "127.0.0.1:0"}
HOSTS = ["127.0.0.1", "127.0.0.1", "127.0.0.1"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A Jupyter server with presets of an SSH server."""
    pytest.importorskip("asyncssh", reason="run make test-engines")
    if shutil.which("sshd") is None:
        pytest.skip("sshd is missing: run make test-engines")
    with tempfile.TemporaryDirectory() as folder:
        ssh = SshServer(Path(folder))

        def preset(worker_options=None, **connect):
            options = {
                "hosts": HOSTS,
                "connect_options": ssh.options(**connect),
                "worker_options": worker_options or {},
            }
            return {"class": "distributed.SSHCluster", "options": options, "start_timeout": 90}

        presets = {
            "ssh": preset(worker_options={"nthreads": 1}),
            "ports": preset(worker_options=PORTS),
            "pairs": preset(worker_options={"nthreads": 1, "n_workers": 2}),
            "no-server": preset(port=free_port()),
            "no-entry": preset(key="stranger"),
            "wrong-host": preset(hosts_file="other_hosts"),
            "no-python": preset(),
            "no-key": preset(key="missing"),
            "one-host": preset(),
        }
        presets["ports"]["options"]["scheduler_options"] = {"port": 28786}
        silent = SilentServer()
        presets["hangs"] = preset(port=silent.port) | {"start_timeout": 10}
        presets["one-host"]["options"]["hosts"] = HOSTS[:1]
        presets["no-python"]["options"]["remote_python"] = "/no/python"
        server = Server(
            tmp_path_factory.mktemp("server"), f"--GpuDask.presets={presets!r}", environment=dict(os.environ)
        )
        server.silent = silent
        yield server
        server.stop()
        silent.stop()
        ssh.stop()


@pytest.fixture
def kernel(server):
    """A kernel with the magics, after which no worker is left."""
    with kernel_of(server) as kernel:
        yield kernel
    wait_until(lambda: not remote_workers(), 60)


def remote_workers():
    lines = ((process, command_line(process)) for process in psutil.process_iter())
    return [process for process, line in lines if "jupyter_gpudask" in line and "worker" in line and "--name" in line]


def listening(process):
    """The addresses on which a process listens."""
    return [each.laddr for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN]


def test_a_preset_chooses_the_ports_that_a_firewall_lets_through(kernel):
    kernel.ok("started = %gpudask start --preset ports", timeout=LIMIT)
    assert kernel.ok("started.client.scheduler.address").value == "'tls://127.0.0.1:28786'"
    ports = "[port // 10 for port in started.client.run(lambda dask_worker: dask_worker.port).values()]"
    assert kernel.ok(ports).value == "[2900, 2900]"
    addresses = {address.ip for process in remote_workers() for address in listening(process)}
    assert addresses == {"127.0.0.1"}


@pytest.mark.quick
def test_workers_on_hosts_compute_with_tls_and_are_scaled(kernel):
    kernel.ok("started = %gpudask start --preset ssh", timeout=LIMIT)
    assert kernel.ok("started.client.scheduler.address[:6]").value == "'tls://'"
    cell = kernel.ok(
        "%%gpudask\nimport dask.array as da\nda.ones((400, 400), chunks=100).sum().compute()", timeout=LIMIT
    )
    assert "160000" in cell.value
    names = "sorted(started.client.run(lambda dask_worker: dask_worker.name).values())"
    assert kernel.ok(names).value == "['127.0.0.1-0', '127.0.0.1-1']"
    key = kernel.ok("print(started.client.security.tls_client_key)").printed.split("\n")[1]
    processes = remote_workers()
    assert processes
    # Without the option interface, only where they reach the scheduler.
    assert {address.ip for process in processes for address in listening(process)} == {"127.0.0.1"}
    assert key not in str([(command_line(process), process.environ()) for process in processes])
    kernel.ok("started.client.run(print, 'from a host')")
    wait_until(lambda: "from a host" in kernel.ok("shown = %gpudask logs\nprint(shown)").printed, LIMIT)

    kernel.ok("data = started.client.scatter([1, 2, 3, 4])")
    kernel.ok("%gpudask scale 1", timeout=LIMIT)
    assert kernel.ok("sum(started.client.gather(data))").value == "10"
    wait_until(lambda: len(remote_workers()) == len(processes) // 2, LIMIT)
    kernel.ok("%gpudask scale 2", timeout=LIMIT)
    assert kernel.ok(names).value == "['127.0.0.1-0', '127.0.0.1-1']"
    refused = kernel.run("%gpudask scale 3")
    assert "3 workers were requested, and the machines of this preset have 2." in refused.error_value + refused.printed
    kernel.ok("%gpudask stop", timeout=LIMIT)
    wait_until(lambda: not remote_workers())


def test_a_host_can_have_several_workers_and_a_start_may_use_fewer_hosts(kernel):
    kernel.ok("started = %gpudask start --preset pairs --workers 2", timeout=LIMIT)
    names = "sorted(started.client.run(lambda dask_worker: dask_worker.name).values())"
    assert kernel.ok(names).value == "['127.0.0.1-0-0', '127.0.0.1-0-1']"
    kernel.ok("%gpudask scale 3", timeout=LIMIT)
    assert kernel.ok(f"len({names})").value == "4"
    kernel.ok("data = started.client.scatter(list(range(8)))\nassert len(started.client.has_what()) == 4")
    kernel.ok("%gpudask scale 1", timeout=LIMIT)
    assert kernel.ok(f"len({names})").value == "2"
    assert kernel.ok("sum(started.client.gather(data))").value == "28"


def test_the_number_of_workers_follows_the_work(server, kernel):
    kernel.ok("started = %gpudask start --preset ssh --workers 1", timeout=LIMIT)
    workers = lambda: len(server.cluster(kernel)["state"]["workers"])  # noqa: E731
    assert workers() == 1
    assert "Adaptive: 1 to 2 workers" in kernel.ok("shown = %gpudask adapt 1 2\nprint(shown)", timeout=LIMIT).printed
    kernel.ok("import time\nfutures = started.client.map(lambda i: time.sleep(1), range(60), pure=False)")
    wait_until(lambda: workers() == 2, LIMIT)
    kernel.ok("del futures")
    wait_until(lambda: workers() == 1, LIMIT)
    refused = kernel.run("%gpudask adapt 1 3")
    assert "3 workers were requested, and the machines of this preset have 2." in refused.error_value + refused.printed


def test_workers_end_if_the_supervisor_is_killed(server, kernel):
    kernel.ok("started = %gpudask start --preset ssh", timeout=LIMIT)
    psutil.Process(server.cluster(kernel)["pid"]).kill()
    wait_until(lambda: not remote_workers(), LIMIT)


@pytest.mark.parametrize(
    ("preset", "sentence"),
    [
        ("no-server", "The SSH connection to 127.0.0.1 fails: "),
        ("no-entry", "The SSH connection to 127.0.0.1 fails: Permission denied"),
        ("wrong-host", "The SSH connection to 127.0.0.1 fails: Host key is not trusted"),
        ("no-python", "/no/python"),
        ("no-key", "/missing, which the preset names for SSH, cannot be read: No such file or directory."),
        ("one-host", "The machines of the preset, 127.0.0.1, include none for workers. List the address of this"),
    ],
)
def test_a_host_that_cannot_be_used_is_a_sentence(kernel, preset, sentence):
    reply = kernel.run(f"%gpudask start --preset {preset}", timeout=LIMIT)
    assert reply.status == "error"
    assert sentence in reply.error_value + reply.printed


def test_a_host_that_never_answers_is_a_sentence_within_the_start_timeout(server, kernel):
    said = server.silent.refusal(kernel, "hangs")
    assert "The SSH connection to 127.0.0.1 fails: no answer within 5 s." in said
    wait_until(lambda: not remote_workers() and not any(map(is_used, server.supervisors())))


def is_used(pid):
    """Whether a supervisor has a cluster, and is not only ready for the next one."""
    return bool(psutil.Process(pid).net_connections("tcp"))
