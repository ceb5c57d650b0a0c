"""Cells that wait for a cluster which has no worker any more."""

import threading

import pytest
from helpers import Kernel

pytestmark = pytest.mark.cluster

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
