"""The history of metrics."""

import json
import time
from dataclasses import replace
from pathlib import Path

from jupyter_gpudask.protocol.rest import GpuInfo, GpuList
from jupyter_gpudask.server.monitor import MachineState, read_machine
from jupyter_gpudask.server.stream import History

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
