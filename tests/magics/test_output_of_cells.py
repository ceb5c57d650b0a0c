"""What cells leave in the notebook besides their own output: no process warns."""

from contextlib import suppress
from queue import Empty

import pytest
from helpers import Kernel, fake_gpu_environment

pytestmark = pytest.mark.cluster

CELL = "%%gpudask --dataframe pandas"


def printed_meanwhile(kernel):
    """What the kernel and its children have printed since the last cell, and in the next half second."""
    printed = ""
    with suppress(Empty):
        while True:
            message = kernel.client.get_iopub_msg(timeout=0.5)
            printed += message["content"].get("text", "")
    return printed


def test_starts_stops_restarts_and_interrupts_print_no_warning():
    """Python's `resource_tracker` warns of shared memory and semaphores that a process leaves."""
    kernel = Kernel(fake_gpu_environment(cupy=True, FAKE_GPUS="2"))
    try:
        replies = [
            kernel.ok("%load_ext jupyter_gpudask\nimport cupy, dask.array as da, time\nstarted = %gpudask start"),
            kernel.ok(f"{CELL}\nx = da.ones((40, 40), chunks=10).persist()\nx.sum().compute()"),
            kernel.run(
                f"{CELL}\nstarted.client.gather(started.client.map(time.sleep, [60, 60, 60], pure=False))",
                on_display=kernel.interrupt,
            ),
            kernel.ok("started = %gpudask restart --gpus 1"),
            kernel.ok(f"{CELL}\nda.ones((40, 40), chunks=10).sum().compute()"),
            kernel.ok("stopped = %gpudask stop\nimport gc; gc.collect()"),
        ]
        assert [reply.printed for reply in replies] == [""] * len(replies)
        kernel.manager.restart_kernel()
        kernel.client.wait_for_ready(timeout=60)
        assert printed_meanwhile(kernel) == ""
    finally:
        kernel.shutdown()
