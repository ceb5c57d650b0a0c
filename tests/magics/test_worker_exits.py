"""Cells on a cluster whose workers exceed their memory, or that has none any more."""

import re
import threading

import pytest
from helpers import Kernel, fake_gpu_environment

pytestmark = pytest.mark.cluster

GROW = """
import dask, pathlib, time
def grow(file=None):
    if file is None or not pathlib.Path(file).exists():
        if file is not None:
            pathlib.Path(file).touch()
        held = bytearray(1) * 10**9
        time.sleep(100)
    return "done"
"""
LOST = r" · lost worker 0 \(used \d+ MiB of host memory, and its limit is 477 MiB"


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel(fake_gpu_environment(FAKE_NVML_ERROR="LIBRARY_NOT_FOUND"))
    try:
        kernel.ok("%load_ext jupyter_gpudask")
        kernel.ok(f"{GROW}\ndask.config.set({{'distributed.scheduler.allowed-failures': 1}})")
        kernel.ok("started = %gpudask start --cpu 1 --memory-limit 500MB\nclient = started.client")
        yield kernel
    finally:
        kernel.shutdown()


def test_work_that_was_done_again_after_a_worker_exceeded_its_memory_limit_is_noted_under_the_cell(kernel, tmp_path):
    reply = kernel.ok(f"%%gpudask\nclient.submit(grow, {str(tmp_path / 'file')!r}).result()", timeout=120)
    assert reply.value == "'done'"
    assert re.search(LOST + r"\): its work was done again$", reply.displayed[-1])


def test_workers_that_one_task_has_ended_are_counted_under_its_error(kernel):
    reply = kernel.run("%%gpudask\nclient.submit(grow).result()", timeout=120)
    assert reply.error == "WorkersEndedError"
    assert re.search(LOST + r", 2 times\)$", reply.displayed[-1])


START = "%load_ext jupyter_gpudask\nstarted = %gpudask start --cpu 1 --start-timeout 30\nclient = started.client"


@pytest.mark.parametrize(
    ("first_line", "sentence"),
    [
        ("", "The cluster has no worker, and the cell waits for one."),
        ("%%gpudask", "the cluster has had no worker for 3"),
    ],
)
def test_a_cell_that_waits_for_a_cluster_without_workers_says_so(first_line, sentence):
    kernel = Kernel()
    interrupt = threading.Timer(45, kernel.interrupt)
    try:
        kernel.ok(START)
        kernel.ok("client.retire_workers(close_workers=True)")
        interrupt.start()
        reply = kernel.run(f"{first_line}\nclient.submit(sum, [1, 2]).result()".strip(), timeout=120)
        status = kernel.ok("shown = %gpudask status\nprint(shown)").printed
    finally:
        interrupt.cancel()
        kernel.shutdown()
    assert reply.error == "KeyboardInterrupt"
    assert sentence in reply.printed + "".join(filter(None, reply.displayed))
    assert "The cluster has had no worker for " in status
