"""Segments in device memory that other processes open; the device is made of NumPy, its memory of files."""

import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster
from helpers import wait_until

from jupyter_gpudask.comm import device_memory
from jupyter_gpudask.comm.device_segments import DeviceMapping, DeviceSegment
from jupyter_gpudask.comm.pinned_segments import FilledSegments, OpenedSegments, SegmentLimitError, SegmentPool

sys.path.append(str(Path(__file__).parent))
import numpy_device
from numpy_device import Array, Device
from test_device_memory import connected, send

MB = 2**20
LARGE = np.arange(100_000)


@pytest.fixture
def device(monkeypatch, request):
    """The device of this process, at both ends of a connection; its messages are for a process of another pid."""
    monkeypatch.setattr(device_memory, "_Cuda", lambda: Device(**getattr(request, "param", {"size": 2**30})))
    device_memory._create.cache_clear()
    device_memory.enable()
    Array.pickled = 0
    yield device_memory._transfer().device
    device_memory.disable()
    device_memory._create.cache_clear()


def exported():
    return device_memory._transfer().exports.pool


@asynccontextmanager
async def between_processes(directory):
    async with connected(directory) as (comm, other):
        comm.remote_info["gpudask-pid"] = 1
        yield comm, other


async def test_device_memory_is_sent_through_host_memory_until_the_receiver_has_opened_some(tmp_path, device):
    async with between_processes(tmp_path) as (comm, other):
        for number in range(4):
            parts = [LARGE + number, np.array([], "i8"), LARGE[:7]]
            found, written = await send(comm, other, Array(*parts, name=b"n%d" % number))
            assert found.values() == [part.tolist() for part in parts]
            assert written < 2000
            assert len(device.pinned) == 2  # since the first message
            wait_until(lambda: comm._filled[-1].are_read)
        assert [segment.size for segment in exported().segments] == [64 * MB]
        assert len(device.opened) == 1
    assert device_memory.device_bytes() == 64 * MB
    assert Array.pickled == 0


@pytest.mark.parametrize("device", [{"size": 2**30, "peers": False}], indirect=True)
async def test_a_receiver_that_cannot_open_device_memory_gets_host_memory_for_good(tmp_path, device, caplog):
    async with between_processes(tmp_path) as (comm, other):
        for number in range(3):
            found, _ = await send(comm, other, Array(LARGE + number))
            assert found.values() == [(LARGE + number).tolist()]
            wait_until(lambda: comm._filled[-1].are_read)
    assert caplog.text.count("cudaErrorPeerAccessUnsupported") == 1
    device_memory.release_unused()
    assert (device.allocated, device.opened) == ({}, {})


async def test_memory_that_reads_otherwise_than_it_was_written_is_not_used(tmp_path, device, monkeypatch):
    monkeypatch.setattr(device, "read", lambda _, size: bytes(size))
    async with between_processes(tmp_path) as (comm, other):
        for number in range(3):
            found, _ = await send(comm, other, Array(LARGE + number))
            assert found.values() == [(LARGE + number).tolist()]
            wait_until(lambda: comm._filled[-1].are_read)
        assert all(segment.free for segment in exported().segments)
    assert not device_memory._transfer().exports._can_read[1]


async def test_a_failure_after_the_trial_sends_the_next_message_through_host_memory(tmp_path, device):
    async with between_processes(tmp_path) as (comm, other):
        await send(comm, other, Array(LARGE))
        wait_until(lambda: comm._filled[-1].are_read)
        device_memory._transfer().opened_on_devices.trim()
        device_memory._transfer().opened_on_devices.trim()
        device.peers = False
        with pytest.raises(OSError, match="cudaErrorPeerAccessUnsupported"):
            await send(comm, other, Array(LARGE))
        found, _ = await send(comm, other, Array(LARGE + 1))
        assert found.values() == [(LARGE + 1).tolist()]
        wait_until(lambda: all(segment.free for segment in exported().segments))


@pytest.mark.parametrize("device", [{"size": 128 * MB}, {"size": 0}], indirect=True)
async def test_what_does_not_fit_into_device_memory_goes_through_host_memory(tmp_path, device):
    async with between_processes(tmp_path) as (comm, other):
        for _ in range(3):
            found, _ = await send(comm, other, Array(np.arange(2 * MB)))  # of 16 MB, twice what all segments may have
            assert found.parts[0].nbytes == 16 * MB
            wait_until(lambda: comm._filled[-1].are_read)
    assert exported().size <= device.size // 16


async def test_too_little_device_memory_is_not_asked_for_again_at_once(tmp_path, device, monkeypatch):
    asked = []
    original = device.allocate
    device.size = 1000
    monkeypatch.setattr(device, "allocate", lambda size: asked.append(size) or original(size))
    async with between_processes(tmp_path) as (comm, other):
        for _ in range(3):
            found, _ = await send(comm, other, Array(LARGE))
            assert found.values() == [LARGE.tolist()]
    assert asked == [64 * MB]


