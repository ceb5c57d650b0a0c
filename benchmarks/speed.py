"""How fast array and dataframe computations are, beside the same code on a cluster that is set up by hand.

python benchmarks/speed.py --engine cpu --out benchmarks/results/NAME.json
python benchmarks/speed.py --engine cuda --out benchmarks/results/NAME.json
python benchmarks/speed.py --engine cuda --only "2 TB;SVD"
CUDA_VISIBLE_DEVICES=3 python benchmarks/speed.py --engine cuda --only Parquet

By hand is a `dask_cuda.LocalCUDACluster` with ``pre_import="cudf,cupy"`` and Dask's backends set around the code, or
without a GPU a `distributed.LocalCluster` with one worker of one thread. Some rows have a side of another kind: a loop
with no Dask, or a plain cell. The rows are in `workloads/`.

Each side runs in a process of its own, one after the other; each row once to warm up, and then `--repeat` times. The
table has the median, and by hand over ours. Files and leases are in a folder of the run's own, so that several runs can
use different GPUs of a machine at the same time; Parquet files stay in the folder ``SPEED_DATA`` if that is set.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from workloads import arrays, empty_cell, first_result, frames
from workloads.clusters import cluster, environment
from workloads.table import BY_HAND, OURS, ROWS, Row, Seconds

MARK = "speed: "
START = "start of the cluster"
WORKLOADS = (arrays, frames, first_result, empty_cell)  # each adds its rows


def select(only: str, engine: str) -> list[Row]:
    """The rows that `only` selects and that run on this engine: whole names, or parts of names, with ``;`` between."""
    wanted = [part for part in only.split(";") if part]
    names = {name for name in ROWS for part in wanted if part == name or (part not in ROWS and part in name)}
    rows = [each for each in ROWS.values() if not wanted or each.name in names]
    rows = [each for each in rows if engine == "cuda" or not each.needs_gpu]
    if not rows:
        raise SystemExit(f"--only {only!r} names no row for --engine {engine}. The rows are:\n" + "\n".join(ROWS))
    return rows


def measure(options: argparse.Namespace) -> None:
    """Run rows on one side, on one cluster, and print the seconds of each run."""
    large = options.engine == "cuda"
    start = time.perf_counter()
    with cluster(options.side, options.cluster, options.engine, options.protocol):
        if options.cluster == "whole" and options.side in (BY_HAND, OURS):
            print(MARK + json.dumps([START, [time.perf_counter() - start]]), flush=True)
        for name in options.rows:
            try:
                seconds = [run_once(ROWS[name].sides[options.side], large) for _ in range(options.repeat + 1)]
            except Exception as error:  # noqa: BLE001 - reported in the table
                print(MARK + json.dumps([name, f"{type(error).__name__}: {error}"]), flush=True)
            else:
                print(MARK + json.dumps([name, seconds]), flush=True)


def run_once(work: Any, large: bool) -> float:
    start = time.perf_counter()
    result = work(large)
    seconds = time.perf_counter() - start
    return result.value if isinstance(result, Seconds) else seconds


def groups(rows: list[Row]) -> list[list[Row]]:
    """The rows that run in one process on each side: those of one cluster, and each that needs none alone."""
    found: dict[str, list[Row]] = {}
    for each in rows:
        found.setdefault(each.cluster or each.name, []).append(each)
    return list(found.values())


def run_side(options: argparse.Namespace, variables: dict[str, str], side: str, rows: list[Row]) -> dict[str, Any]:
    """The seconds of rows that need the same cluster, on side `side`, in a process of their own."""
    names, setting = [each.name for each in rows], rows[0].cluster
    command = [sys.executable, __file__, "--side", side, "--engine", options.engine, "--repeat", str(options.repeat)]
    command += ["--protocol", options.protocol] if options.protocol else []
    command += [*(["--cluster", setting] if setting else []), "--rows", *names]
    found: dict[str, Any] = {}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(MARK):
            name, seconds = json.loads(line.removeprefix(MARK))
            found[name] = seconds
            print(f"{side}: {name}: {seconds}", file=sys.stderr, flush=True)
    status = process.wait()
    return dict.fromkeys(names, f"The process ended with status {status}.") | found


def compare(options: argparse.Namespace, variables: dict[str, str]) -> dict[str, Any]:
    """For each row the runs and the median of its sides, and how many times faster ours is than by hand."""
    runs: dict[str, dict[str, Any]] = {}
    for group in groups(options.selected):
        for side in dict.fromkeys(side for each in group for side in each.sides):
            rows = [each for each in group if side in each.sides]
            for name, found in run_side(options, variables, side, rows).items():
                runs.setdefault(name, {})[side] = found
    return {name: summary(found) for name, found in runs.items()}


def summary(runs: dict[str, Any]) -> dict[str, Any]:
    """The runs of one row with their medians, without the first run, and the ratio of the two main sides."""
    lists = {side: found for side, found in runs.items() if isinstance(found, list)}
    medians = {side: statistics.median(found[1:] or found) for side, found in lists.items()}
    entry: dict[str, Any] = {"runs": runs, "seconds": medians}
    if BY_HAND in medians and medians.get(OURS):
        entry["ratio"] = round(medians[BY_HAND] / medians[OURS], 2)
    return entry


def print_table(table: dict[str, Any]) -> None:
    for name, entry in table.items():
        sides = [f"{side} {_seconds(entry['seconds'].get(side))}" for side in entry["runs"]]
        print(f"{name:90} {entry.get('ratio', ''):>6}  {', '.join(sides)}")


def _seconds(value: float | None) -> str:
    if value is None:
        return "failed"
    return f"{value:.2f} s" if value >= 0.1 else f"{1000 * value:.2f} ms"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", default="", help="parts of the names of rows, separated by ;")
    parser.add_argument("--gpus", type=int, help="use the first GPUS of the visible GPUs; without it, all of them")
    parser.add_argument("--protocol", choices=["tcp", "ucx"], help="of both clusters with GPUs (each one's default)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path)
    for name in ("--side", "--cluster"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--rows", nargs="*", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.side:
        measure(options)
        return
    from report import header, publish

    options.selected = select(options.only, options.engine)
    with tempfile.TemporaryDirectory() as folder:
        table = compare(options, environment(Path(folder), options.gpus))
    print_table(table)
    publish(header() | {"rows": table}, options.out, hide="rows")


if __name__ == "__main__":
    main()
