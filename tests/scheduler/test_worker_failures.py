"""Tasks that run out of device memory are counted; no device is needed to say so."""

import asyncio
import sys

import pytest

from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.device_errors import is_out_of_device_memory
from jupyter_gpudask.launcher.cluster_process import ClusterProcess
from jupyter_gpudask.protocol import ClusterSpec

pytestmark = pytest.mark.cluster


class OutOfMemoryError(MemoryError):
    """Of that name and kind are CuPy's and PyTorch's; it says which processes have unpickled it."""

    def __init__(self, message, log):
        super().__init__(message)
        self.log = log

    def __reduce__(self):
        return _revive, (str(self), self.log)


def _revive(message, log):
    import os
    from pathlib import Path

    with Path(log).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return OutOfMemoryError(message, log)


def allocate(log):
    raise OutOfMemoryError("Out of memory allocating 1,024 bytes (allocated so far: 0 bytes).", log)


def fail(_):
    raise MemoryError("Unable to allocate 1. TiB for an array with shape (137438953472,) and data type float64")


@pytest.mark.parametrize(
    ("error", "is_told"),
    [
        ("OutOfMemoryError('Out of memory allocating 8,589,934,592 bytes (allocated so far: 0 bytes).')", True),
        ("MemoryError('std::bad_alloc: out_of_memory: CUDA error at: /rmm/cuda_memory_resource.hpp: 2')", True),
        ("MemoryError('std::bad_alloc: out_of_memory: RMM failure at: Maximum pool size exceeded')", True),
        ("CUDARuntimeError('cudaErrorMemoryAllocation: out of memory')", True),
        ("CUDADriverError('CUDA_ERROR_OUT_OF_MEMORY: out of memory')", True),
        ("MemoryError('std::bad_alloc')", False),
        ("_ArrayMemoryError((1099511627776,), dtype('float64'))", False),
        ("ValueError('OutOfMemoryError(')", False),
        ("MemoryError('std::bad_alloc: out_of_memory: CUDA error: cudaErrorIllegalAddress')", False),
    ],
)
def test_device_memory_that_is_used_up_is_told_apart_from_other_errors(error, is_told):
    assert is_out_of_device_memory(error) is is_told


def test_tasks_that_run_out_of_device_memory_are_counted_and_the_scheduler_opens_none_of_them(tmp_path):
    log = tmp_path / "unpickled"

    async def run():
        cluster = await ClusterProcess.start(ClusterSpec(engine="cpu", workers=2, threads=1), path=sys.path)
        try:
            await asyncio.to_thread(work, cluster.ready)
            state = await cluster.state()
            return cluster.ready.pid, {worker.name: worker.out_of_memory for worker in state.workers}
        finally:
            await cluster.close()

    def work(ready):
        client = connect(ready, set_as_default=False)
        try:
            short = [client.submit(allocate, str(log), workers=1, pure=False) for _ in range(3)]
            later = client.submit(fail, short[0])  # fails with the one that it needs
            other = client.submit(fail, 0, workers=0)
            again = client.submit(allocate, str(log), workers=0, retries=2, pure=False)
            errors = [type(future.exception()) for future in (*short, later, other, again)]
            assert errors == [OutOfMemoryError] * 4 + [MemoryError, OutOfMemoryError]
        finally:
            client.close()

    supervisor, out_of_memory = asyncio.run(run())
    assert out_of_memory == {"0": 1, "1": 3}
    assert str(supervisor) not in log.read_text().split()
