"""How fast array and dataframe computations are, beside the same code on a cluster that is set up by hand.

python benchmarks/speed.py --engine cpu --out benchmarks/results/NAME.json
python benchmarks/speed.py --engine cuda --out benchmarks/results/NAME.json
python benchmarks/speed.py --engine cuda --gpus 2 --protocol ucx --only "2 TB;SVD;join"
CUDA_VISIBLE_DEVICES=3 python benchmarks/speed.py --engine cuda --only Parquet

By hand is a cluster as of `harness.cluster`. Some rows have a side of another kind: a loop with no Dask, or a plain
cell. The rows are in `workloads/`.

Each side runs in a process of its own, one after the other, with no compiled kernels of others; each row once to warm
up, and then `--repeat` times. The table has by hand over ours, of the medians and of the first runs. Files and leases
are in a folder of the run's own, so that several runs can use different GPUs of a machine at the same time; Parquet
files stay in the folder ``SPEED_DATA`` if that is set.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import BY_HAND, OURS, Process, chosen, cluster, header, parser, private_environment, publish
from workloads import ROWS, Row, Seconds, arrays, frames, public, sessions  # noqa: F401 - the modules add their rows

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

START = "start of the cluster"


def measure(side: str, engine: str, protocol: str | None, repeat: int, names: Sequence[str]) -> Iterator[Any]:
    """Run rows on one side, on one cluster; the name and the seconds of each."""
    kind = ROWS[names[0]].cluster if side in (BY_HAND, OURS) else None
    start = time.perf_counter()
    little = kind == "little memory"
    with cluster(side, engine, protocol=protocol, little_memory=little) if kind else nullcontext():
        if kind == "whole":
            yield START, [time.perf_counter() - start]
        for name in names:
            try:
                if write := ROWS[name].files:
                    write(engine == "cuda")
                yield name, [run_once(ROWS[name].sides[side], engine == "cuda") for _ in range(repeat + 1)]
            except Exception as error:  # noqa: BLE001 - reported in the table
                yield name, f"{type(error).__name__}: {error}"


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


def compare(rows: list[Row], options: argparse.Namespace, variables: dict[str, str]) -> dict[str, Any]:
    """For each row the runs and the median of its sides, and how many times faster ours is than by hand."""
    runs: dict[str, dict[str, Any]] = {}
    given = {"engine": options.engine, "protocol": options.protocol, "repeat": options.repeat}
    for group in groups(rows):
        for side in dict.fromkeys(side for each in group for side in each.sides):
            names = [each.name for each in group if side in each.sides]
            kernels = tempfile.mkdtemp(dir=variables["TMPDIR"])
            of_side = variables | {"CUPY_CACHE_DIR": kernels, "LIBCUDF_KERNEL_CACHE_PATH": kernels}
            process = Process(measure, of_side, side=side, names=names, **given)
            found = {}
            for name, seconds in process:
                found[name] = seconds
                print(f"{side}: {name}: {seconds}", file=sys.stderr, flush=True)
            status = process.end()
            for name, seconds in (dict.fromkeys(names, f"The process ended with status {status}.") | found).items():
                runs.setdefault(name, {})[side] = seconds
    return {name: summary(found) for name, found in runs.items()}


def summary(runs: dict[str, Any]) -> dict[str, Any]:
    """The runs of one row with their medians, without the first run, and the ratios of the two main sides."""
    lists = {side: found for side, found in runs.items() if isinstance(found, list)}
    medians = {side: statistics.median(found[1:] or found) for side, found in lists.items()}
    if not medians.keys() >= {BY_HAND, OURS}:
        return {"runs": runs, "seconds": medians}
    ratio = medians[BY_HAND] / medians[OURS], lists[BY_HAND][0] / lists[OURS][0]
    return {"runs": runs, "seconds": medians, "ratio": round(ratio[0], 2), "ratio of first runs": round(ratio[1], 2)}


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--gpus", type=int, help="use the first GPUS of the visible GPUs; without it, all of them")
    made.add_argument("--protocol", choices=["tcp", "ucx"], help="of both clusters with GPUs (each one's default)")
    made.add_argument("--repeat", type=int, default=3)
    options = made.parse_args()
    names = [name for name, each in ROWS.items() if options.engine == "cuda" or not each.needs_gpu]
    rows = [ROWS[name] for name in chosen(names, options.only)]
    with tempfile.TemporaryDirectory() as folder:
        table = compare(rows, options, private_environment(Path(folder), options.gpus))
    for name, entry in table.items():
        sides = [f"{side} {entry['seconds'].get(side, 'failed'):.5}" for side in entry["runs"]]
        ratios = f"{entry.get('ratio', ''):>6} {entry.get('ratio of first runs', ''):>6}"
        print(f"{name:90} {ratios}  {', '.join(sides)}")
    publish(header() | {"rows": table}, options.out, hide="rows")


if __name__ == "__main__":
    main()
