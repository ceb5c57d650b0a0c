"""The connection to a cluster, without a cluster."""

import asyncio
import json
import time

import pytest

from jupyter_gpudask.errors import ClusterLostError, GpuDaskError
from jupyter_gpudask.launcher.connection import ClusterConnection
from jupyter_gpudask.protocol import ClusterSpec, ClusterState, LogText, Refused, StateReport
from jupyter_gpudask.protocol.transport import MessageStream

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
    monkeypatch.setattr("jupyter_gpudask.launcher.connection._ANSWER_TIMEOUT", 0.1)

    async def use(connection):
        with pytest.raises(ClusterLostError, match="did not respond"):
            await connection.worker_log("0")
        assert await connection.worker_log("0") == "the second"

    with_connection(use, lambda _: [], lambda asked: [log(asked - 1, "the first"), log(asked, "the second")])
