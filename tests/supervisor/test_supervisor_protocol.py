"""The supervisor's protocol, spoken by hand, line by line."""

import itertools
import json
import subprocess
import sys

import pytest
from helpers import leftover_directories, pids_of_session

from jupyter_gpudask.protocol.messages import PROTOCOL_VERSION

pytestmark = pytest.mark.cluster

CPU = {"engine": "cpu", "workers": 1}


class Pipe:
    """A supervisor driven by hand, line by line."""

    def __init__(self, *options):
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "jupyter_gpudask.supervisor", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def tell(self, **message):
        self.write(json.dumps(message))

    def write(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def start(self, protocol=PROTOCOL_VERSION):
        self.tell(type="start", protocol=protocol, spec=CPU)

    def hear(self, kind):
        for line in self.process.stdout:
            event = json.loads(line)
            if event["type"] == kind:
                return event
        return None


def test_the_end_of_stdin_during_the_start_leaves_nothing():
    with Pipe() as pipe:
        pipe.start()
        pipe.hear("progress")
        pipe.process.stdin.close()
        assert pipe.process.wait(30) == 0
        assert pids_of_session(pipe.process.pid) == []
    assert leftover_directories() == []


def test_a_supervisor_of_another_protocol_says_so():
    with Pipe() as pipe:
        pipe.start(protocol=99)
        failed = pipe.hear("failed")
        assert failed["kind"] == "ProtocolError"
        assert "of the kernel is too old for that of the running kernel" in failed["reason"]
        assert f"protocols {PROTOCOL_VERSION} and 99." in failed["reason"]
        assert pipe.process.wait(30) == 0


def test_what_is_no_command_is_refused_watched_clusters_report_and_the_end_of_stdin_closes_them():
    with Pipe() as pipe:
        pipe.start()
        assert pipe.hear("ready")["address"].startswith("unix://")
        for line in ("garbage", '{"type": "dance"}', "x" * 20_000_000):
            pipe.write(line)
            assert "Not a message" in pipe.hear("refused")["reason"]
        pipe.start()
        assert pipe.hear("refused")["reason"] == "The command start is not possible here."
        pipe.tell(type="send_state")
        assert pipe.hear("state")["state"]["status"] == "ready"
        pipe.tell(type="watch", interval=0.2)
        times = [pipe.hear("state")["state"]["time"] for _ in range(4)]
        assert all(later - earlier > 0.15 for earlier, later in itertools.pairwise(times))
        pipe.tell(type="watch", interval=0)
        pipe.tell(type="send_logs", worker="0")
        assert pipe.hear("logs")["worker"] == "0"
        pipe.process.stdin.close()
        assert pipe.hear("closed")
        assert pipe.process.wait(30) == 0
        assert pids_of_session(pipe.process.pid) == []
