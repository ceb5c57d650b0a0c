"""Arrays that two real GPUs send to each other: `pytest -m gpu` on a machine with two that read each other's memory."""

import os
import signal

import pytest
from distributed import Client
from helpers import wait_until

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.machine.gpus import visible_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.cluster]

MB = 2**20


def has_two():
    try:
        return len(visible_gpus()) > 1
    except GpuUnavailableError:
        return False


if not has_two():
    pytest.skip("needs two GPUs", allow_module_level=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The client of two workers, each with a GPU of its own."""
    from dask_cuda import LocalCUDACluster

    options = {"protocol": "unix", "host": str(tmp_path_factory.mktemp("sockets")), "dashboard_address": "127.0.0.1:0"}
    preload = ["jupyter_gpudask.worker.preload"]
    with (
        LocalCUDACluster(n_workers=2, rmm_allocator_external_lib_list=["cupy"], preload=preload, **options) as cluster,
        Client(cluster) as client,
    ):
        if not all(client.run(_sees_peer).values()):
            pytest.skip("needs two GPUs that read each other's memory")
        yield client


def _here(function):
    """The function, which is sent to workers as it is: they cannot import this file."""
    function.__module__ = "__main__"
    return function


@_here
def _sees_peer():
    import cupy

    return bool(cupy.cuda.runtime.deviceCanAccessPeer(0, 1))


@_here
def _make(number, size, dtype, layout):
    import cupy

    count = size // cupy.dtype(dtype).itemsize
    values = (cupy.arange(2 * count, dtype="i8") * 7 + number) % 251
    values = values.astype(dtype).reshape(2, -1)
    return {"whole": values[0], "transposed": values.T[: count // 2], "strided": values.reshape(-1)[::2]}[layout]


@_here
def _agrees(array, make, *arguments):
    import cupy

    expected = make(*arguments)
    return array.dtype == expected.dtype and array.shape == expected.shape and bool(cupy.array_equal(array, expected))


@_here
def _exported():
    from jupyter_gpudask.comm import device_memory

    return device_memory.device_bytes()


@_here
def _free_memory():
    import cupy

    from jupyter_gpudask.gpu_libraries import release_memory

    release_memory()
    return cupy.cuda.runtime.memGetInfo()[0]


def move(client, cases):
    """Whether each array arrives at the second worker as it was made on the first one."""
    here, there = sorted(client.scheduler_info()["workers"])
    made = [client.submit(_make, *case, workers=[here], pure=False) for case in cases]
    moved = [
        client.submit(_agrees, each, _make, *case, workers=[there], pure=False)
        for each, case in zip(made, cases, strict=True)
    ]
    return client.gather(moved)


def test_arrays_arrive_as_they_were_sent(cluster):
    move(cluster, [(0, MB, "f8", "whole")])  # the trial
    cases = [
        (number, size, dtype, layout)
        for number, size in enumerate((300_000, MB, 3 * MB, 8 * MB, 20 * MB + 16, 300 * MB))
        for dtype in ("f8", "f4", "c16", "i1", "?")
        for layout in ("whole", "transposed", "strided")
    ]
    assert all(move(cluster, cases))
    assert max(cluster.run(_exported).values()) > 0


def test_many_transfers_leave_no_memory(cluster):
    cases = [(number, MB * (1 + number % 12), "f8", "whole") for number in range(100)]
    assert all(move(cluster, cases))
    before = cluster.run(_free_memory)
    for _ in range(10):
        assert all(move(cluster, cases))
    cluster.run(_free_memory)
    wait_until(lambda: set(cluster.run(_exported).values()) == {0})
    after = cluster.run(_free_memory)
    assert all(after[worker] > before[worker] - 64 * MB for worker in before)


@pytest.mark.parametrize("killed", [1, 0], ids=["receiver", "sender"])
def test_a_killed_worker_leaves_no_memory_to_the_other_one(cluster, killed):
    workers = sorted(cluster.scheduler_info()["workers"])
    lost, kept = workers[killed], workers[1 - killed]
    pid = cluster.run(os.getpid, workers=[lost])[lost]
    cases = [(number, 50 * MB, "f8", "whole") for number in range(40)]
    here, there = workers
    made = [cluster.submit(_make, *case, workers=[here], allow_other_workers=True, pure=False) for case in cases]
    options = {"workers": [there], "allow_other_workers": True, "pure": False}
    moved = [cluster.submit(_agrees, each, _make, *case, **options) for each, case in zip(made, cases, strict=True)]
    wait_until(lambda: any(each.done() for each in moved))
    os.kill(pid, signal.SIGKILL)
    assert all(cluster.gather(moved))
    made.clear()
    moved.clear()
    wait_until(lambda: lost not in cluster.scheduler_info()["workers"])
    cluster.wait_for_workers(2, timeout=60)
    cluster.run(_free_memory)
    wait_until(lambda: cluster.run(_exported, workers=[kept])[kept] == 0)
    assert all(move(cluster, cases))
