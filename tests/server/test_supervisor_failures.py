"""The manager with supervisors that fail; small programs take the place of the supervisor."""

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from helpers import slowdown
from managers import UNTIL_CLOSED, KernelsOf, managed, until

from jupyter_gpudask.launcher import cluster as launcher
from jupyter_gpudask.protocol.messages import PROTOCOL_VERSION
from jupyter_gpudask.protocol.spec import ClusterSpec
from jupyter_gpudask.server.manager import KernelEventListener

pytestmark = pytest.mark.cluster

CPU = ClusterSpec(engine="cpu")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Wait for less time until a program that does not end is killed."""
    monkeypatch.setattr(launcher, "_CLOSE_TIMEOUT", 1.0)


async def longest_pause(stop):
    """The longest time for which the event loop was blocked, in seconds, until `stop` is set."""
    loop, longest = asyncio.get_running_loop(), 0.0
    while not stop.is_set():
        before = loop.time()
        await asyncio.sleep(0.001)
        longest = max(longest, loop.time() - before)
    return longest


async def outcome_of(body, tmp_path, start_timeout=120.0, **options):
    """The error of a cluster whose supervisor is this program, its log, and how long the event loop was blocked."""

    async with managed(KernelsOf(body, tmp_path, **options)) as manager:
        stop = asyncio.Event()
        measuring = asyncio.create_task(longest_pause(stop))
        cluster, _ = manager.create("a", ClusterSpec.parse({"engine": "cpu", "start_timeout": start_timeout}))
        await until(lambda: cluster.status == "failed")
        stop.set()
        return cluster.error, (await manager.get("a").logs())["supervisor"], await measuring


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("print('garbage')\ntime.sleep(60)", f"Not a message of protocol {PROTOCOL_VERSION}"),
        ("print('x' * 10_000_000, end='', flush=True)\ntime.sleep(60)", "the line is too long"),
        ("print(ready)\nfor _ in range(1000): print('garbage')\ntime.sleep(60)", "sent lines that are not messages"),
        ("print(ready)\nwhile True: print('x' * 3_000_000)", "sent lines that are not messages"),
        ("for _ in range(300_000): print('noise' * 10, file=sys.stderr)\nsys.exit(3)", "ended with status 3"),
        ('print(\'{"type": "failed", "kind": "os", "reason": "An older one."}\')', "An older one."),
        ("sys.exit('/bin/python: No module named jupyter_gpudask')", "has no jupyter_gpudask"),
        (
            "sys.exit('/bin/python: Error (ModuleNotFoundError: No module named \\'jupyter_gpudask\\')')",
            "has no jupyter_gpudask",
        ),
    ],
)
async def test_unexpected_output_of_a_supervisor_is_a_clear_error_and_does_not_block_the_loop(body, words, tmp_path):
    error, _, pause = await outcome_of(body, tmp_path)
    assert words in str(error)
    assert pause < 0.25 * slowdown()  # two cores, shared with the program that floods


async def test_a_supervisor_that_does_not_respond_or_has_no_interpreter_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "_START_MARGIN", 1.0)
    assert "did not answer" in str((await outcome_of("time.sleep(60)", tmp_path, start_timeout=0.5))[0])
    assert "does not start" in str((await outcome_of("", tmp_path, interpreter="/no/python"))[0])


async def test_the_log_of_a_cluster_that_has_ended_is_kept(tmp_path):
    words = "for number in range(9): print('last words', number, file=sys.stderr, flush=True)"
    error, log, _ = await outcome_of(f"print(ready, flush=True)\ntime.sleep(0.3)\n{words}\nsys.exit(3)", tmp_path)
    assert "ended with status 3" in error.reason
    assert log == "\n".join(f"last words {number}" for number in range(9))
    assert str(error).endswith("restart\n" + "\n".join(f"last words {number}" for number in range(4, 9)))


async def test_many_cycles_of_start_and_close_leave_nothing_behind(tmp_path):
    async with managed(KernelsOf(UNTIL_CLOSED, tmp_path)) as manager:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # which would grow to its size
        me, seen = psutil.Process(), []
        others = len(me.children())
        for _ in range(40):
            cluster, _ = manager.create("a", CPU)
            while cluster.status == "starting":
                await asyncio.sleep(0.005)
            assert cluster.status == "ready", cluster.error
            await manager.close("a")
            seen.append((me.num_fds(), me.num_threads(), len(me.children()) - others))
    growth = [after - before for before, after in zip(seen[10], seen[-1], strict=True)]
    assert max(growth) < 5  # of 30 cycles; a look at the kernel may be under way
    assert seen[-1][2] == 0


@pytest.mark.parametrize("interval", [1.0, 0.0])
async def test_a_change_of_the_state_interval_during_the_start_takes_effect(interval, tmp_path):
    heard = tmp_path / "heard"

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
    async with managed(KernelsOf(body, tmp_path)) as manager:
        manager.request_states(1.0 - interval)
        cluster, _ = manager.create("a", CPU)
        await asyncio.sleep(0)
        manager.request_states(interval)
        await until(lambda: cluster.status == "ready" and watched()[-1:] == [interval])


@pytest.mark.parametrize("what", ["close", "restart"])
async def test_a_failed_start_is_cleaned_up_before_the_next_start(what, tmp_path):
    failed = '{"type": "failed", "kind": "ClusterStartError", "reason": "A worker died."}'
    kernels = KernelsOf(f"print({failed!r}, flush=True)\ntime.sleep(0.8)", tmp_path)

    async with managed(kernels) as manager:
        cluster, _ = manager.create("a", CPU)
        await until(kernels.supervisors)
        await asyncio.sleep(0.3)  # it has reported that it fails, and is being waited for
        first = kernels.supervisors()
        assert cluster.status == "starting"
        if what == "close":
            await manager.close("a")
            assert kernels.supervisors() == []
        else:
            manager.restart("a", {})
            await until(lambda: kernels.supervisors() != first)
            assert not set(first) & set(kernels.supervisors())


async def test_an_unforeseen_error_during_the_start_sets_the_status_to_failed(tmp_path, caplog):
    async def notebooks():
        raise ValueError("nobody foresaw this")

    with caplog.at_level(logging.CRITICAL):
        async with managed(KernelsOf(UNTIL_CLOSED, tmp_path)) as manager:
            manager.kernels.notebooks = notebooks
            cluster, _ = manager.create("a", CPU)
            await until(lambda: cluster.status == "failed")
            assert "nobody foresaw this" in str(cluster.error)


class NoKernels:
    """The kernel manager and event logger of a server without kernels."""

    def add_listener(self, **_):
        pass

    def list_kernel_ids(self):
        return []


async def test_a_hanging_cluster_that_is_closed_during_a_reset_is_not_restarted(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "_ANSWER_TIMEOUT", 0.5)

    async with managed(KernelsOf("print(ready, flush=True)\ntime.sleep(60)", tmp_path)) as manager:
        cluster, _ = manager.create("a", CPU)
        await until(lambda: cluster.status == "ready")
        emptying = asyncio.create_task(KernelEventListener(manager, NoKernels(), NoKernels())._reset(cluster))
        await asyncio.sleep(0.1)
        await manager.close("a")
        await emptying
        assert manager.clusters == {}
