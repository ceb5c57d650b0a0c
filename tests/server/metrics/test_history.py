"""The history of metrics."""

import json

from jupyter_gpudask.protocol.rest import GpuInfo, GpuList
from jupyter_gpudask.server.metrics.history import History


def rates(*counts, times=None):
    """The rates over NVLink and PCIe for these counters, which are read once a second."""
    history = History(900)
    for number, (nvlink, pcie) in enumerate(counts):
        gpu = GpuInfo(index=0, uuid="GPU-0", name="H200", nvlink_bytes=nvlink, pcie_bytes=pcie)
        history.add(times[number] if times else 1000.0 + number, GpuList(gpus=(gpu,)), [])
    samples = [json.loads(text)["gpus"]["GPU-0"] for text in history.since(0)]
    return [(sample["nvlink"], sample["pcie"]) for sample in samples]


def test_the_history_has_transfer_rates_per_second():
    assert rates((0, 10), (4096, 10), (4097, 40)) == [(None, None), (4096, 0), (1, 30)]
    assert rates((0, 0), (300, 600), times=[1000.0, 1002.0]) == [(None, None), (150, 300)]


def test_a_transfer_rate_is_unknown_without_a_counter_after_a_counter_reset_and_after_a_gap():
    assert rates((None, 5), (None, 6), (7, 1)) == [(None, None), (None, 1), (None, None)]
    assert rates((0, 0), (300, 600), times=[1000.0, 1060.0]) == [(None, None), (None, None)]


def test_the_oldest_samples_are_dropped_first():
    history = History(2)
    for time in (1.0, 2.0, 3.0):
        history.add(time, GpuList(), [])
    assert [json.loads(text)["time"] for text in history.since(0)] == [2.0, 3.0]
