"""Run many cells in a real kernel: what grows in the kernel, the supervisor and the workers?

The cells come in turn: arrays, frames, persisted results, futures, an ordinary cell, ``%gpudask status``; now and then
an error, ``%gpudask free`` and one that is interrupted, and on a GPU one that runs out of memory. Each sample has the
resident memory (bytes), threads and file descriptors of each process. It ends with status 1 if, after the first 1,000
cells, a process has grown by more than 20 MB or its threads or descriptors became more.

With ``--engine fake`` the kernel sees a GPU that is not there and the stand-in for CuPy of the tests, so that the cells
go through the switch. Times of those are of no interest.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.manager import KernelManager

TESTS = Path(__file__).parents[1] / "tests"
PACKAGES = ("dask", "distributed", "numpy", "pandas", "ipykernel", "ipython", "dask-cuda", "cupy-cuda13x", "cudf-cu13")
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


class Kernel:
    """A kernel, driven as a notebook drives it."""

    def __init__(self, engine: str) -> None:
        environment = dict(os.environ)
        if engine == "fake":
            folders = [str(TESTS / "fake_gpus"), str(TESTS / "fake_cupy"), environment.get("PYTHONPATH", "")]
            environment |= {"PYTHONPATH": os.pathsep.join(filter(None, folders)), "FAKE_GPUS": "1"}
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=environment, stderr=subprocess.DEVNULL)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    @property
    def pid(self) -> int:
        """Of the kernel."""
        return self.manager.provisioner.pid

    def run(self, code: str) -> tuple[str, str]:
        """The name of the error of a cell, or nothing, and what it printed."""
        printed: list[str] = []

        def take(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        try:
            reply = self.client.execute_interactive(code, timeout=120, output_hook=take)
        except TimeoutError:
            os.kill(self.pid, signal.SIGUSR1)  # the stacks of its threads
            time.sleep(1)
            self.manager.shutdown_kernel(now=True)
            raise TimeoutError(f"no answer in 120 s, after {printed[-20:]}, to:\n{code}") from None
        return reply["content"].get("ename", ""), "".join(printed)

    def shutdown(self) -> None:
        """End it, and its cluster."""
        self.run("%gpudask stop")
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


def processes(kernel: Kernel) -> dict[str, int]:
    """The pids of the kernel, the supervisor and the workers."""
    _, printed = kernel.run(
        "print(get_ipython().magics_manager.registry['GpuDaskMagics'].session.cluster.process.pid)\n"
        "print(*started.client.run(lambda: __import__('os').getpid()).values())"
    )
    supervisor, *workers = map(int, printed.split())
    named = {f"worker {number}": pid for number, pid in enumerate(workers)}
    return {"kernel": kernel.pid, "supervisor": supervisor, **named}


def look(pids: dict[str, int], cells: int) -> dict[str, Any]:
    """What the processes hold now."""
    sample: dict[str, Any] = {"cells": cells}
    for name, pid in pids.items():
        process = psutil.Process(pid)
        sample[name] = {
            "pid": pid,
            "memory": process.memory_info().rss,
            "threads": process.num_threads(),
            "descriptors": process.num_fds(),
        }
    return sample


def run_cell(kernel: Kernel, number: int, cells: list[str], interrupt_every: int) -> str:
    """Run the cell whose turn it is; the name of its error."""
    if number % FREE_EVERY == 0:
        return kernel.run(FREE)[0]
    if number % ERROR_EVERY == 1:
        return kernel.run(ERROR)[0]
    if number % interrupt_every:
        return kernel.run(cells[number % len(cells)])[0]
    timer = threading.Timer(0.4, os.killpg, (kernel.pid, signal.SIGINT))
    timer.start()
    error, _ = kernel.run(INTERRUPT)
    timer.join()
    return error


def soak(options: argparse.Namespace) -> dict[str, Any]:
    """Run the cells and take samples."""
    cells = [cell.format(frames="--dataframe pandas" if options.engine == "fake" else "") for cell in CELLS]
    if options.engine == "cuda":
        cells.append(OUT_OF_MEMORY)
    kernel = Kernel(options.engine)
    samples, errors, began, number = [], {}, time.monotonic(), 0
    try:
        error, printed = kernel.run(SET_UP.format(start=STARTS[options.engine]))
        assert not error, (error, printed)
        pids = processes(kernel)
        while number < options.cells and time.monotonic() - began < options.seconds:
            number += 1
            error = run_cell(kernel, number, cells, options.interrupt_every)
            errors[error] = errors.get(error, 0) + 1
            if number % options.every == 0:
                samples.append(look(processes(kernel), number))
                print({name: value["memory"] // 10**5 / 10 for name, value in samples[-1].items() if name in pids})
                sys.stdout.flush()
        if options.then:
            print(kernel.run(options.then.read_text())[1])
    finally:
        kernel.shutdown()
    return {"cells": number, "seconds": round(time.monotonic() - began), "errors": errors, "samples": samples}


def growth(samples: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """How much more each process holds at the end than after the first cells."""
    settled = next((sample for sample in samples if sample["cells"] >= SETTLED), samples[0])
    first, last = settled, samples[-1]
    names = [name for name in last if name != "cells"]
    kinds = ("memory", "threads", "descriptors")
    return {name: {kind: last[name][kind] - first[name][kind] for kind in kinds} for name in names}


def versions() -> dict[str, str]:
    """Of what is installed of `PACKAGES`."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main() -> int:
    """Run the cells that the options ask for; 0 if nothing grew too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=STARTS, default="cpu")
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many, whatever the cells")
    parser.add_argument("--every", type=int, default=500, help="cells between two samples")
    parser.add_argument("--interrupt-every", type=int, default=500)
    parser.add_argument("--then", type=Path, help="code to run in the kernel at the end; what it prints is shown")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    measured = soak(options)
    grown = growth(measured["samples"])
    passed = all(
        more["memory"] < ALLOWED_GROWTH and more["threads"] <= 0 and more["descriptors"] <= 0 for more in grown.values()
    )
    report = {
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **versions(),
        "growth_after_1000_cells": grown,
        "passed": passed,
        **measured,
    }
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({name: value for name, value in report.items() if name != "samples"}, indent=1))
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
