"""What the fallback to the host costs when nothing falls back: rows of benchmarks/speed.py with and without it.

python benchmarks/fallback_cost.py --out benchmarks/results/NAME.json
FAKE_GPUS=1 PYTHONPATH=tests/fake_gpus:tests/fake_cupy python benchmarks/fallback_cost.py --dataframe pandas --small

Both settings take turns on one cluster, in random order: what a computation leaves behind slows down the next one, in
some rows by a fifth. The ratio is that of the means without the first pair; its standard error says how far it can be
trusted. The ratio of the processor time of all processes says more where the machine is busy. The second command runs
on a machine without a GPU, with a stand-in for CuPy: on the CPU stand-in of this package there is nothing to fall back.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from report import header, publish
from workloads import arrays, frames  # noqa: F401 - they add their rows
from workloads.table import OURS, ROWS, Seconds

import jupyter_gpudask

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = (
    "mean",
    "2,500 tiny tasks: da.ones((2500, 10), chunks=(1, 10)).sum()",
    "(x + x.T)[1:, 1:].mean(axis=0).sum() in 400 blocks",
    "2,500 blocks of 1 MB persisted, five element-wise steps each",
    "Parquet: mean by group",
    "Parquet: merge",
)
SETTINGS = ("error", "host")
FEWEST = 2
RATIOS = ("ratio", "standard error", "ratio of processor seconds")


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The seconds of a row with each setting, in turn, and the ratio.

    Parameters
    ----------
    name
        Of the row.
    options
        Of the command line.
    """
    seconds: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    processor: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    switch = {"array": "cupy", "dataframe": options.dataframe, "engine": "cuda"}
    started = time.perf_counter()
    for number in range(options.pairs + 1):
        if number > FEWEST and time.perf_counter() - started > options.seconds:
            break
        for setting in random.sample(SETTINGS, 2):
            with jupyter_gpudask.gpu(fallback=setting, **switch):
                began, used = time.perf_counter(), processor_seconds()
                result = ROWS[name].sides[OURS](not options.small)
                elapsed = time.perf_counter() - began
                processor[setting].append(round(processor_seconds() - used, 2))
            seconds[setting].append(result.value if isinstance(result, Seconds) else elapsed)
    row = {"seconds": seconds, "processor seconds": processor} | ratios(
        *(seconds[setting][1:] for setting in SETTINGS), *(processor[setting][1:] for setting in SETTINGS)
    )
    print_row(row, name)
    return row


def processor_seconds() -> float:
    """Used so far by this process and those that it has started."""
    me = psutil.Process()
    times = [each.cpu_times() for each in [me, *me.children(recursive=True)]]
    return sum(each.user + each.system for each in times)


def ratios(
    without: Sequence[float], with_it: Sequence[float], used_without: Sequence[float], used_with_it: Sequence[float]
) -> dict[str, float]:
    """`RATIOS` of the seconds of runs without and with something, and of their processor seconds."""
    ratio = statistics.mean(with_it) / statistics.mean(without)
    relative = [statistics.stdev(each) / statistics.mean(each) / math.sqrt(len(each)) for each in (without, with_it)]
    of_processor = sum(used_with_it) / sum(used_without)
    values = ratio, ratio * math.hypot(*relative), of_processor
    return dict(zip(RATIOS, (round(value, 3) for value in values), strict=True))


def print_row(row: dict[str, Any], name: str) -> None:
    """Print `RATIOS` of a row to stderr."""
    print(" ".join(f"{row[which]:6.3f}" for which in RATIOS), f" {name}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="smaller data")
    parser.add_argument("--dataframe", choices=["cudf", "pandas"], default="cudf")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=60, help="no pair of a row begins after so many")
    parser.add_argument("--only", default="", help="part of the names of rows")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("SPEED_DATA", folder)
        rows = {name: measure(name, options) for name in NAMES if options.only in name}
    middle = round(statistics.median(row["ratio"] for row in rows.values()), 3)
    publish(header() | {"ratio": middle, "rows": rows}, options.out, hide="rows")


if __name__ == "__main__":
    main()
