"""Run many cells in a real kernel: what grows in the kernel, the supervisor and the workers?

The cells come in turn: arrays, frames, persisted results, futures, an ordinary cell, ``%gpudask status``; now and then
an error, ``%gpudask free`` and one that is interrupted, and on a GPU one that runs out of memory. Each sample has the
resident memory (bytes), threads and file descriptors of each process. It ends with status 1 if, after the first 1,000
cells, a process has grown by more than 20 MB or its threads or descriptors became more.

With ``--fake`` the kernel sees a GPU that is not there and the stand-in for CuPy of the tests, so that the cells
go through the switch. Times of those are of no interest.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from harness import header, parser, publish

if TYPE_CHECKING:
    import argparse

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from helpers import Kernel, Reply, fake_gpu_environment

TIMEOUT = 120
STARTS = {"cpu": "--cpu 1 --threads 1", "fake": "", "cuda": "--gpus 1 --share yes"}
SETTLED = 1000
FREE_EVERY = 99
ERROR_EVERY = 40
ALLOWED_GROWTH = 20e6
INTERRUPT = "%%gpudask\nclient.submit(endless, pure=False).result()"

SET_UP = """
import faulthandler, signal
_stacks = open(__import__("tempfile").gettempdir() + "/soak-stacks.txt", "w")
faulthandler.register(signal.SIGUSR1, file=_stacks)
%load_ext jupyter_gpudask
import pandas as pd, numpy as np, dask, time, dask.array as da, dask.dataframe as dd
started = %gpudask start {start}
client = started.client
frame = pd.DataFrame({{"k": np.arange(1000) % 7, "v": np.arange(1000.0)}})
def endless():
    end = time.time() + 60
    while time.time() < end: pass
def fails():
    raise ValueError("as it should")
"""
CELLS = [
    "%%gpudask\nx = da.random.random((60, 60), chunks=30)\ny = float((x + x.T).mean().compute())",
    "%%gpudask {frames}\nd = dd.from_pandas(frame, npartitions=2)\nz = d[d.v > 5].groupby('k').v.sum().compute()",
    "%%gpudask\nkept = (da.ones((40, 40), chunks=20) * 2).persist()\nw = float(kept.sum().compute())",
    "%%gpudask\nfutures = client.map(lambda n: n + 1, range(5), pure=False)\nv = client.gather(futures)",
    "a = da.arange(1000, chunks=300)\nb = int(a.sum().compute())",
    "%%gpudask\nu = dask.delayed(sum)([1, 2, 3]).compute()",
    "s = %gpudask status",
]
FREE = "%gpudask free"
ERROR = "%%gpudask\nclient.submit(fails, pure=False).result()"
# Not of ones: Dask makes those without memory, and sums them for minutes.
OUT_OF_MEMORY = "%%gpudask\nda.random.random((2**20, 2**20), chunks=2**20).sum().compute()"


def run(kernel: Kernel, code: str) -> Reply:
    """Run a cell; if the kernel does not answer, write the stacks of its threads to a file and raise."""
    try:
        return kernel.run(code, timeout=TIMEOUT)
    except TimeoutError:
        os.kill(kernel.pid, signal.SIGUSR1)
        time.sleep(1)
        kernel.manager.shutdown_kernel(now=True)
        raise TimeoutError(f"no answer in {TIMEOUT} s to:\n{code}") from None


def processes(kernel: Kernel) -> dict[str, int]:
    """The pids of the kernel, the supervisor and the workers."""
    workers = run(kernel, "print(*client.run(lambda: __import__('os').getpid()).values())").printed.split()
    named = {f"worker {number}": int(pid) for number, pid in enumerate(workers)}
    return {"kernel": kernel.pid, "supervisor": kernel.supervisor(), **named}


def look(pids: dict[str, int], cells: int) -> dict[str, Any]:
    """What the processes hold now."""
    sample: dict[str, Any] = {"cells": cells}
    for name, pid in pids.items():
        process = psutil.Process(pid)
        held = {"memory": process.memory_info().rss, "threads": process.num_threads(), "descriptors": process.num_fds()}
        sample[name] = {"pid": pid} | held
    return sample


def run_cell(kernel: Kernel, number: int, cells: list[str], interrupt_every: int) -> str:
    """Run the cell whose turn it is; the name of its error, or an empty string."""
    if number % FREE_EVERY == 0:
        return run(kernel, FREE).error or ""
    if number % ERROR_EVERY == 1:
        return run(kernel, ERROR).error or ""
    if number % interrupt_every:
        return run(kernel, cells[number % len(cells)]).error or ""
    timer = threading.Timer(0.4, kernel.interrupt)
    timer.start()
    error = run(kernel, INTERRUPT).error or ""
    timer.join()
    return error


def soak(options: argparse.Namespace) -> dict[str, Any]:
    """Run the cells and take samples."""
    cells = [cell.format(frames="--dataframe pandas" if options.engine == "fake" else "") for cell in CELLS]
    if options.engine == "cuda":
        cells.append(OUT_OF_MEMORY)
    kernel = Kernel(fake_gpu_environment(cupy=True, FAKE_GPUS="1") if options.engine == "fake" else None)
    samples, errors, began, number = [], {}, time.monotonic(), 0
    try:
        started = run(kernel, SET_UP.format(start=STARTS[options.engine]))
        assert not started.error, (started.error, started.error_value, started.printed)
        while number < options.cells and time.monotonic() - began < options.seconds:
            number += 1
            error = run_cell(kernel, number, cells, options.every)
            errors[error] = errors.get(error, 0) + 1
            if number % options.every == 0:
                samples.append(look(processes(kernel), number))
                print(samples[-1], flush=True)
        run(kernel, "%gpudask stop")
    finally:
        kernel.shutdown()
    return {"cells": number, "seconds": round(time.monotonic() - began), "errors": errors, "samples": samples}


def growth(samples: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """How much more each process holds at the end than after the first cells."""
    first, last = next((each for each in samples if each["cells"] >= SETTLED), samples[0]), samples[-1]
    names, kinds = [name for name in last if name != "cells"], ("memory", "threads", "descriptors")
    return {name: {kind: last[name][kind] - first[name][kind] for kind in kinds} for name in names}


def main() -> int:
    """Run the cells that the options ask for; 0 if nothing grew too much."""
    made = parser(__doc__)
    made.add_argument("--fake", action="store_true", help="a GPU that is not there, and the stand-in for CuPy")
    made.add_argument("--cells", type=int, default=20_000)
    made.add_argument("--seconds", type=float, default=1e9, help="stop after so many, whatever the cells")
    made.add_argument("--every", type=int, default=500, help="cells between two samples, and between two interrupts")
    options = made.parse_args()
    options.engine = "fake" if options.fake else options.engine
    measured = soak(options)
    grown = growth(measured["samples"])
    passed = all(
        more["memory"] < ALLOWED_GROWTH and more["threads"] <= 0 and more["descriptors"] <= 0 for more in grown.values()
    )
    publish(header() | {"growth_after_1000_cells": grown, "passed": passed} | measured, options.out, hide="samples")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
