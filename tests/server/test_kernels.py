"""The kernels of a server: interpreter, names, and whether they execute cells."""

import asyncio
import json
import os
import signal
import sys
import time
from types import SimpleNamespace

import psutil
import pytest
from helpers import ONE_WORKER, command_line, wait_until
from jupyter_client import BlockingKernelClient
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from managers import until

from jupyter_gpudask.errors import KernelUnsuitableError
from jupyter_gpudask.server.kernels import ServerKernels, _interpreter_of

pytestmark = pytest.mark.cluster


def add_kernelspec(server, name, argv, language="python"):
    folder = server.root.parent / "data" / "kernels" / name
    folder.mkdir(parents=True)
    specification = {"argv": argv, "display_name": name, "language": language}
    (folder / "kernel.json").write_text(json.dumps(specification))


def test_a_cluster_has_the_interpreter_and_environment_of_its_python_kernel_behind_a_launcher(server_in):
    server = server_in(lambda folder: {**os.environ, "JUPYTER_PATH": str(folder / "data")})
    python = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    add_kernelspec(server, "wrapped", ["/bin/sh", "-c", 'export COLOUR=red; "$@"; true', "sh", *python])
    add_kernelspec(server, "other", ["/bin/sh", "-c", "sleep 60", "{connection_file}"], language="R")
    kernel_id = server.fetch("kernels", "POST", {"name": "wrapped"}, prefix="api/").body["id"]
    wait_until(lambda: any(kernel_id in text for text in command_lines()))
    server.fetch("clusters", "POST", {"kernel_id": kernel_id, "spec": ONE_WORKER})
    wait_until(lambda: server.fetch(f"clusters/{kernel_id}").body["status"] != "starting", 40)
    cluster = server.fetch(f"clusters/{kernel_id}").body
    assert cluster["status"] == "ready", cluster
    supervisor = psutil.Process(cluster["pid"])
    assert (supervisor.environ()["COLOUR"], supervisor.cmdline()[0]) == ("red", sys.executable)
    server.fetch(f"kernels/{kernel_id}", "DELETE", prefix="api/")

    kernel_id = server.fetch("kernels", "POST", {"name": "other"}, prefix="api/").body["id"]
    server.fetch("clusters", "POST", {"kernel_id": kernel_id})
    wait_until(lambda: server.fetch(f"clusters/{kernel_id}").body["status"] == "failed")
    assert server.fetch(f"clusters/{kernel_id}").body["reason"] == "This kernel is not a Python kernel."
    server.fetch(f"kernels/{kernel_id}", "DELETE", prefix="api/")


def command_lines():
    lines = (" ".join(command_line(process)) for process in psutil.process_iter())
    return [line for line in lines if "ipykernel_launcher" in line]


def test_a_process_that_reuses_the_pid_of_a_dead_kernel_is_not_taken_for_it():
    with pytest.raises(KernelUnsuitableError, match="cannot be inspected"):
        _interpreter_of(os.getpid(), "kernel-1234.json")


class Sessions:
    """A session manager that lists these sessions."""

    def __init__(self, *sessions):
        self.sessions = sessions

    async def list_sessions(self):
        return list(self.sessions)


def test_a_console_has_the_name_of_its_tab_and_a_notebook_its_path():
    sessions = Sessions(
        {"kernel": {"id": "a"}, "type": "notebook", "path": "work/one.ipynb", "name": "old.ipynb"},
        {"kernel": {"id": "b"}, "type": "console", "path": "work/console-1-5f2c", "name": "Console 1"},
        {"kernel": {"id": "a"}, "type": "console", "path": "console-2-77aa", "name": ""},
        {"kernel": None, "type": "notebook", "path": "work/two.ipynb", "name": "two.ipynb"},
    )
    assert asyncio.run(ServerKernels(None, sessions).notebooks()) == {
        "a": ("work/one.ipynb", "console-2-77aa"),
        "b": ("work/Console 1",),
    }


class KernelManager:
    """A kernel manager whose kernels have these processes."""

    def __init__(self, **pids):
        self.pids = pids

    def __contains__(self, kernel_id):
        return kernel_id in self.pids

    def list_kernel_ids(self):
        return list(self.pids)

    def get_kernel(self, kernel_id):
        return SimpleNamespace(kernel_name="python3", provisioner=SimpleNamespace(pid=self.pids[kernel_id]))


def test_processes_of_notebooks_with_the_same_name_are_named_by_their_paths():
    notebooks = {"a": ("one/train.ipynb",), "b": ("two/train.ipynb",), "c": ("one/other.ipynb",)}
    kernels = ServerKernels(KernelManager(a=1, b=2, c=3, d=4), None)
    assert {pid: kernel.notebook for pid, kernel in kernels.processes(notebooks).items()} == {
        1: "one/train.ipynb",
        2: "two/train.ipynb",
        3: "other.ipynb",
        4: "python3",
    }


async def until_idle(kernel, client):
    """Until the manager has seen an answer; it does not see those before its subscription reaches the kernel."""
    async with asyncio.timeout(60):
        while kernel.execution_state != "idle":
            client.kernel_info()
            await asyncio.sleep(0.5)


async def test_a_kernel_is_busy_while_it_executes_a_cell_whatever_else_it_answers():
    async def use(manager, kernels, kernel_id, client):
        kernel = manager.get_kernel(kernel_id)
        await until_idle(kernel, client)
        client.execute("1")
        await until(lambda: kernels.last_cell(kernel_id) and not kernels.is_busy(kernel_id))
        ended = kernels.last_cell(kernel_id)
        client.execute("import time; time.sleep(600)")
        await until(lambda: kernels.is_busy(kernel_id))
        client.control_channel.send(client.session.msg("usage_request", {}))
        await until(lambda: kernel.execution_state == "idle")  # as Jupyter reports it
        assert kernels.is_busy(kernel_id)
        assert kernels.last_cell(kernel_id) == ended
        await kernel.interrupt_kernel()
        await until(lambda: not kernels.is_busy(kernel_id))
        assert time.monotonic() - kernels.last_cell(kernel_id) < 60

        client.execute("import time; time.sleep(600)")  # during which the kernel is restarted
        await until(lambda: kernels.is_busy(kernel_id))
        os.kill(kernel.provisioner.pid, signal.SIGKILL)
        await manager.restart_kernel(kernel_id)
        kernel.execution_state = "busy"  # as if Jupyter missed the new kernel's first message
        kernels.watch(kernel_id)
        assert not kernels.is_busy(kernel_id)
        before = kernels.last_cell(kernel_id)
        async with asyncio.timeout(60):
            while kernels.last_cell(kernel_id) == before:
                client.execute("1")
                await asyncio.sleep(0.5)

        kernels.forget(kernel_id)  # it is as busy as Jupyter says, then
        await until(lambda: not kernels.is_busy(kernel_id))
        client.execute("import time; time.sleep(600)")
        await until(lambda: kernel.execution_state == "busy")
        assert kernels.is_busy(kernel_id)
        assert kernels.last_cell(kernel_id) == 0.0

    manager = AsyncMappingKernelManager(connection_dir=os.environ["JUPYTER_RUNTIME_DIR"])
    kernel_id = await manager.start_kernel(kernel_name="python3")
    kernels = ServerKernels(manager, None)
    kernels.watch(kernel_id)
    client = BlockingKernelClient()
    client.load_connection_file(manager.get_kernel(kernel_id).connection_file)
    client.start_channels(hb=False)
    try:
        await use(manager, kernels, kernel_id, client)
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(kernel_id, now=True)
        kernels.forget(kernel_id)
