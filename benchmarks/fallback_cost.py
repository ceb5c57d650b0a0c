"""What the fallback to the host costs when nothing falls back: rows of benchmarks/speed.py with and without it.

python benchmarks/fallback_cost.py --out benchmarks/results/NAME.json
PYTHONPATH=tests/fake_gpus:tests/fake_cupy python benchmarks/fallback_cost.py --engine cpu --dataframe pandas

Both settings take turns on one cluster, so that the load of the machine is the same for both. The ratio is the median
of those of the pairs, without the first pair; that of the fastest runs, and that of the processor time of all
processes, say more where the machine is busy.
"""

from __future__ import annotations

import argparse
import os
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
RATIOS = ("ratio", "ratio of the fastest", "ratio of processor seconds")


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
    switch = {"array": "cupy", "dataframe": options.dataframe, "engine": options.engine}
    for number in range(options.pairs + 1):
        for setting in SETTINGS if number % 2 else SETTINGS[::-1]:
            with jupyter_gpudask.gpu(fallback=setting, **switch):
                began, used = time.perf_counter(), processor_seconds()
                result = ROWS[name].sides[OURS](options.engine == "cuda")
                elapsed = time.perf_counter() - began
                processor[setting].append(round(processor_seconds() - used, 2))
            seconds[setting].append(result.value if isinstance(result, Seconds) else elapsed)
    without, with_it = (seconds[setting][1:] for setting in SETTINGS)
    row = {
        "seconds": seconds,
        "processor seconds": processor,
        "ratio": ratio(without, with_it),
        "ratio of the fastest": fastest(without, with_it),
        "ratio of processor seconds": round(sum(processor["host"][1:]) / sum(processor["error"][1:]), 3),
    }
    ratios = " ".join(f"{row[which]:6.3f}" for which in RATIOS)
    print(f"{ratios}  {name}", file=sys.stderr, flush=True)
    return row


def processor_seconds() -> float:
    """Used so far by this process and those that it has started."""
    me = psutil.Process()
    times = [each.cpu_times() for each in [me, *me.children(recursive=True)]]
    return sum(each.user + each.system for each in times)


def ratio(without: Sequence[float], with_it: Sequence[float]) -> float:
    """The median of the ratios of pairs."""
    return round(statistics.median(b / a for a, b in zip(without, with_it, strict=True)), 3)


def fastest(without: Sequence[float], with_it: Sequence[float]) -> float:
    """The ratio of the fastest runs."""
    return round(min(with_it) / min(without), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--dataframe", choices=["cudf", "pandas"], default="cudf")
    parser.add_argument("--pairs", type=int, default=15)
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
