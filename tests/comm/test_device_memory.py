"""Device memory that travels between workers through shared memory; the device is made of NumPy."""

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.comm import connect, listen
from distributed.comm.core import CommClosedError
from distributed.protocol import to_serialize
from helpers import wait_until

from jupyter_gpudask.comm import device_memory
from jupyter_gpudask.comm.pinned_segments import FilledSegments, OpenedSegments, SegmentLimitError, SegmentPool
from jupyter_gpudask.comm.unix import UnixComm

sys.path.append(str(Path(__file__).parent))
import numpy_device
from numpy_device import Array, Device

LARGE = np.arange(100_000)
INFO = {"compression": None, "python": sys.version_info[:3], "pickle-protocol": 5}


@pytest.fixture
def device(monkeypatch):
    """The device of this process, which is a worker that shares memory."""
    monkeypatch.setattr(device_memory, "_Cuda", Device)
    device_memory._create.cache_clear()
    device_memory.enable()
    Array.pickled = 0
    yield device_memory._transfer().device
    device_memory.disable()
    device_memory._create.cache_clear()


@asynccontextmanager
async def connected(directory):
    """Both ends of a connection."""
    accepted = asyncio.Future()

    async def accept(comm):
        accepted.set_result(comm)
        await asyncio.sleep(0)

    listener = await listen(f"unix://{directory}:0", accept)
    comm = await connect(listener.contact_address)
    other = await accepted
    try:
        yield comm, other
    finally:
        comm.abort()
        other.abort()
        listener.stop()


async def send(comm, other, array):
    """Send an array; what arrives, and the bytes that passed through the socket."""
    written = await comm.write({"status": "OK", "data": {"x": to_serialize(array)}})
    return (await other.read())["data"]["x"], written


def pool():
    return device_memory._transfer().pool


async def test_an_array_passes_by_shared_memory_whose_segment_is_used_again(tmp_path, device):
    async with connected(tmp_path) as (comm, other):
        for number in range(5):
            parts = [LARGE + number, np.array([], "i8"), LARGE[:7]]
            found, written = await send(comm, other, Array(*parts, name=b"n%d" % number))
            assert found.values() == [part.tolist() for part in parts]
            assert found.name == b"n%d" % number
            assert written < 2000
            wait_until(lambda: all(segment.free for segment in pool()._segments))
        assert len(pool()._segments) == 1
    assert (Array.pickled, device.loaded) == (0, 15)


async def test_a_segment_is_not_used_again_before_its_copies_have_ended(tmp_path, device):
    async with connected(tmp_path) as (comm, other):
        pool().take(300_000, None).release()  # one is there
        message = to_serialize(Array(LARGE))
        await comm.write(message)
        device.wait.clear()
        found = await other.read()
        await asyncio.sleep(0)
        assert not comm._filled[0].are_read
        device.wait.set()
        wait_until(lambda: comm._filled[0].are_read)
        assert found.values() == [LARGE.tolist()]


async def test_a_result_is_sent_while_the_device_computes_something_else(tmp_path, device):
    async with connected(tmp_path) as (comm, other):
        array = Array(LARGE)
        device_memory._transfer().note(array)
        device.wait = threading.Event()
        await comm.write(to_serialize(array))
        device.wait.set()
        assert (await other.read()).values() == [LARGE.tolist()]
    del array
    assert not device_memory._transfer()._ready


@pytest.mark.parametrize(
    ("module", "contiguous", "waits"), [("cupy", True, False), ("cupy", False, True), ("numpy", True, True)]
)
def test_only_of_arrays_that_are_sent_as_they_are_is_it_known_when_they_are_ready(device, module, contiguous, waits):
    flags = SimpleNamespace(c_contiguous=contiguous, f_contiguous=False)
    kind = type("ndarray", (), {"__module__": module, "flags": flags})
    array = kind()
    assert device_memory.note_result(array) is array
    device.wait = threading.Event()
    assert (device_memory._transfer().when_ready(array).waiting is device.wait) == waits


async def test_small_arrays_and_those_without_room_pass_through_the_socket(tmp_path, device, monkeypatch):
    async with connected(tmp_path) as (comm, other):
        small, written = await send(comm, other, Array(LARGE[:10]))
        assert small.values() == [list(range(10))]
        monkeypatch.setattr(pool(), "limit", 10_000)
        large, written = await send(comm, other, Array(LARGE))
        assert large.values() == [LARGE.tolist()]
        assert written > 100_000
    assert (Array.pickled, device.loaded) == (2, 0)


async def test_a_process_that_is_no_worker_gets_no_reference(tmp_path, device):
    async with connected(tmp_path) as (comm, other):
        comm.handshake_options = comm.handshake_configuration(
            comm.local_info, comm.remote_info | {"gpudask-shared-memory": ""}
        )
        assert (await send(comm, other, Array(LARGE)))[0].values() == [LARGE.tolist()]
    assert (Array.pickled, device.loaded) == (1, 0)


