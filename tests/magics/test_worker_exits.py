"""Cells on a cluster whose workers exceed their memory, or that has none any more."""

import re

import pytest

pytestmark = pytest.mark.cluster

GROW = """
import pathlib
def grow(file=None):
    if file is None or not pathlib.Path(file).exists():
        if file is not None:
            pathlib.Path(file).touch()
        held = bytearray(1) * 10**9
        time.sleep(100)
    return "done"
def allow_one_failure(dask_scheduler): dask_scheduler.allowed_failures = 1
started.client.run_on_scheduler(allow_one_failure)
"""
LOST = r" · lost worker 0 \(used \d+ MiB of host memory, and its limit is 477 MiB"


def test_workers_that_exceed_their_memory_limit_are_named_under_the_cell_and_by_the_error(without_cluster, tmp_path):
    kernel = without_cluster
    kernel.ok("started = %gpudask start --cpu 1 --memory-limit 500MB")
    kernel.ok(GROW)
    reply = kernel.ok(f"%%gpudask\nstarted.client.submit(grow, {str(tmp_path / 'file')!r}).result()", timeout=120)
    assert reply.value == "'done'"
    assert re.search(LOST + r"\): its work was done again$", reply.displayed[-1])

    reply = kernel.run("%%gpudask\nstarted.client.submit(grow).result()", timeout=120)
    assert reply.error == "WorkersEndedError"
    assert re.search(LOST + r", 2 times\)$", reply.displayed[-1])
    reason, _, end = reply.error_value.partition(" MiB of host memory")
    assert reason.startswith("Each worker process that had the task grow ended, 2 in all. The last one used ")
    assert int(reason.rsplit(" ", 1)[1]) > 450
    assert end.startswith(", and its limit is 477 MiB.")
    assert "%gpudask restart --memory-limit" in end


WITHOUT_WORKERS = """
import logging
client = started.client
client.retire_workers(close_workers=True)
while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.workers)):
    time.sleep(0.05)
class Warned(logging.Handler):
    def emit(self, record):
        print(record.getMessage())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
logger, warned = logging.getLogger("jupyter_gpudask.client.kernel_client"), Warned()
def age(dask_scheduler):
    for plugin in dask_scheduler.plugins.values():
        if hasattr(plugin, "_empty_since"):
            plugin._empty_since -= 300
client.run_on_scheduler(age)
"""


def test_a_cell_that_waits_for_a_cluster_without_workers_says_so(without_cluster):
    kernel = without_cluster
    kernel.ok("started = %gpudask start --cpu 1")
    kernel.ok("%%gpudask\n1")  # shows that the cluster has no GPU
    kernel.ok(WITHOUT_WORKERS)
    submit = "client.submit(sum, [1, 2], pure=False).result()"
    kernel.ok("logger.addHandler(warned)\nlimit, client.start_timeout = client.start_timeout, 1")
    reply = kernel.run(submit, timeout=100)
    kernel.ok("logger.removeHandler(warned)\nclient.start_timeout = limit")
    assert reply.error == "KeyboardInterrupt"
    assert "The cluster has no worker, and the cell waits for one." in reply.printed
    reply = kernel.run(f"%%gpudask\n{submit}", timeout=100, on_display=kernel.interrupt)
    assert reply.error == "KeyboardInterrupt"
    assert "the cluster has had no worker for 3" in reply.displayed[0]
    assert "The cluster has had no worker for " in kernel.ok("shown = %gpudask status\nprint(shown)").printed
