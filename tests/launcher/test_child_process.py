"""The pid of a supervisor: it is nobody else's as long as it is used, and is not used afterwards."""

import asyncio
import os
import signal
import sys

import psutil

from jupyter_gpudask.launcher.cluster_process import ChildProcess, ClusterProcess
from jupyter_gpudask.protocol import ClusterSpec


def test_a_process_that_has_ended_keeps_its_pid_until_it_is_let_go():
    async def run():
        child = await ChildProcess.start([sys.executable, "-c", "exit(3)"], None, limit=2**16)
        await child.ended()
        status = psutil.Process(child.pid).status()
        await child.wait()
        child.close()
        return status, child.returncode, psutil.pid_exists(child.pid)

    assert asyncio.run(run()) == (psutil.STATUS_ZOMBIE, 3, False)


def test_a_process_that_was_killed_says_by_what():
    async def run():
        child = await ChildProcess.start(["sleep", "60"], None, limit=2**16)
        await child.kill()
        return child.returncode

    assert asyncio.run(run()) == -signal.SIGKILL


def test_to_close_a_cluster_that_was_lost_does_not_kill_who_has_the_pid_of_its_supervisor_now():
    lost = asyncio.Event()

    async def run():
        spec = ClusterSpec.parse({"engine": "cpu", "workers": 1})
        cluster = await ClusterProcess.start(spec, on_lost=lambda _: lost.set())
        os.kill(cluster.pid, signal.SIGKILL)
        await asyncio.wait_for(lost.wait(), 30)
        other = await ChildProcess.start(["sleep", "60"], None, limit=2**16)
        cluster._process.pid = other.pid  # as when Linux has given the number to another
        await cluster.close()
        await asyncio.sleep(0.2)
        code = other.returncode
        await other.kill()
        return code

    assert asyncio.run(run()) is None
