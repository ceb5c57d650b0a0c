"""The process of a supervisor, and the connection to a cluster."""

import asyncio
import json
import os
import signal
import sys
import time

import psutil
import pytest

from jupyter_gpudask.errors import ClusterLostError, GpuDaskError
from jupyter_gpudask.launcher.cluster import ChildProcess, ClusterConnection, ClusterProcess, _start_supervisor
from jupyter_gpudask.protocol.messages import LogText, Refused, StateReport
from jupyter_gpudask.protocol.spec import ClusterSpec
from jupyter_gpudask.protocol.state import ClusterState
from jupyter_gpudask.protocol.transport import MessageStream


def test_a_process_that_has_ended_keeps_its_pid_until_it_is_let_go():
    async def run():
        child = await ChildProcess.start([sys.executable, "-c", "exit(3)"], None, limit=2**16)
        await child.wait_for_end()
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


def test_a_kernel_with_cuml_accel_starts_a_supervisor_without_it():
    async def run():
        supervisor = await _start_supervisor(sys.executable, {**os.environ, "CUML_ACCEL_ENABLED": "1"})
        environment = psutil.Process(supervisor.pid).environ()
        await supervisor.kill()
        return environment

    assert asyncio.run(run()) == {name: value for name, value in os.environ.items() if name != "CUML_ACCEL_ENABLED"}


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


REPORT = StateReport(state=ClusterState(engine="cpu", status="ready", time=time.time()))


class Pipe:
    """Answers each command with what was prepared for it, made of the command's id."""

    def __init__(self, reader, *answers):
        self._reader = reader
        self._answers = iter(answers)

    def is_closing(self):
        return False

    def write(self, line):
        for event in next(self._answers)(json.loads(line)["id"]):
            self._reader.feed_data(event.model_dump_json().encode() + b"\n")


def with_connection(use, *answers):
    async def run():
        reader = asyncio.StreamReader()
        connection = ClusterConnection(ClusterSpec(), MessageStream(reader, Pipe(reader, *answers)))
        connection._begin_reading(None)
        await use(connection)
        reader.feed_eof()
        await connection._reading

    asyncio.run(run())


def log(asked, text):
    return LogText(answers=asked, worker="0", text=text)


def test_a_report_that_comes_by_itself_is_no_answer():
    async def use(connection):
        with pytest.raises(GpuDaskError, match="There are not so many"):
            await connection.scale(5)
        assert await connection.worker_log("0") == "its log"

    with_connection(
        use,
        lambda asked: [REPORT, Refused(answers=asked, reason="There are not so many.")],
        lambda asked: [REPORT, log(asked, "its log")],
    )


def test_what_comes_too_late_is_no_answer_to_the_next_question(monkeypatch):
    monkeypatch.setattr("jupyter_gpudask.launcher.cluster._ANSWER_TIMEOUT", 0.1)

    async def use(connection):
        with pytest.raises(ClusterLostError, match="did not respond"):
            await connection.worker_log("0")
        assert await connection.worker_log("0") == "the second"

    with_connection(use, lambda _: [], lambda asked: [log(asked - 1, "the first"), log(asked, "the second")])
