"""The standby supervisor: which clusters use it, and when it ends."""

import asyncio
import os
import signal
import sys

import psutil
import pytest
from helpers import START_ONE, leftover_directories, wait_until

from jupyter_gpudask.server.clusters.kernels import Interpreter
from jupyter_gpudask.server.clusters.standby import StandbySupervisor

pytestmark = pytest.mark.cluster


@pytest.fixture
def server(own_server):
    return own_server("--GpuDask.standby=True")


def waiting(server):
    """The pid of the standby supervisor, once it is there."""
    wait_until(lambda: len(server.supervisors()) == 1)
    return server.supervisors()[0]


@pytest.mark.parametrize("who", [pytest.param("browser", marks=pytest.mark.slow), "kernel"])
def test_the_next_cluster_uses_the_standby_supervisor_and_a_new_one_is_started(server, who, gone):
    kernel = server.kernel()
    pid = waiting(server)
    if who == "browser":
        assert server.start(kernel)["pid"] == pid
    else:
        kernel.ok(f"%load_ext jupyter_gpudask\nimport os\nos.environ['JPY_COLOUR'] = 'green'\n{START_ONE}")
        assert server.cluster(kernel)["pid"] == pid
    kernel.ok(f"%load_ext jupyter_gpudask\nstarted = {START_ONE}")
    seen = kernel.ok("started.client.run_on_scheduler(lambda: __import__('os').environ.get('JPY_COLOUR'))").value
    assert seen == ("'green'" if who == "kernel" else None)
    wait_until(lambda: len(server.supervisors()) == 2)
    server.fetch(f"clusters/{kernel.id}", "DELETE")
    gone(pid)
    assert server.start(kernel)["status"] == "ready"


def test_the_standby_supervisor_is_not_used_for_a_kernel_with_other_variables(server):
    kernel = server.kernel()
    pid = waiting(server)
    kernel.ok(f"%load_ext jupyter_gpudask\nimport os\nos.environ['OMP_NUM_THREADS'] = '3'\n{START_ONE}")
    assert server.cluster(kernel)["pid"] != pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_standby_supervisor_ends_with_the_server(server, number, gone):
    kernel = server.kernel()
    pid = waiting(server)
    child = psutil.Process(kernel.pid)
    os.kill(server.pid, number)
    server.process.wait(30)
    gone(pid)
    assert leftover_directories() == []
    if child.is_running():
        child.kill()


def test_a_killed_standby_supervisor_is_not_used(server):
    kernel = server.kernel()
    os.kill(waiting(server), signal.SIGKILL)
    wait_until(lambda: not server.supervisors())
    assert server.start(kernel)["status"] == "ready"


class Kernels:
    def __init__(self):
        self.python, self.environment = sys.executable, dict(os.environ)

    async def interpreter(self, kernel_id):
        return Interpreter(self.python, self.environment)


def test_the_standby_supervisor_is_not_used_after_a_package_was_installed(tmp_path, monkeypatch):
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    os.utime(packages, (0, 0))
    kernels = Kernels()
    kernels.python = str(tmp_path / "bin" / "python")

    class Process:
        returncode = None

        async def kill(self):
            self.returncode = -9

    async def start(*_):
        return Process()

    monkeypatch.setattr("jupyter_gpudask.server.clusters.standby.start_supervisor", start)

    async def run():
        standby, interpreter = StandbySupervisor(kernels, enabled=True), await kernels.interpreter("k")
        await standby.prepare("k")
        (packages / "another").mkdir()
        assert await standby.take(interpreter) is None
        await standby.prepare("k")
        assert isinstance(await standby.take(interpreter), Process)

    asyncio.run(run())


def test_a_standby_supervisor_that_is_just_starting_is_used(monkeypatch):
    process = type("Process", (), {"returncode": None})()

    async def run():
        starting, started = asyncio.Event(), asyncio.Event()

        async def start(*_):
            starting.set()
            await started.wait()
            return process

        monkeypatch.setattr("jupyter_gpudask.server.clusters.standby.start_supervisor", start)
        kernels = Kernels()
        standby = StandbySupervisor(kernels, enabled=True)
        preparing = asyncio.create_task(standby.prepare("k"))
        await starting.wait()
        taking = asyncio.create_task(standby.take(await kernels.interpreter("k")))
        await asyncio.wait({taking}, timeout=0.5)
        started.set()
        await preparing
        assert await taking is process

    asyncio.run(run())


def test_there_is_at_most_one_standby_supervisor_and_none_after_close():
    others = {child.pid for child in psutil.Process().children()}

    def children():  # not by their command lines, which are empty for a moment when a program begins
        return {child.pid for child in psutil.Process().children()} - others

    async def run():
        kernels = Kernels()
        standby = StandbySupervisor(kernels, enabled=True)
        await asyncio.gather(*(standby.prepare("k") for _ in range(10)))
        first = children()
        kernels.environment = {**os.environ, "COLOUR": "green"}
        await standby.prepare("k")
        second = children()
        assert await standby.take(Interpreter(sys.executable, dict(os.environ))) is None
        await asyncio.to_thread(wait_until, leftover_directories, 20)  # of the process
        await standby.close()
        await standby.prepare("k")
        return first, second, children()

    first, second, after = asyncio.run(run())
    assert (len(first), len(second), after) == (1, 1, set())
    assert first != second
    wait_until(lambda: not leftover_directories())
