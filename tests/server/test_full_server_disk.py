"""A server whose disk is full: its clusters keep running."""

import asyncio

import psutil
import pytest
from helpers import fake_gpu_environment, fill_disk, small_disk, wait_until
from managers import policy_of

from jupyter_gpudask.machine.leases import LeaseFolder
from jupyter_gpudask.server.kernel_socket import KernelSocket
from jupyter_gpudask.server.manager import ClusterManager
from jupyter_gpudask.server.monitor import Monitor

pytestmark = pytest.mark.cluster


class NoKernels:
    """The kernels of a server that has none."""


def notebook(server, path, **request):
    content = {"type": "notebook", "format": "json", "content": {"cells": [], "metadata": {}, "nbformat": 4}}
    content["content"] |= {"nbformat_minor": 5}
    return server.fetch(f"contents/{path}", "PUT", content, prefix="api/", **request)


def test_saving_and_renaming_a_notebook_on_a_full_disk_does_not_affect_its_cluster(own_server, tmp_path):
    with small_disk(tmp_path / "notebooks") as root, small_disk(tmp_path / "runtime") as runtime:
        environment = fake_gpu_environment(FAKE_GPUS="1", JUPYTER_RUNTIME_DIR=str(runtime))
        server = own_server(environment=environment)
        try:
            assert notebook(server, "before.ipynb").status == 201
            kernel = server.kernel("before.ipynb")
            pid = server.start(kernel, engine="auto", workers=None)["pid"]
            session = server.fetch("sessions", prefix="api/").body[0]
            other = server.kernel("other.ipynb")
            fill_disk(root)
            fill_disk(runtime)

            saved = notebook(server, "before.ipynb")
            assert saved.status == 500
            renamed = server.fetch(f"sessions/{session['id']}", "PATCH", {"path": "after.ipynb"}, prefix="api/")
            assert renamed.status == 200
            server.fetch("gpus")  # updates the names of the holders
            wait_until(lambda: server.cluster(kernel)["notebooks"] == ["after.ipynb"])
            refused = server.start(other, engine="auto", workers=None)

            cluster = server.cluster(kernel)
            assert (cluster["status"], cluster["pid"], len(cluster["state"]["workers"])) == ("ready", pid, 1)
            assert refused["status"] == "failed"
            assert [lease.pid for lease in LeaseFolder(runtime / "gpudask-leases").read()] == [pid]
        finally:
            server.stop()


def test_a_socket_that_cannot_be_created_is_logged_in_one_line_and_leaves_no_process(tmp_path, caplog):
    async def run(path):
        before = len(psutil.Process().children())
        manager = ClusterManager(NoKernels(), policy_of())
        socket = KernelSocket(manager, Monitor(manager), path)
        await socket.open()
        children = len(psutil.Process().children()) - before
        await socket.close()
        return children

    with small_disk(tmp_path / "runtime", files=1) as runtime:  # the folder itself
        assert asyncio.run(run(runtime / "gpudask.sock")) == 0
        (line,) = caplog.messages
        assert line.startswith(
            f"Kernels cannot request clusters: the socket {runtime}/gpudask.sock cannot be created: "
        )
        assert line.endswith("No space left on device.")