async def test_what_a_lost_connection_has_not_delivered_is_removed(tmp_path, device):
    async with connected(tmp_path) as (comm, other):
        await comm.write(to_serialize(Array(LARGE)))
        assert pool().size > 0
        comm.abort()
        assert pool().size == 0
        with pytest.raises(CommClosedError):
            await other.read()
    wait_until(lambda: not device.pinned)
    assert device_memory.is_enabled()  # for other connections


async def test_a_connection_sends_more_after_a_segment_that_it_filled_has_made_room_for_another(
    tmp_path, device, monkeypatch
):
    async with connected(tmp_path) as (comm, other):
        first, _ = await send(comm, other, Array(LARGE))
        wait_until(lambda: comm._filled[0].are_read)
        monkeypatch.setattr(pool(), "limit", 8 * 2**20)
        pool().take(8 * 2**20, None).release()  # by another connection
        second, _ = await send(comm, other, Array(LARGE + 1))
        assert (first.values() + second.values()) == [LARGE.tolist(), (LARGE + 1).tolist()]
    assert device.loaded == 2


async def test_a_connection_that_is_closed_while_a_message_is_copied_unmaps_the_segment_afterwards(
    tmp_path, device, monkeypatch
):
    pinned = []
    async with connected(tmp_path) as (comm, _):

        def event():
            comm.abort()  # as another thread does
            pinned.extend(device.pinned)
            return Device().event()

        monkeypatch.setattr(device, "event", event)
        with pytest.raises(CommClosedError):
            await comm.write(to_serialize(Array(LARGE)))
    assert len(pinned) == 1
    assert not device.pinned


@pytest.mark.usefixtures("device")
async def test_a_message_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    async with connected(tmp_path) as (comm, other):
        with pytest.raises(OverflowError):
            await comm.write({"x": to_serialize(Array(LARGE)), "y": 2**70})
        assert pool().size == 0
        assert (await send(comm, other, Array(LARGE)))[0].values() == [LARGE.tolist()]


async def test_an_error_while_copying_frees_the_segment(tmp_path, device, monkeypatch):
    async with connected(tmp_path) as (comm, other):

        def store(*_):
            raise RuntimeError("cudaErrorIllegalAddress")

        monkeypatch.setattr(device, "store", store)
        await comm.write({"x": to_serialize(Array(LARGE))})
        with pytest.raises(TypeError, match="cudaErrorIllegalAddress"):
            await other.read()
        assert [segment.free for segment in pool()._segments] == [True]


def test_workers_that_do_not_see_each_other_in_proc_share_nothing():
    here, there = {"gpudask-shared-memory": "a"}, {"gpudask-shared-memory": "b"}
    assert UnixComm.handshake_configuration(INFO | here, INFO | here)["gpudask-shared-memory"]
    assert not UnixComm.handshake_configuration(INFO | here, INFO | there)["gpudask-shared-memory"]
    assert not UnixComm.handshake_configuration(INFO | {"gpudask-shared-memory": ""}, INFO)["gpudask-shared-memory"]


@pytest.mark.usefixtures("device")
def test_segments_are_at_most_an_eighth_of_the_memory_limit():
    limits = []
    for memory_limit in (None, 0, 2**30, 2**40):
        device_memory._create.cache_clear()
        device_memory.enable(memory_limit)
        transfer = device_memory._transfer()
        assert transfer.pool.limit == transfer.opened._limit
        limits.append(transfer.pool.limit)
    device_memory.enable()
    assert limits == [2**31, 2**31, 2**27, 2**31]


async def test_unused_segments_are_removed_at_once_on_request_but_not_those_in_use(tmp_path, device):
    async with connected(tmp_path) as (comm, other):
        await send(comm, other, Array(LARGE))
        wait_until(lambda: comm._filled[0].are_read)
        assert len(device.pinned) == 2  # once by each end
        await comm.write(to_serialize(Array(LARGE)))
        device_memory.release_unused()
        assert len(device.pinned) == 1
        found = await other.read()
        wait_until(lambda: comm._filled[0].are_read)
        device_memory.release_unused()
        assert not device.pinned
        assert found.values() == [LARGE.tolist()]


async def test_a_device_that_cannot_lock_pages_is_used_through_the_socket(tmp_path, device, monkeypatch, caplog):
    def pin(*_):
        raise RuntimeError("cudaErrorNotSupported")

    monkeypatch.setattr(device, "pin", pin)

    async with connected(tmp_path) as (comm, other):
        assert [(await send(comm, other, Array(LARGE)))[0].values() for _ in range(2)] == [[LARGE.tolist()]] * 2
    assert caplog.text.count("cudaErrorNotSupported") == 1


def test_a_pool_keeps_to_its_limit_and_prefers_segments_of_about_the_size():
    pool = SegmentPool(Device(), limit=10 * 2**20)
    small, large = pool.take(10, 1), pool.take(6 * 2**20, 2)
    with pytest.raises(SegmentLimitError):
        pool.take(5 * 2**20, 3)
    large.release()
    other = pool.take(10, 3)
    assert other.segment is not large.segment  # of 1 MB, which leaves room for 8
    again = pool.take(4 * 2**20, 4)
    assert again.segment is large.segment
    for piece in (small, other, again):
        piece.release()
    assert pool.take(9 * 2**20, 5).segment.size == 9 * 2**20
    assert pool.size <= 10 * 2**20


