"""What a user reads if the workers of a task end."""

import asyncio
import os
import signal
import sys

import pytest

from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.errors import WorkersEndedError
from jupyter_gpudask.launcher.cluster_process import ClusterProcess
from jupyter_gpudask.protocol import ClusterSpec

pytestmark = pytest.mark.cluster

ONE_FAILURE = {"distributed": {"scheduler": {"allowed-failures": 1}}}


def error_of(function, **options):
    """The error of a task on a cluster with one worker, where Dask gives a task up after two exits."""

    async def run():
        spec = ClusterSpec.parse({"engine": "cpu", "workers": 1} | options)
        cluster = await ClusterProcess.start(spec, path=sys.path, settings=ONE_FAILURE)
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        try:
            with pytest.raises(WorkersEndedError) as raised:
                await asyncio.to_thread(lambda: client.submit(function).result(100))
            return raised.value
        finally:
            await asyncio.to_thread(client.close, 2)
            await cluster.close()

    return asyncio.run(run())


def grow():
    import time

    held = bytearray(1) * 10**9
    time.sleep(60)
    return len(held)


def test_a_task_that_needs_more_host_memory_than_its_worker_may_use_is_told_how_much_and_the_option():
    error = error_of(grow, memory_limit="500MB")
    reason, end = error.reason.rsplit(" MiB of host memory", 1)
    assert reason.startswith("Each worker process that had the task grow ended, 2 in all. The last one used ")
    assert int(reason.rsplit(" ", 1)[1]) > 450
    assert end == ", and its limit is 477 MiB."
    assert "%gpudask restart --memory-limit" in error.fix
    assert error.__cause__ is None


def crash():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_that_kills_its_worker_is_told_the_signal():
    error = error_of(crash)
    assert "The last one was killed by signal 9." in error.reason
    assert error.fix == "Type: %gpudask logs"
