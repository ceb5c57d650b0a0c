"""The WebSocket stream of GPUs, clusters and history."""

import itertools
import json
import time

import psutil
import pytest
import websocket
from helpers import fake_gpu_environment, wait_until, without_gpus

from jupyter_gpudask.protocol.stream import StreamMessage

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