def test_pieces_of_one_message_share_a_segment_that_is_used_again_once_all_are_read():
    pool, opened = SegmentPool(Device()), OpenedSegments(Device())
    first, second = pool.take(512, "a"), pool.take(2**20 - 512, "a")
    assert (second.segment, second.address - first.address) == (first.segment, 512)
    assert pool.take(512, "a").segment is not first.segment
    mappings = [opened.open(piece.reference) for piece in (first, second)]
    assert mappings[0] is mappings[1]
    opened.release(second.reference)
    assert pool.take(512, "b").segment is not first.segment
    opened.trim()
    opened.trim()
    opened.release(first.reference)  # it was still open
    assert pool.take(512, "c").segment is first.segment


def test_what_is_too_large_for_a_pool_removes_nothing():
    pool = SegmentPool(Device(), limit=10 * 2**20)
    pool.take(6 * 2**20, 1).release()
    with pytest.raises(SegmentLimitError):
        pool.take(11 * 2**20, 1)
    assert pool.size == 6 * 2**20


def test_a_pool_has_few_file_descriptors():
    pool = SegmentPool(Device())
    segments = [pool.take(1, number) for number in range(128)]
    with pytest.raises(SegmentLimitError):
        pool.take(1, 128)
    segments[7].release()
    assert pool.take(2 * 2**20, 128).segment.size == 2 * 2**20
    assert len(pool._segments) == 128

    device = Device()
    opened = OpenedSegments(device)
    for segment in [*segments[:7], *segments[8:]]:
        opened.open(segment.reference)
        opened.release(segment.reference)
    more = [pool.take(2 * 2**20, number) for number in range(200, 205)]
    for segment in more:
        opened.open(segment.reference)
    assert len(device.pinned) == 128


def test_what_was_not_used_between_two_trims_is_unmapped():
    device = Device()
    pool, opened = SegmentPool(device), OpenedSegments(device)
    segment = pool.take(1, 1)
    opened.open(segment.reference)
    for _ in range(3):
        pool.trim()
        opened.trim()
    assert len(device.pinned) == 2  # it is in use at both ends
    opened.release(segment.reference)
    pool.take(1, 1).release()
    pool.trim()
    assert pool.size > 0
    opened.trim()
    pool.trim()
    opened.trim()
    assert not device.pinned


def test_a_message_that_was_given_up_gives_up_what_is_added_later():
    pool, filled = SegmentPool(Device()), FilledSegments()
    filled.give_up()
    filled.add(pool.take(1, filled).segment)
    assert pool.size == 0


def test_segments_of_others_are_unmapped_when_there_are_too_many_but_not_while_they_are_in_use():
    own, other = Device(), Device()
    pool, opened = SegmentPool(own), OpenedSegments(other, limit=3 * 2**20)
    segments = [pool.take(2**20, number) for number in range(5)]
    opened.open(segments[0].reference)
    for segment in segments[1:]:
        opened.open(segment.reference)
        opened.release(segment.reference)
    assert len(other.pinned) == 3
    assert [piece.segment.free for piece in segments] == [False, True, True, True, True]
    opened.release(segments[0].reference)
    assert segments[0].segment.free


def test_a_removed_segment_is_not_taken_for_another_with_its_file_descriptor():
    device = Device()
    pool, opened = SegmentPool(device), OpenedSegments(device)
    first = pool.take(10, 1)
    reference = first.reference
    pool.give_up(first.segment, 1)
    second = pool.take(10, 1)
    assert second.reference.descriptor == reference.descriptor
    with pytest.raises(FileNotFoundError, match="has removed the segment"):
        opened.open(reference)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_cannot_open_a_segment():
    segment = SegmentPool(Device()).take(10, 1)
    path = f"/proc/{os.getpid()}/fd/{segment.reference.descriptor}"
    code = f"import os; os.setuid(65534)\ntry: os.open({path!r}, os.O_RDWR)\nexcept PermissionError: print('refused')"
    assert (
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "refused\n"
    )


@pytest.mark.cluster
def test_workers_exchange_device_memory_and_the_client_gets_it_through_the_socket(tmp_path):
    def install(folder):
        import sys

        sys.path.append(folder)
        import numpy_device

        numpy_device.install()

    def report():
        import numpy_device

        return numpy_device.report()

    def make(number):
        import numpy as np
        from numpy_device import Array

        return Array(np.arange(100_000) + number)

    def first(array):
        return [values[0] for values in array.values()]

    options = {"protocol": "unix", "host": str(tmp_path), "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
        client.run(install, str(Path(numpy_device.__file__).parent))
        here, there = client.scheduler_info()["workers"]
        made = [client.submit(make, number, workers=here, pure=False) for number in range(20)]
        moved = [client.submit(first, each, workers=there) for each in made]
        assert client.gather(moved) == [[number] for number in range(20)]
        reports = client.run(report)
        assert reports[here] == (0, 0)
        assert reports[there] == (0, 20)
        assert made[3].result().values() == [(LARGE + 3).tolist()]
