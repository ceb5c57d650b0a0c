"""The manager with supervisors that fail; small programs take the place of the supervisor."""

import asyncio
import json
import logging
import os
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from helpers import command_line, slowdown
from managers import NamedKernels, policy_of, until

from jupyter_gpudask.launcher import cluster_process, connection
from jupyter_gpudask.protocol import PROTOCOL_VERSION, ClusterSpec
from jupyter_gpudask.protocol.messages import Interpreter
from jupyter_gpudask.server.kernel_events import KernelEventListener
from jupyter_gpudask.server.manager import ClusterManager

pytestmark = pytest.mark.cluster

READY = '{"type": "ready", "engine": "cpu", "address": "tls://x", "credentials": null, "dashboard_port": null, '
READY += f'"workers": 1, "pid": 1, "protocol": {PROTOCOL_VERSION}}}'


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Wait for less time until a program that does not end is killed."""
    monkeypatch.setattr(cluster_process, "_CLOSE_TIMEOUT", 1.0)


class OneKernel(NamedKernels):
    """One kernel, whose interpreter is a program of the test."""

    def __init__(self, program):
        super().__init__("k")
        self.program = str(program)

    async def interpreter(self, kernel_id):
        return Interpreter(python=self.program, environment=dict(os.environ))


async def longest_pause(stop):
    """The longest time for which the event loop was blocked, in seconds, until `stop` is set."""
    loop, longest = asyncio.get_running_loop(), 0.0
    while not stop.is_set():
        before = loop.time()
        await asyncio.sleep(0.001)
        longest = max(longest, loop.time() - before)
    return longest


def program_of(body, tmp_path, interpreter=sys.executable):
    """An interpreter that always runs `body`; `ready` is the message of a supervisor that has started."""
    program = tmp_path / "python"
    program.write_text(f"#!{interpreter} -uS\nimport os, sys, time\nready = {READY!r}\n{textwrap.dedent(body)}\n")
    program.chmod(0o700)
    return program


def outcome_of(body, tmp_path, start_timeout=120.0, **options):
    """The error of a cluster whose supervisor is this program, and how long the event loop was blocked."""
    program = program_of(body, tmp_path, **options)

    async def run():
        manager, stop = ClusterManager(OneKernel(program), policy_of()), asyncio.Event()
        measuring = asyncio.create_task(longest_pause(stop))
        cluster, _ = manager.create("k", ClusterSpec.parse({"engine": "cpu", "start_timeout": start_timeout}))
        await until(lambda: cluster.status == "failed")
        stop.set()
        pause = await measuring
        await manager.close_all()
        assert str(program) not in str([command_line(child) for child in psutil.Process().children()])
        return cluster.error, pause

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("print('garbage')\ntime.sleep(60)", f"Not a message of protocol {PROTOCOL_VERSION}"),
        ("print('x' * 10_000_000, end='', flush=True)\ntime.sleep(60)", "the line is too long"),
        ("print(ready)\nfor _ in range(1000): print('garbage')\ntime.sleep(60)", "sent lines that are not messages"),
        ("print(ready)\nwhile True: print('x' * 3_000_000)", "sent lines that are not messages"),
        ("print(ready, flush=True)\ntime.sleep(0.5)\nsys.exit(3)", "ended with status 3"),
        ("for _ in range(300_000): print('noise' * 10, file=sys.stderr)\nsys.exit(3)", "ended with status 3"),
        (
            'print(\'{"type": "failed", "kind": "ProtocolError", "reason": "The supervisor speaks 1."}\')',
            "The supervisor speaks 1.",
        ),
        ('print(\'{"type": "failed", "kind": "os", "reason": "An older one."}\')', "An older one."),
        ("sys.exit('/bin/python: No module named jupyter_gpudask')", "has no jupyter_gpudask"),
        (
            "sys.exit('/bin/python: Error (ModuleNotFoundError: No module named \\'jupyter_gpudask\\')')",
            "has no jupyter_gpudask",
        ),
    ],
)
def test_unexpected_output_of_a_supervisor_is_a_clear_error_and_does_not_block_the_loop(body, words, tmp_path):
    end, pause = outcome_of(body, tmp_path)
    assert words in str(end)
    assert pause < 0.25 * slowdown()  # two cores, shared with the program that floods


def test_a_supervisor_that_does_not_respond_is_killed_and_one_without_an_interpreter_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_process, "_START_MARGIN", 1.0)
    end, _ = outcome_of("time.sleep(60)", tmp_path, start_timeout=0.5)
    assert "did not answer" in str(end)
    end, _ = outcome_of("", tmp_path, interpreter="/no/python")
    assert "does not start" in str(end)


def test_many_cycles_of_start_and_close_leave_nothing_behind(tmp_path):
    """With a small program as the supervisor."""
    program = program_of("print(ready, flush=True)\nnext(line for line in sys.stdin if 'close' in line)", tmp_path)

    async def run():
        manager = ClusterManager(OneKernel(program), policy_of())
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # which would grow to its size
        me, seen = psutil.Process(), []
        others = len(me.children())
        for _ in range(40):
            cluster, _ = manager.create("k", ClusterSpec(engine="cpu"))
            while cluster.status == "starting":
                await asyncio.sleep(0.005)
            assert cluster.status == "ready", cluster.error
            await manager.close("k")
            seen.append((me.num_fds(), me.num_threads(), len(me.children()) - others))
        return seen

    seen = asyncio.run(run())
    growth = [after - before for before, after in zip(seen[10], seen[-1], strict=True)]
    assert max(growth) < 5  # of 30 cycles; a look at the kernel may be under way
    assert seen[-1][2] == 0


def with_supervisor(body, tmp_path, use, **policy):
    """Run `use` with a manager whose supervisors are this program, and check that none is left."""
    program = program_of(body, tmp_path)

    async def run():
        manager = ClusterManager(OneKernel(program), policy_of(**policy))
        try:
            return await use(manager, lambda: alive(program))
        finally:
            await manager.close_all()
            assert alive(program) == []

    return asyncio.run(run())


def alive(program):
    return [child.pid for child in psutil.Process().children() if str(program) in command_line(child)]


CPU = ClusterSpec(engine="cpu")
UNTIL_CLOSED = "print(ready, flush=True)\nnext(line for line in sys.stdin if 'close' in line)"


def test_the_duration_of_the_start_does_not_count_as_idle_time(tmp_path):
    async def use(manager, _):
        cluster, _ = manager.create("k", CPU)
        await until(lambda: cluster.status != "starting")
        await asyncio.sleep(0.2)
        assert cluster.status == "ready"

    with_supervisor(f"time.sleep(1)\n{UNTIL_CLOSED}", tmp_path, use, idle_timeout=0.8)


@pytest.mark.parametrize("interval", [1.0, 0.0])
def test_a_change_of_the_state_interval_during_the_start_takes_effect(interval, tmp_path):
    heard = tmp_path / "heard"

    async def use(manager, _):
        manager.request_states(1.0 - interval)
        cluster, _ = manager.create("k", CPU)
        await asyncio.sleep(0)
        manager.request_states(interval)
        await until(lambda: cluster.status == "ready" and watched()[-1:] == [interval])

    def watched():
        lines = heard.read_text().splitlines(keepends=True) if heard.exists() else []
        commands = [json.loads(line) for line in lines if line.endswith("\n")]
        return [command["interval"] for command in commands if command["type"] == "watch"]

    body = """
        print(ready, flush=True)
        with open(__file__.replace("python", "heard"), "w", buffering=1) as heard:
            for line in sys.stdin:
                heard.write(line)
                if "close" in line:
                    break
    """
    with_supervisor(body, tmp_path, use)


@pytest.mark.parametrize("what", ["close", "restart"])
def test_a_failed_start_is_cleaned_up_before_the_next_start(what, tmp_path):
    async def use(manager, supervisors):
        cluster, _ = manager.create("k", CPU)
        await until(supervisors)
        await asyncio.sleep(0.3)  # it has told that it fails, and is being waited for
        first = supervisors()
        assert cluster.status == "starting"
        if what == "close":
            await manager.close("k")
            assert supervisors() == []
        else:
            manager.restart("k", {})
            await until(lambda: supervisors() != first)
            assert not set(first) & set(supervisors())

    failed = '{"type": "failed", "kind": "ClusterStartError", "reason": "A worker died."}'
    with_supervisor(f"print({failed!r}, flush=True)\ntime.sleep(0.8)", tmp_path, use)


def test_a_cluster_that_is_ending_does_not_prevent_state_requests_to_others(tmp_path):
    async def use(manager, _):
        cluster, _ = manager.create("k", CPU)
        await until(lambda: cluster.status == "ready")
        await until(lambda: cluster.process._stream.is_closing)
        assert cluster.process.running
        manager.request_states(1.0)

    with_supervisor("print(ready, flush=True)\nos.close(0)\ntime.sleep(1.5)", tmp_path, use)


def test_an_unforeseen_error_during_the_start_sets_the_status_to_failed(tmp_path, caplog):
    async def notebooks():
        raise ValueError("nobody foresaw this")

    async def use(manager, _):
        manager.kernels.notebooks = notebooks
        cluster, _ = manager.create("k", CPU)
        await until(lambda: cluster.status == "failed")
        assert "nobody foresaw this" in str(cluster.error)

    with caplog.at_level(logging.CRITICAL):
        with_supervisor(UNTIL_CLOSED, tmp_path, use)


def test_the_log_of_a_cluster_that_has_ended_is_kept(tmp_path):
    async def use(manager, _):
        cluster, _ = manager.create("k", CPU)
        await until(lambda: cluster.status == "failed")
        assert "ended with status 3" in cluster.error.reason
        assert cluster.error.fix == "Type: %gpudask restart"
        assert await manager.get("k").logs() == {"supervisor": "\n".join(f"last words {number}" for number in range(9))}
        assert str(cluster.error).endswith("restart\n" + "\n".join(f"last words {number}" for number in range(4, 9)))

    words = "for number in range(9): print('last words', number, file=sys.stderr, flush=True)"
    with_supervisor(f"print(ready, flush=True)\ntime.sleep(0.3)\n{words}\nsys.exit(3)", tmp_path, use)


class NoKernels:
    """The kernel manager and event logger of a server without kernels."""

    def add_listener(self, **_):
        pass

    def list_kernel_ids(self):
        return []


def test_a_hanging_cluster_that_is_closed_during_a_reset_is_not_restarted(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "_ANSWER_TIMEOUT", 0.5)

    async def use(manager, supervisors):
        cluster, _ = manager.create("k", CPU)
        await until(lambda: cluster.status == "ready")
        emptying = asyncio.create_task(KernelEventListener(manager, NoKernels(), NoKernels())._reset(cluster))
        await asyncio.sleep(0.1)
        await manager.close("k")
        await emptying
        assert manager.clusters == {}
        assert supervisors() == []

    with_supervisor("print(ready, flush=True)\ntime.sleep(60)", tmp_path, use)
