"""A cell does not wait for the counters of device memory and energy before it submits a graph, and then it does."""

import time

import pytest
from helpers import kernel_with_cupy, wait_until

pytestmark = pytest.mark.cluster

CELL = "%%gpudask --dataframe pandas"

# Each answer of a worker about its counters takes a while, during which its event loop does other things.
SLOW = """
from jupyter_gpudask.client import waiting_client
def answer_after(seconds):
    import asyncio
    from jupyter_gpudask.worker import preload
    if not hasattr(preload, "answer"):
        preload.answer = preload.take_cell_metrics
    preload.events = []
    async def answer_late(dask_worker):
        await asyncio.sleep(seconds)
        preload.events.append("counters")
        return preload.answer(dask_worker)
    preload.take_cell_metrics = answer_late
def compute(number):
    from jupyter_gpudask.worker import preload
    preload.events.append("task")
    return number
def events():
    from jupyter_gpudask.worker import preload
    return preload.events
"""
COMPUTE = f"{CELL}\nclient.submit(compute, 1, pure=False).result()"


@pytest.fixture(scope="module")
def kernel():
    """Whenever the energy counter of its GPU is read, it has used 1 Wh more."""
    with kernel_with_cupy(gpus=1, FAKE_ENERGY="3600") as kernel:
        kernel.ok(SLOW)
        yield kernel


def seconds_of(kernel, cell):
    start = time.monotonic()
    kernel.ok(cell)
    return time.monotonic() - start


def events(kernel):
    return kernel.ok("print(*(event for found in client.run(events).values() for event in found), end='')").printed


def test_a_cell_without_a_graph_does_not_wait_for_the_counters(kernel):
    kernel.ok("waiting_client._LIMIT = 20\nclient.run(answer_after, 2)")
    # On a busy machine some of them may take longer.
    assert min(seconds_of(kernel, f"{CELL}\npass") for _ in range(10)) < 0.09
    wait_until(lambda: events(kernel) == " ".join(["counters"] * 10))


def test_a_cell_with_a_graph_waits_until_its_counters_have_begun(kernel):
    kernel.ok("waiting_client._LIMIT = 20\nclient.run(answer_after, 1)")
    assert "1 Wh" in kernel.ok(COMPUTE).displayed[-1]
    assert events(kernel) == "counters task counters"


def test_counters_that_began_for_an_empty_cell_do_not_begin_again_in_the_next_one(kernel):
    kernel.ok("waiting_client._LIMIT = 20\nclient.run(answer_after, 1)")
    kernel.ok(f"{CELL}\npass")
    assert "1 Wh" in kernel.ok(COMPUTE).displayed[-1]
    assert events(kernel) == "counters counters task counters"


def test_busy_workers_are_not_waited_for_and_the_energy_of_a_part_of_a_cell_is_not_shown(kernel):
    kernel.ok("waiting_client._LIMIT = 0.1\nclient.run(answer_after, 1)")
    reply = kernel.ok(f"{COMPUTE}\nimport time\ntime.sleep(2)")
    assert "1 task" in reply.displayed[-1]
    assert "Wh" not in reply.displayed[-1]
    assert events(kernel) == "task counters counters"
