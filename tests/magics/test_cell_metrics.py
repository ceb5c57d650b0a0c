"""The counters of device memory and energy begin before the tasks of a cell, and no cell waits for them."""

import pytest
from helpers import kernel_with_cupy, promised, wait_until

pytestmark = pytest.mark.cluster

CELL = "%%gpudask --dataframe pandas"

RECORD = """
import time
def record(dask_worker):
    from jupyter_gpudask.worker import cell_metrics
    if not hasattr(cell_metrics, "events"):
        begin, take = dask_worker.stream_handlers[cell_metrics.BEGIN_CELL], cell_metrics.take_peak
        def note_and_begin(**message):
            cell_metrics.events.append("begin")
            begin(**message)
        dask_worker.stream_handlers[cell_metrics.BEGIN_CELL] = note_and_begin
    cell_metrics.events = []
def events():
    from jupyter_gpudask.worker import cell_metrics
    return cell_metrics.events
def compute(number):
    from jupyter_gpudask.worker import cell_metrics
    cell_metrics.events.append("task")
    return number
def block_event_loop(dask_worker):
    dask_worker.loop.call_later(0.05, time.sleep, 1)
"""
COMPUTE = f"{CELL}\nclient.submit(compute, 1, pure=False).result()"


@pytest.fixture(scope="module")
def shared():
    """Whenever the energy counter of a GPU is read, it has used 1 Wh more."""
    with kernel_with_cupy(gpus=2, FAKE_ENERGY="3600") as kernel:
        kernel.ok(RECORD)
        yield kernel


@pytest.fixture
def kernel(shared):
    shared.ok("client.run(record); None")
    return shared


def events(kernel):
    return kernel.ok("print(*sorted(map(' '.join, client.run(events).values())), sep=', ', end='')").printed


def test_they_begin_in_each_worker_before_the_first_task(kernel):
    assert "2 Wh" in kernel.ok(COMPUTE).displayed[-1]
    assert events(kernel) == "begin, begin task"


def test_cells_without_a_graph_do_not_wait_and_open_no_connections(kernel):
    kernel.ok("client.run(block_event_loop); time.sleep(0.2)")
    with promised(0.7):
        for _ in range(5):
            kernel.ok(f"{CELL}\npass")
    wait_until(lambda: events(kernel) == ", ".join([" ".join(["begin"] * 5)] * 2))
    assert int(kernel.ok("client.rpc.open").value) <= 2


def test_the_energy_of_a_part_of_a_cell_is_not_shown(kernel):
    kernel.ok("client.run(block_event_loop); time.sleep(0.2)")
    reply = kernel.ok(COMPUTE)
    assert "1 task" in reply.displayed[-1]
    assert "Wh" not in reply.displayed[-1]
    assert events(kernel) == "begin, begin task"
    assert "2 Wh" in kernel.ok(COMPUTE).displayed[-1]


def test_a_worker_that_starts_later_has_them_too_and_the_cell_in_which_it_starts_has_no_energy(kernel):
    restart = "client.restart_workers(list(client.scheduler_info()['workers'])[:1])"
    submit = "client.submit(len, [1], pure=False).result()"
    assert "Wh" not in kernel.ok(f"{CELL}\n{restart}\n{submit}").displayed[-1]
    assert "2 Wh" in kernel.ok(f"{CELL}\n{submit}").displayed[-1]
