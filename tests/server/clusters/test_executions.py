"""Whether a real kernel executes a cell, whatever else it answers meanwhile."""

import asyncio
import os
import signal
import time

import pytest
from helpers import wait_until
from jupyter_client import BlockingKernelClient
from jupyter_server.gateway.managers import GatewayKernelManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

from jupyter_gpudask.server.kernels import Executions, ServerKernels

pytestmark = pytest.mark.cluster


async def until(condition, limit=60.0):
    async with asyncio.timeout(limit):
        while not condition():
            await asyncio.sleep(0.02)


async def until_idle(kernel, client):
    """Until the manager has seen an answer; it does not see those before its subscription reaches the kernel."""
    async with asyncio.timeout(60):
        while kernel.execution_state != "idle":
            client.kernel_info()
            await asyncio.sleep(0.5)


def with_kernel(use):
    async def run():
        manager = AsyncMappingKernelManager(connection_dir=os.environ["JUPYTER_RUNTIME_DIR"])
        kernel_id = await manager.start_kernel(kernel_name="python3")
        kernels = ServerKernels(manager, None)
        kernels.watch(kernel_id)
        client = BlockingKernelClient()
        client.load_connection_file(manager.get_kernel(kernel_id).connection_file)
        client.start_channels(hb=False)
        try:
            await until_idle(manager.get_kernel(kernel_id), client)
            await use(manager, kernels, kernel_id, client)
        finally:
            client.stop_channels()
            await manager.shutdown_kernel(kernel_id, now=True)
            kernels.forget(kernel_id)

    asyncio.run(run())


def test_a_kernel_is_busy_during_a_cell_although_it_answers_a_request_on_the_control_channel():
    async def use(manager, kernels, kernel_id, client):
        kernel = manager.get_kernel(kernel_id)
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

    with_kernel(use)


def test_a_kernel_that_was_restarted_during_a_cell_is_not_busy_and_its_next_cell_is_noticed():
    async def use(manager, kernels, kernel_id, client):
        client.execute("import time; time.sleep(600)")
        await until(lambda: kernels.is_busy(kernel_id))
        pid = manager.get_kernel(kernel_id).provisioner.pid
        os.kill(pid, signal.SIGKILL)
        await manager.restart_kernel(kernel_id)
        manager.get_kernel(kernel_id).execution_state = "busy"  # as if Jupyter missed the new kernel's first message
        kernels.watch(kernel_id)
        assert not kernels.is_busy(kernel_id)
        assert kernels.last_cell(kernel_id) == 0.0
        async with asyncio.timeout(60):
            while not kernels.last_cell(kernel_id):
                client.execute("1")
                await asyncio.sleep(0.5)

    with_kernel(use)


def test_a_kernel_that_is_not_watched_is_as_busy_as_jupyter_says():
    async def use(manager, kernels, kernel_id, client):
        kernels.forget(kernel_id)
        client.execute("import time; time.sleep(600)")
        await until(lambda: manager.get_kernel(kernel_id).execution_state == "busy")
        assert kernels.is_busy(kernel_id)
        assert kernels.last_cell(kernel_id) == 0.0

    with_kernel(use)


def test_a_kernel_of_a_gateway_is_not_listened_to():
    executions = Executions()
    executions.watch("k", GatewayKernelManager())
    assert executions._watched == {}
    assert not executions.are_running("k")


def test_a_cluster_is_not_closed_for_being_idle_while_its_kernel_runs_a_cell_and_answers_something_else(own_server):
    server = own_server("--GpuDask.idle_timeout=2")
    kernel = server.kernel()
    client = kernel.client
    client.execute("import time; time.sleep(600)")
    wait_until(lambda: kernel_state(server, kernel) == "busy")
    server.start(kernel)
    for _ in range(12):  # three times the timeout
        client.control_channel.send(client.session.msg("usage_request", {}))
        time.sleep(0.5)
    assert kernel_state(server, kernel) == "idle"
    assert server.cluster(kernel)["status"] == "ready"
    server.fetch(f"kernels/{kernel.id}/interrupt", "POST", {}, prefix="api/")
    wait_until(lambda: server.cluster(kernel)["status"] == "closed")
    assert "without work" in server.cluster(kernel)["reason"]


def kernel_state(server, kernel):
    return server.fetch(f"kernels/{kernel.id}", prefix="api/").body["execution_state"]
