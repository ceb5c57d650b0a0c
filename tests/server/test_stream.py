"""The stream to browsers, the history of metrics, and the one reader of NVML."""

import asyncio
import contextlib
import itertools
import json
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import websocket
from helpers import ONE_WORKER, fake_gpu_environment, wait_until, without_gpus
from managers import managed
from managers import until as becomes

from jupyter_gpudask.protocol.rest import GpuInfo, GpuList, StreamMessage
from jupyter_gpudask.server.history import History
from jupyter_gpudask.server.monitor import MachineState, Monitor, read_machine
from jupyter_gpudask.server.stream import Broadcaster

pytestmark = pytest.mark.cluster


def receive(stream):
    """The next message, validated by its model."""
    text = stream.recv()
    StreamMessage.model_validate_json(text)
    return json.loads(text)


def until(stream, condition, limit=30):
    """The first message for which `condition` is true."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        message = receive(stream)
        if condition(message):
            return message
    raise AssertionError(f"not within {limit} s")


def threads(server):
    return psutil.Process(server.pid).num_threads()


@without_gpus
def test_the_first_message_is_full_and_the_next_ones_have_only_changes(server):
    kernel = server.kernel("watched.ipynb")
    stream = server.socket("stream")
    full = receive(stream)
    assert (full["type"], full["clusters"], full["gpus"]["reason"]) == (
        "full",
        [],
        "This machine has no NVIDIA driver.",
    )
    streams = [server.socket("stream") for _ in range(4)]
    received = []
    for _ in range(3):
        quiet = receive(stream)
        assert (quiet["type"], quiet["gpus"], quiet["clusters"]) == ("changes", None, [])
        received.append(time.monotonic())
    gaps = [later - earlier for earlier, later in itertools.pairwise(received)]
    assert min(gaps) > 0.8  # one message a second, whoever else listens; on their way, messages may be delayed
    for each in streams:
        assert receive(each)["type"] == "full"
        each.close()
    with contextlib.closing(server.socket(f"stream?since={quiet['time']}")) as late:
        assert not [sample for sample in receive(late)["history"] if sample["time"] <= quiet["time"]]
    for since in ("soon", "nan"):
        with pytest.raises(websocket.WebSocketBadStatusException, match="400"):
            server.socket(f"stream?since={since}")
    pid = server.start(kernel)["pid"]
    ready = until(stream, lambda m: [c for c in m["clusters"] if c["status"] == "ready" and c["state"]])
    assert (ready["clusters"][0]["name"], ready["clusters"][0]["pid"]) == ("watched.ipynb", pid)

    metrics = until(stream, lambda m: m["history"] and m["history"][-1]["workers"])["history"][-1]
    assert metrics["workers"][kernel.id]["0"]["memory"] > 0
    server.fetch(f"clusters/{kernel.id}", "DELETE")
    assert until(stream, lambda m: m["removed"])["removed"] == [kernel.id]
    during = threads(server)
    stream.close()
    wait_until(lambda: threads(server) < during)  # nobody watches any more


def test_the_stream_and_the_states_have_the_metrics_of_gpus_which_only_the_server_reads(own_server, tmp_path):
    log = tmp_path / "nvml.log"
    log.touch()
    traffic = {"FAKE_PCIE": "throughput", "FAKE_TRAFFIC": "8388000"}
    server = own_server(environment=fake_gpu_environment(FAKE_NVML_LOG=str(log), **traffic))
    kernels = [server.kernel(f"{name}.ipynb") for name in "ab"]
    started = [server.start(kernel, engine="cuda", gpus=1, workers=None) for kernel in kernels]
    assert {cluster["status"] for cluster in started} == {"ready"}
    gpus = server.fetch("gpus").body["gpus"]
    holders = [[(each["name"], each["kernel_id"], each["share"]) for each in gpu["holders"]] for gpu in gpus]
    assert holders == [[("a.ipynb", kernels[0].id, False)], [("b.ipynb", kernels[1].id, False)]]
    assert gpus[0]["users"][0]["memory"] == 2**29
    stream = server.socket("stream")
    assert receive(stream)["gpus"]["gpus"] == gpus
    log.write_text("")

    end, samples = time.monotonic() + 4, []
    while time.monotonic() < end:
        samples += [sample["gpus"][gpus[0]["uuid"]] for sample in receive(stream)["history"]]
        for number, kernel in enumerate(kernels):
            (worker,) = server.cluster(kernel)["state"]["workers"]
            seen = [worker[name] for name in ("gpu_index", "utilization", "device_memory_used", "device_memory_total")]
            assert seen == [number, 37, 2**30, 140 * 2**30]
    stream.close()
    assert {(sample["utilization"], sample["memory_used"]) for sample in samples} == {(37, 2**30)}
    assert {sample["pcie"] for sample in samples} - {None} == {8388000}  # of GPUs without a counter
    assert max(sample["nvlink"] or 0 for sample in samples) == pytest.approx(8388000, rel=0.1)

    lines = [line.split() for line in log.read_text().splitlines()]
    ours = [(int(pid), name) for pid, caller, name in lines if caller.startswith("jupyter_gpudask")]
    looks = [pid for pid, name in ours if name == "nvmlDeviceGetMemoryInfo"]
    assert set(looks) == {server.pid}
    assert len(looks) <= 2 * 6  # each GPU once a second, whoever asks
    assert {name for pid, name in ours if pid == server.pid} == {"nvmlDeviceGetMemoryInfo"}  # it stayed open


def test_the_metrics_are_read_ten_times_a_second_if_the_administrator_sets_it(own_server):
    server = own_server(
        "--GpuDask.metrics_interval=0.1", "--GpuDask.history_seconds=2", environment=fake_gpu_environment()
    )
    with contextlib.closing(server.socket("stream")) as stream:
        times = [sample["time"] for sample in receive(stream)["history"]]
        end = time.monotonic() + 30
        while times[-1] - times[0] < 3 and time.monotonic() < end:
            times += [sample["time"] for sample in receive(stream)["history"]]
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(times))
    assert 0.05 < gaps[len(gaps) // 2] < 0.2
    with contextlib.closing(server.socket("stream")) as stream:
        kept = receive(stream)["history"]
    assert len(kept) == 20


class Subscriber:
    """Drops the messages with these numbers, as a slow connection does."""

    def __init__(self, *dropped):
        self.dropped = dropped
        self.messages = 0
        self.samples = []
        self.statuses = []
        self.removed = []

    def send(self, message):
        self.messages += 1
        if self.messages in self.dropped:
            return False
        content = json.loads(message)
        self.samples += [sample["time"] for sample in content["history"]]
        self.statuses += [cluster["status"] for cluster in content["clusters"]]
        self.removed += content["removed"]
        return True


@pytest.mark.parametrize("dropped", [[1], [2], [2, 3], [2, 4]])
async def test_a_slow_subscriber_gets_each_sample_of_the_history_exactly_once(dropped):
    async with managed() as manager:
        broadcaster = Broadcaster(manager, Monitor(manager), History(100), interval=0.01)
        fast, slow = Subscriber(), Subscriber(*dropped)
        broadcaster.subscribe(fast)
        broadcaster.subscribe(slow)
        async with asyncio.timeout(30):
            while len(slow.samples) < 6:
                await asyncio.sleep(0.01)
        await broadcaster.stop()
        assert slow.samples[:6] == fast.samples[:6]


async def test_a_new_status_of_a_cluster_is_sent_at_once():
    async with managed() as manager:
        broadcaster = Broadcaster(manager, Monitor(manager), History(100), interval=3600)
        page = Subscriber()
        broadcaster.subscribe(page)
        await becomes(lambda: page.messages == 1)
        manager.create("a", manager.policy.spec(ONE_WORKER))
        await becomes(lambda: page.statuses[-2:] == ["starting", "ready"])
        await manager.close("a")
        await becomes(lambda: page.removed == ["a"])
        await broadcaster.stop()


MACHINE = MachineState(
    cpu_busy=50.0, cpu_total=100.0, memory_used=2**30, memory_total=2**34, disk_bytes=1000, network_bytes=None
)


def samples_of(*added, length=900):
    """The samples of a history to which were added: time, counters of NVLink and PCIe, measured rates, a machine."""
    history = History(length)
    for when, counters, *more in added:
        gpu = GpuInfo(index=0, uuid="GPU-0", name="H200", nvlink_bytes=counters[0], pcie_bytes=counters[1])
        measured, machine = more or ({}, MACHINE)
        history.add(when, GpuList(gpus=(gpu,)), [], machine, measured)
    return [json.loads(text) for text in history.since(0)]


@pytest.mark.parametrize(
    ("times", "counters", "rates"),
    [
        ((1, 2, 3), [(0, 10), (4096, 10), (4097, 40)], [(None, None), (4096, 0), (1, 30)]),
        ((1, 3), [(0, 0), (300, 600)], [(None, None), (150, 300)]),
        ((1, 2, 3), [(None, 5), (None, 6), (7, 1)], [(None, None), (None, 1), (None, None)]),
        ((1, 61), [(0, 0), (300, 600)], [(None, None), (None, None)]),
    ],
    ids=["each second", "two seconds", "no counter and a reset", "gap"],
)
def test_transfer_rates_are_per_second_and_unknown_without_a_counter_and_after_a_reset_or_a_gap(times, counters, rates):
    found = [sample["gpus"]["GPU-0"] for sample in samples_of(*zip(times, counters, strict=True))]
    assert [(gpu["nvlink"], gpu["pcie"]) for gpu in found] == rates


def test_a_rate_over_pcie_that_was_measured_takes_the_place_of_a_counter_but_not_after_a_gap():
    found = samples_of(*((when, (None, None), {"GPU-0": 70}, MACHINE) for when in (1.0, 2.0, 62.0)))
    assert [sample["gpus"]["GPU-0"]["pcie"] for sample in found] == [None, 70, None]


def test_the_history_has_the_use_of_the_machine_between_two_samples_and_drops_the_oldest_samples():
    later = replace(MACHINE, cpu_busy=53.0, cpu_total=104.0, memory_used=2**31, disk_bytes=5000)
    added = [(when, (0, 0), {}, machine) for when, machine in ((1.0, MACHINE), (3.0, later), (60.0, later))]
    assert [sample["machine"] for sample in samples_of(*added)] == [
        {"cpu": None, "memory_used": 2**30, "disk": None, "network": None},
        {"cpu": 75.0, "memory_used": 2**31, "disk": 2000, "network": None},
        {"cpu": None, "memory_used": 2**31, "disk": None, "network": None},
    ]
    assert [sample["time"] for sample in samples_of(*added, length=2)] == [3.0, 60.0]


def test_the_state_of_this_machine_is_plausible():
    before = read_machine()
    end = time.process_time() + 0.2
    while time.process_time() < end:  # at least this process is busy
        pass
    after = read_machine()
    assert after.cpu_busy - before.cpu_busy >= 0.1
    assert after.cpu_busy - before.cpu_busy <= after.cpu_total - before.cpu_total + 1e-6  # of sums of floats
    assert 0 < after.memory_used < after.memory_total
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    assert after.memory_total == int(total.split()[1]) * 1024
