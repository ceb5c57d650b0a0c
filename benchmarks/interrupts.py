"""Interrupt tasks at many depths of their stacks, in Python and in compiled code: does the worker compute on?

For each kind of task and depth: how many interrupts there were, after how many of them the worker did not compute the
next task in time (wedged), how often it was restarted, and the longest interrupt in seconds. Kind ``endless`` is inside
compiled code for a minute, so that its worker must be restarted. It ends with status 1 if a worker was wedged, a worker
was restarted without need, a ``KeyError`` is in a worker's log, or an interrupt took longer than 2 s.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import header, parser, publish

from jupyter_gpudask.client.cancellation import cancel_unfinished
from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.launcher.cluster_process import ClusterProcess
from jupyter_gpudask.protocol import ClusterSpec

if TYPE_CHECKING:
    import argparse

    from distributed import Client

DEPTHS = (0, 8, 25, 60, 400)
KINDS = {"cpu": ("python", "sleep", "numpy"), "cuda": ("python", "sleep", "numpy", "cupy")}
LIMIT = 2.0
_NEXT_TASK = 30.0


def task(depth: int, kind: str, seconds: float) -> None:
    """Work of some kind for so many seconds, so many calls deep."""
    if depth:
        return task(depth - 1, kind, seconds)
    end = time.time() + seconds
    if kind == "python":
        while time.time() < end:
            pass
    elif kind == "numpy":
        import numpy as np

        square = np.ones((300, 300))
        while time.time() < end:
            square = square @ square / 300
    elif kind == "cupy":
        import cupy

        square = cupy.ones((4000, 4000))
        while time.time() < end:
            for _ in range(20):
                square = square @ square / 4000
            cupy.cuda.Device().synchronize()
    else:
        time.sleep(seconds)
    return None


def interrupt(client: Client, depth: int, kind: str, seconds: float) -> tuple[bool, int, float]:
    """Whether the worker was wedged, how many workers were restarted, and how long the interrupt took."""
    before = set(client.futures)
    future = client.submit(task, depth, kind, seconds, pure=False)
    time.sleep(random.uniform(0, min(0.3, seconds)))
    began = time.monotonic()
    stuck = cancel_unfinished(client, before)
    took = time.monotonic() - began
    del future
    try:
        client.submit(abs, -1, pure=False).result(timeout=_NEXT_TASK)
    except TimeoutError:
        return True, len(stuck), took
    return False, len(stuck), took


def measure(client: Client, kind: str, depth: int, count: int) -> dict[str, Any]:
    """What `count` interrupts of one kind of task gave."""
    found: dict[str, Any] = {"kind": kind, "depth": depth, "interrupts": count}
    found |= {"wedged": 0, "restarts": 0, "longest": 0.0}
    for _ in range(count):
        seconds = 60 if kind == "endless" else random.uniform(0.02, 0.6)
        is_wedged, restarted, took = interrupt(client, depth, kind, seconds)
        found["wedged"] += is_wedged
        found["restarts"] += restarted
        found["longest"] = max(found["longest"], took)
        if is_wedged:
            break
    return found


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Start a cluster of one worker with one thread, and interrupt it."""
    spec = {"engine": "cpu", "workers": 1} if options.engine == "cpu" else {"gpus": 1}
    cluster = await ClusterProcess.start(ClusterSpec(threads=1, **spec), path=[str(Path(__file__).parent), *sys.path])
    name = (await cluster.state()).workers[0].name
    try:
        client = await asyncio.to_thread(connect, cluster.ready)
        cases = [(kind, depth, options.count) for kind in KINDS[options.engine] for depth in DEPTHS]
        results = []
        for case in [*cases, ("endless", 8, options.restarts)]:
            results.append(await asyncio.to_thread(measure, client, *case))
            print(results[-1], flush=True)
        log = await cluster.worker_log(name, 10_000)
        await asyncio.to_thread(client.close, 2)
    finally:
        await cluster.close()
    return {"cases": results, "key_errors": log.count("KeyError"), "lines_of_log": len(log.splitlines())}


def main() -> int:
    """Run the interrupts that the options ask for; 0 if all is well."""
    made = parser(__doc__)
    made.add_argument("--count", type=int, default=134, help="interrupts for each kind and depth")
    made.add_argument("--restarts", type=int, default=10, help="interrupts of tasks that cannot be interrupted")
    options = made.parse_args()
    measured = asyncio.run(run(options))
    cases = measured["cases"]
    totals = {name: sum(case[name] for case in cases) for name in ("interrupts", "wedged")}
    longest = max(case["longest"] for case in cases)
    publish(header() | totals | {"longest": longest} | measured, options.out)
    needless = any(case["restarts"] for case in cases if case["kind"] != "endless")
    return int(bool(totals["wedged"] or needless or measured["key_errors"] or longest > LIMIT))


if __name__ == "__main__":
    sys.exit(main())