async def test_a_process_does_not_open_its_own_memory(tmp_path, device):
    async with connected(tmp_path) as (comm, other):
        for _ in range(2):
            await send(comm, other, Array(LARGE))
    assert not device.allocated


def test_sizes_are_powers_of_two_from_64_mb():
    pool = SegmentPool(Device(2**30), 512 * MB, DeviceSegment)
    sizes = [pool.take(size, number).segment.size for number, size in enumerate((1, 64 * MB, 64 * MB + 1, 136 * MB))]
    assert [size // MB for size in sizes] == [64, 64, 128, 256]
    with pytest.raises(SegmentLimitError):
        pool.take(1, 4)


def test_device_memory_is_freed_only_after_others_have_closed_it():
    device, other = Device(2**30), Device()
    pool, opened = SegmentPool(device, 2**30, DeviceSegment), OpenedSegments(other, 2**30, DeviceMapping)
    filled = FilledSegments(1)
    piece = pool.take(1000, filled)
    filled.add(piece.segment)
    opened.open(piece.reference)
    filled.give_up()  # the connection is lost while the receiver copies
    pool.close_removed()
    opened.close_removed()
    assert (len(device.allocated), len(other.opened)) == (1, 1)
    assert pool.take(1000, 2).segment is not piece.segment
    opened.release(piece.reference)
    pool.close_removed()
    assert len(device.allocated) == 2
    opened.close_removed()
    pool.close_removed()
    assert (len(device.allocated), len(other.opened)) == (1, 0)


def test_segments_of_another_size_make_room_once_others_have_closed_them():
    device, other = Device(2**30), Device()
    pool, opened = SegmentPool(device, 128 * MB, DeviceSegment), OpenedSegments(other, 2**30, DeviceMapping)
    for piece in [pool.take(64 * MB, number) for number in range(2)]:
        opened.open(piece.reference)
        opened.release(piece.reference)
    with pytest.raises(SegmentLimitError):
        pool.take(128 * MB, 3)
    opened.close_removed()
    assert pool.take(128 * MB, 3).segment.size == 128 * MB
    assert len(device.allocated) == 1


OPENS = """
import sys; sys.path.append({folder!r})
from numpy_device import Device
from jupyter_gpudask.comm.device_segments import DeviceMapping
from jupyter_gpudask.comm.pinned_segments import OpenedSegments, Reference
opened = OpenedSegments(Device(), 2**30, DeviceMapping)
mapping = opened.open(Reference(*{reference!r}))
print(mapping.is_readable(), flush=True)
import time; time.sleep(100)
"""


def test_a_killed_receiver_keeps_no_memory():
    device = Device(2**30)
    pool = SegmentPool(device, 2**30, DeviceSegment)
    piece = pool.take(1000, 1)
    piece.segment.begin_trial()
    code = OPENS.format(folder=str(Path(__file__).parent), reference=tuple(piece.reference))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "True\n"
        pool.give_up(piece.segment, 1)
        assert len(device.allocated) == 1
        process.send_signal(signal.SIGKILL)
    pool.close_removed()
    assert not device.allocated


@pytest.mark.cluster
def test_workers_exchange_device_memory_and_outlive_each_other(tmp_path):
    def install(folder):
        import sys

        sys.path.append(folder)
        import numpy_device

        numpy_device.install(2**34)

    def make(number):
        import numpy as np
        from numpy_device import Array

        return Array(np.arange(100_000) + number)

    def first(array):
        return [values[0] for values in array.values()]

    def state():
        from jupyter_gpudask.comm import device_memory

        transfer = device_memory._transfer()
        return len(transfer.device.allocated), len(transfer.device.opened), len(transfer.device.pinned)

    def move(numbers):
        made = [client.submit(make, number, workers=here, pure=False) for number in numbers]
        moved = [client.submit(first, each, workers=there, pure=False) for each in made]
        assert client.gather(moved) == [[number] for number in numbers]

    options = {"protocol": "unix", "host": str(tmp_path), "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
        folder = str(Path(numpy_device.__file__).parent)
        client.run(install, folder)
        here, there = client.scheduler_info()["workers"]
        move([0])
        move(range(20))
        states = client.run(state)
        assert states[here][0] >= 1
        assert states[there][1] >= 1
        pinned = states[here][2]
        move(range(20, 60))
        assert client.run(state)[here][2] == pinned  # all through device memory

        for receives in (True, False):
            lost, kept = (there, here) if receives else (here, there)
            pid = client.run(os.getpid, workers=[lost])[lost]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda lost=lost: lost not in client.scheduler_info()["workers"])
            client.wait_for_workers(2, timeout=30)
            here, there = kept, next(address for address in client.scheduler_info()["workers"] if address != kept)
            client.run(install, folder, workers=[there])
            move([0])
            move(range(20))
        client.run(device_memory.release_unused)
        wait_until(lambda: {each[:2] for each in client.run(state).values()} == {(0, 0)})
