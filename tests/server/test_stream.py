"""The stream to browsers, the history of metrics, and the one reader of NVML."""

import asyncio
import itertools
import json
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import websocket
from helpers import fake_gpu_environment, wait_until, without_gpus
from managers import with_manager

from jupyter_gpudask.protocol.rest import GpuInfo, GpuList
from jupyter_gpudask.protocol.stream import StreamMessage
from jupyter_gpudask.server.monitor import MachineState, Monitor, read_machine
from jupyter_gpudask.server.stream import Broadcaster, History

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
    quiet = receive(stream)
    assert (quiet["type"], quiet["gpus"], quiet["clusters"]) == ("changes", None, [])
    pid = server.start(kernel)["pid"]
    ready = until(stream, lambda m: [c for c in m["clusters"] if c["status"] == "ready" and c["state"]])
    assert (ready["clusters"][0]["name"], ready["clusters"][0]["pid"]) == ("watched.ipynb", pid)

    metrics = until(stream, lambda m: m["history"] and m["history"][-1]["workers"])["history"][-1]
    assert metrics["workers"][kernel.id]["0"]["memory"] > 0
    server.fetch(f"clusters/{kernel.id}", "DELETE")
    assert until(stream, lambda m: m["removed"])["removed"] == [kernel.id]
    stream.close()


def test_a_client_gets_at_most_one_message_a_second_regardless_of_other_clients(server):
    streams = [server.socket("stream") for _ in range(5)]
    times = []
    for _ in range(4):
        receive(streams[0])
        times.append(time.monotonic())
    for stream in streams[1:]:
        assert receive(stream)["type"] == "full"
        stream.close()
    streams[0].close()
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) > 0.8  # on their way, messages may be delayed


def test_the_history_starts_at_the_requested_time(server):
    with_history = server.socket("stream")
    receive(with_history)
    then = receive(with_history)["time"]
    receive(with_history)
    late = server.socket(f"stream?since={then}")
    times = [sample["time"] for sample in receive(late)["history"]]
    assert times
    assert min(times) > then
    assert len(receive(late)["history"]) == 1
    everything = server.socket("stream")
    assert len(receive(everything)["history"]) > len(times)
    for stream in (with_history, late, everything):
        stream.close()


def test_the_broadcaster_has_a_thread_only_while_a_stream_is_open(server):
    server.fetch("gpus")
    streams = [server.socket("stream") for _ in range(3)]
    receive(streams[0])
    during = threads(server)
    for stream in streams:
        stream.close()
    wait_until(lambda: threads(server) < during)


@pytest.mark.parametrize("since", ["soon", "nan", "inf"])
def test_an_invalid_start_of_the_history_is_refused(server, since):
    with pytest.raises(websocket.WebSocketBadStatusException, match="400"):
        server.socket(f"stream?since={since}")


@pytest.mark.parametrize("kind", ["gpm", "throughput"])
def test_the_history_has_the_traffic_over_pcie_of_gpus_without_a_counter_of_it(own_server, kind):
    server = own_server(environment=fake_gpu_environment(FAKE_PCIE=kind, FAKE_TRAFFIC="8388608"))
    stream = server.socket("stream")
    rates = [set(), set()]
    while not all(rates):
        for sample in receive(stream)["history"]:
            for number, metric in enumerate(("nvlink", "pcie")):
                rates[number] |= {gpu[metric] for gpu in sample["gpus"].values()} - {None}
    stream.close()
    nvlink, pcie = rates
    assert max(nvlink) == pytest.approx(8388608, rel=0.1)
    assert pcie == {8388608 if kind == "gpm" else 8388000}


def test_gpus_are_listed_with_their_holders_and_processes(own_server):
    environment = fake_gpu_environment(FAKE_GPUS="2")
    server = own_server(environment=environment)
    kernel = server.kernel("holder.ipynb")
    order = {"kernel_id": kernel.id, "spec": {"gpus": 1}}
    server.fetch("clusters", "POST", order)
    cluster = server.settled(kernel)
    assert (cluster["status"], cluster["engine"]) == ("ready", "cuda"), cluster
    gpus = server.fetch("gpus").body["gpus"]
    assert gpus[0]["holders"] == [{"name": "holder.ipynb", "kernel_id": kernel.id, "share": False}]
    assert gpus[1]["holders"] == []
    assert gpus[0]["users"][0]["memory"] == 2**29
    stream = server.socket("stream")
    assert receive(stream)["gpus"]["gpus"] == gpus
    sample = receive(stream)["history"][-1]
    assert sample["gpus"][gpus[0]["uuid"]] == {
        "utilization": 37,
        "memory_used": 2**30,
        "nvlink": 0,
        "pcie": 0,
    }
    other = server.kernel("late.ipynb")
    server.fetch("clusters", "POST", {"kernel_id": other.id, "spec": {}})
    refused = server.settled(other)
    assert (refused["status"], refused["reason"]) == ("failed", "GPU 0 is held by holder.ipynb.")
    stream.close()


class Subscriber:
    """Drops the messages with these numbers, as a slow connection does."""

    def __init__(self, *dropped):
        self.dropped = dropped
        self.messages = 0
        self.samples = []

    def send(self, message):
        self.messages += 1
        if self.messages in self.dropped:
            return False
        self.samples += [sample["time"] for sample in json.loads(message)["history"]]
        return True


