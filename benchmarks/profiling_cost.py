"""What `%%gpudask --profile` costs: rows of benchmarks/speed.py with and without it.

python benchmarks/profiling_cost.py --out benchmarks/results/NAME.json
python benchmarks/profiling_cost.py --engine cpu

Both take turns on one cluster, in random order, as in fallback_cost.py. Starting and ending the recording counts.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from fallback_cost import FEWEST, NAMES, print_row, processor_seconds, ratios
from report import header, publish
from workloads.table import OURS, ROWS

import jupyter_gpudask
from jupyter_gpudask.profiling.recording import Recording

CHUNKS = "a sum of 100 blocks of 8 MB, each drawn and reduced in a task of its own"


def large_blocks(_: bool) -> Any:
    """100 tasks of some milliseconds each."""
    import dask
    import dask.array as da

    x = da.random.random((100, 1_000_000), chunks=(1, 1_000_000))
    with dask.config.set({"optimization.fuse.active": False}):
        return x.sum().compute()


def run(work: Any, client: Any, options: argparse.Namespace, *, is_profiled: bool) -> tuple[float, float]:
    """The seconds of one run, and the seconds of processors."""
    is_large = options.engine == "cuda"
    recording = Recording(client, on_gpus=is_large) if is_profiled else None
    began, used = time.perf_counter(), processor_seconds()
    if recording is not None:
        recording.start()
    work(is_large)
    if recording is not None and recording.stop() is None:
        raise RuntimeError("Another recording was started meanwhile.")
    return time.perf_counter() - began, round(processor_seconds() - used, 2)


def measure(name: str, work: Any, client: Any, options: argparse.Namespace) -> dict[str, Any]:
    """The seconds with and without a recording, in turn, and the ratio."""
    runs: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    started = time.perf_counter()
    for number in range(options.pairs + 1):
        if number > FEWEST and time.perf_counter() - started > options.seconds:
            break
        for is_profiled in random.sample((False, True), 2):
            runs[is_profiled].append(run(work, client, options, is_profiled=is_profiled))
    (without, used), (with_it, used_with_it) = (zip(*runs[each][1:], strict=True) for each in (False, True))
    row = {
        "seconds": {"without": without, "with": with_it},
        "processor seconds": {"without": used, "with": used_with_it},
    } | ratios(without, with_it, used, used_with_it)
    print_row(row, name)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=60, help="no pair of a row begins after so many")
    parser.add_argument("--only", default="", help="part of the names of rows")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*CPU stand-in")
    work = {name: ROWS[name].sides[OURS] for name in NAMES} | {CHUNKS: large_blocks}
    size = {"workers": 1, "threads": 1} if options.engine == "cpu" else {}
    with tempfile.TemporaryDirectory() as folder, jupyter_gpudask.gpu(engine=options.engine, **size) as client:
        os.environ.setdefault("SPEED_DATA", folder)
        rows = {name: measure(name, each, client, options) for name, each in work.items() if options.only in name}
    publish(header() | {"rows": rows}, options.out, hide="rows")


if __name__ == "__main__":
    main()