@pytest.mark.parametrize("dropped", [[1], [2], [2, 3], [2, 4]])
def test_a_slow_subscriber_gets_each_sample_of_the_history_exactly_once(dropped):
    async def use(manager):
        broadcaster = Broadcaster(manager, Monitor(manager), history=100, interval=0.01)
        fast, slow = Subscriber(), Subscriber(*dropped)
        broadcaster.subscribe(fast)
        broadcaster.subscribe(slow)
        async with asyncio.timeout(30):
            while len(slow.samples) < 6:
                await asyncio.sleep(0.01)
        await broadcaster.stop()
        assert slow.samples[:6] == fast.samples[:6]

    with_manager(use)


MACHINE = MachineState(
    cpu_busy=50.0, cpu_total=100.0, memory_used=2**30, memory_total=2**34, disk_bytes=1000, network_bytes=None
)


def rates(*counts, times=None):
    """The rates over NVLink and PCIe for these counters, which are read once a second."""
    history = History(900)
    for number, (nvlink, pcie) in enumerate(counts):
        gpu = GpuInfo(index=0, uuid="GPU-0", name="H200", nvlink_bytes=nvlink, pcie_bytes=pcie)
        history.add(times[number] if times else 1000.0 + number, GpuList(gpus=(gpu,)), [], MACHINE)
    samples = [json.loads(text)["gpus"]["GPU-0"] for text in history.since(0)]
    return [(sample["nvlink"], sample["pcie"]) for sample in samples]


def test_the_history_has_transfer_rates_per_second():
    assert rates((0, 10), (4096, 10), (4097, 40)) == [(None, None), (4096, 0), (1, 30)]
    assert rates((0, 0), (300, 600), times=[1000.0, 1002.0]) == [(None, None), (150, 300)]


def test_a_transfer_rate_is_unknown_without_a_counter_after_a_counter_reset_and_after_a_gap():
    assert rates((None, 5), (None, 6), (7, 1)) == [(None, None), (None, 1), (None, None)]
    assert rates((0, 0), (300, 600), times=[1000.0, 1060.0]) == [(None, None), (None, None)]


def test_a_rate_over_pcie_that_was_measured_takes_the_place_of_a_counter_but_not_after_a_gap():
    history = History(900)
    gpu = GpuInfo(index=0, uuid="GPU-0", name="H200")
    for when in (1000.0, 1001.0, 1061.0):
        history.add(when, GpuList(gpus=(gpu,)), [], MACHINE, {"GPU-0": 70})
    assert [json.loads(text)["gpus"]["GPU-0"]["pcie"] for text in history.since(0)] == [None, 70, None]


def test_the_oldest_samples_are_dropped_first():
    history = History(2)
    for when in (1.0, 2.0, 3.0):
        history.add(when, GpuList(), [], MACHINE)
    assert [json.loads(text)["time"] for text in history.since(0)] == [2.0, 3.0]


def test_the_history_has_the_use_of_the_machine_between_two_samples():
    history = History(900)
    later = replace(MACHINE, cpu_busy=53.0, cpu_total=104.0, memory_used=2**31, disk_bytes=5000)
    for when, machine in ((1000.0, MACHINE), (1002.0, later), (1060.0, later)):
        history.add(when, GpuList(), [], machine)
    first, second, after_gap = (json.loads(text)["machine"] for text in history.since(0))
    assert first == {"cpu": None, "memory_used": 2**30, "disk": None, "network": None}
    assert second == {"cpu": 75.0, "memory_used": 2**31, "disk": 2000, "network": None}
    assert after_gap == {"cpu": None, "memory_used": 2**31, "disk": None, "network": None}


def test_the_state_of_this_machine_is_plausible():
    before = read_machine()
    end = time.process_time() + 0.2
    while time.process_time() < end:  # at least this process is busy
        pass
    after = read_machine()
    assert after.cpu_busy - before.cpu_busy >= 0.1
    assert after.cpu_busy - before.cpu_busy <= after.cpu_total - before.cpu_total
    assert 0 < after.memory_used < after.memory_total
    total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    assert after.memory_total == int(total.split()[1]) * 1024


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "nvml.log"
    path.touch()
    return path


def test_worker_states_contain_gpu_metrics_although_only_the_server_reads_nvml(own_server, log):
    server = own_server(environment=fake_gpu_environment(FAKE_NVML_LOG=str(log)))
    kernels = [server.kernel(f"{name}.ipynb") for name in "ab"]
    started = [server.start(kernel, engine="cuda", gpus=1, share=False, workers=None) for kernel in kernels]
    assert {cluster["status"] for cluster in started} == {"ready"}
    stream = server.socket("stream")
    stream.recv()
    log.write_text("")

    end = time.monotonic() + 4
    while time.monotonic() < end:
        stream.recv()
        for number, kernel in enumerate(kernels):
            (worker,) = server.cluster(kernel)["state"]["workers"]
            seen = [worker[name] for name in ("gpu_index", "utilization", "device_memory_used", "device_memory_total")]
            assert seen == [number, 37, 2**30, 140 * 2**30]
    stream.close()

    lines = [line.split() for line in log.read_text().splitlines()]
    ours = [(int(pid), name) for pid, caller, name in lines if caller.startswith("jupyter_gpudask")]
    looks = [pid for pid, name in ours if name == "nvmlDeviceGetMemoryInfo"]
    assert set(looks) == {server.pid}
    assert len(looks) <= 2 * 6  # each GPU once a second, whoever asks
    assert {name for pid, name in ours if pid == server.pid} == {"nvmlDeviceGetMemoryInfo"}  # it stayed open

    kernels[0].ok("%load_ext jupyter_gpudask\nstatus = %gpudask status")
    assert kernels[0].ok("status.state.workers[0].device_memory_used").value == str(2**30)
