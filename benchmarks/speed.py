"""How fast array and dataframe computations are, beside the same code on a cluster that is set up by hand.

python benchmarks/speed.py --engine cpu --out benchmarks/results/NAME.json
python benchmarks/speed.py --engine cuda --out benchmarks/results/NAME.json
python benchmarks/speed.py --engine cuda --only "2 TB;SVD"

By hand is a `dask_cuda.LocalCUDACluster` with ``pre_import="cudf,cupy"`` and Dask's backends set around the code, or
without a GPU a `distributed.LocalCluster` with one worker of one thread. Each side runs in a process of its own, one
after the other; each row once to warm up, and then `--repeat` times. The table has the median, and the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MARK = "speed: "
ROWS: dict[str, Callable[[bool], Any]] = {}
LIMIT = 540


def row(name: str) -> Callable[[Callable[[bool], Any]], Callable[[bool], Any]]:
    """A computation under `name`; it is given whether it runs on GPUs, where it is larger, and waits for its result."""

    def add(function: Callable[[bool], Any]) -> Callable[[bool], Any]:
        ROWS[name] = function
        return function

    return add


@row("normal numbers, 2 TB on GPUs and 200 MB on the CPU: (x + 1)[::2, ::2].sum()")
def seed_cell(large: bool) -> Any:
    import dask.array as da

    size, chunk = (500_000, 10_000) if large else (5_000, 100)
    x = da.random.normal(10, 1, size=(size, size), chunks=(chunk, chunk))
    return (x + 1)[::2, ::2].sum().compute()


@row("the same with RandomState(RandomState=cupy.random.RandomState)")
def seed_cell_verbatim(large: bool) -> Any:
    import dask.array as da

    if not large:
        return None
    import cupy

    rs = da.random.RandomState(RandomState=cupy.random.RandomState)
    x = rs.normal(10, 1, size=(500_000, 500_000), chunks=(10_000, 10_000))
    return (x + 1)[::2, ::2].sum().compute()


def _normal(large: bool) -> Any:
    import dask.array as da

    size, chunk = (200_000, 10_000) if large else (4_000, 200)
    return da.random.normal(10, 1, size=(size, size), chunks=(chunk, chunk))


@row("mean")
def mean(large: bool) -> Any:
    return _normal(large).mean().compute()


@row("standard deviation")
def standard_deviation(large: bool) -> Any:
    return _normal(large).std().compute()


@row("2,500 tiny tasks: da.ones((2500, 10), chunks=(1, 10)).sum()")
def tiny_tasks(_: bool) -> Any:
    import dask.array as da

    return da.ones((2500, 10), chunks=(1, 10)).sum().compute()


@row("(x + x.T)[1:, 1:].mean(axis=0).sum() in 400 blocks")
def transposed(large: bool) -> Any:
    import dask.array as da

    size, chunk = (40_000, 2_000) if large else (4_000, 200)
    x = da.random.random((size, size), chunks=(chunk, chunk))
    return (x + x.T)[1:, 1:].mean(axis=0).sum().compute()


@row("2,500 blocks of 1 MB persisted, five element-wise steps each")
def element_wise(_: bool) -> Any:
    import dask.array as da
    from distributed import wait

    x = da.ones((2500 * 125, 1000), chunks=(125, 1000)).persist()
    wait(x)
    start = time.perf_counter()
    y = (((x + 1) * 2 - 3) ** 2 / 4).persist()
    wait(y)
    return time.perf_counter() - start


@row("SVD")
def svd(large: bool) -> Any:
    import dask.array as da

    rows, chunk, columns = (1_000_000, 20_000, 1_000) if large else (20_000, 500, 50)
    _, s, _ = da.linalg.svd(da.random.random((rows, columns), chunks=(chunk, columns)))
    return s.compute()


@row("Dask's documentation: y = x + x.T; y[::2, 5000:].mean(axis=1)")
def documented_slices(large: bool) -> Any:
    import dask.array as da

    size, chunk = (100_000, 5_000) if large else (10_000, 500)
    x = da.random.random((size, size), chunks=(chunk, chunk))
    return (x + x.T)[::2, 5000:].mean(axis=1).compute()


@row("Dask's documentation: anomaly from the mean of a time axis, then its largest value")
def anomaly(large: bool) -> Any:
    import dask.array as da

    days, points, chunk = (20_000, 200_000, 50) if large else (2_000, 500, 5)
    x = da.random.random((days, points), chunks=(chunk, points))
    return abs(x - 0.5).max(axis=1).mean().compute()


@row("Dask's documentation: histogram")
def histogram(large: bool) -> Any:
    import dask.array as da

    x = da.random.random(2_000_000_000 if large else 2_000_000, chunks=1_000_000 if large else 2_000)
    return da.histogram(x, bins=100, range=(0, 1))[0].compute()


_PARTS = 16


def _parquet(large: bool) -> str:
    """A folder of Parquet files, made once."""
    import numpy as np
    import pandas as pd

    folder = Path(os.environ["SPEED_DATA"]) / ("large" if large else "small")
    if not folder.exists():
        folder.mkdir(parents=True)
        count = (80_000_000 if large else 400_000) // _PARTS
        for part in range(_PARTS):
            rng = np.random.default_rng(part)
            frame = pd.DataFrame(
                {"key": rng.integers(0, 10_000, count), "x": rng.random(count), "y": rng.random(count)}
            )
            frame.to_parquet(folder / f"part-{part:02}.parquet")
    return str(folder)


@row("Parquet: mean by group")
def group_by(large: bool) -> Any:
    import dask.dataframe as dd

    return dd.read_parquet(_parquet(large)).groupby("key").x.mean().compute()


@row("Parquet: merge")
def merge(large: bool) -> Any:
    import dask.dataframe as dd

    frame = dd.read_parquet(_parquet(large))
    means = frame.groupby("key").y.mean().rename("mean").reset_index()
    return frame.merge(means, on="key").x.sum().compute()


@row("Parquet: sort")
def sort(large: bool) -> Any:
    import dask.dataframe as dd

    return dd.read_parquet(_parquet(large)).sort_values("x").head(10)


@contextmanager
def by_hand(engine: str) -> Iterator[None]:
    import dask
    from distributed import Client

    with ExitStack() as stack:
        if engine == "cuda":
            from dask_cuda import LocalCUDACluster

            cluster = stack.enter_context(LocalCUDACluster(pre_import="cudf,cupy", dashboard_address=":0"))
            stack.enter_context(dask.config.set({"array.backend": "cupy", "dataframe.backend": "cudf"}))
        else:
            from distributed import LocalCluster

            cluster = stack.enter_context(LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0"))
        stack.enter_context(Client(cluster))
        yield


@contextmanager
def ours(engine: str) -> Iterator[None]:
    import warnings

    import jupyter_gpudask

    warnings.filterwarnings("ignore", message=".*CPU stand-in")
    options = {"engine": "cuda"} if engine == "cuda" else {"engine": "cpu", "workers": 1, "threads": 1}
    with jupyter_gpudask.gpu(**options):
        yield


def measure(side: str, engine: str, names: list[str], repeat: int) -> None:
    """Run the rows on one side, and print the seconds of each run."""
    start = time.perf_counter()
    with (by_hand if side == "by hand" else ours)(engine):
        print(MARK + json.dumps(["start", [time.perf_counter() - start]]), flush=True)
        for name in names:
            seconds = []
            try:
                for _ in range(repeat + 1):
                    begun = time.perf_counter()
                    result = ROWS[name](engine == "cuda")
                    own = isinstance(result, float) and "persisted" in name  # it has measured a part of itself
                    seconds.append(result if own else time.perf_counter() - begun)
                    del result
            except Exception as error:  # noqa: BLE001 - reported in the table
                print(MARK + json.dumps([name, f"{type(error).__name__}: {error}"]), flush=True)
            else:
                print(MARK + json.dumps([name, seconds]), flush=True)


def run_side(side: str, options: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--side", side, "--engine", options.engine, "--repeat", str(options.repeat)]
    command += ["--only", ";".join(names)]
    found: dict[str, Any] = {}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(MARK):
            name, seconds = json.loads(line.removeprefix(MARK))
            found[name] = seconds
            print(f"{side}: {name}: {seconds}", file=sys.stderr, flush=True)
    process.wait()
    return found


def compare(options: argparse.Namespace, names: list[str]) -> dict[str, Any]:
    """The medians of both sides, and how many times faster ours is."""
    sides = {side: run_side(side, options, names) for side in ("by hand", "jupyter_gpudask")}
    table: dict[str, Any] = {}
    for name in ("start", *names):
        entry: dict[str, Any] = {"runs": {side: found.get(name) for side, found in sides.items()}}
        medians = {
            side: statistics.median(runs[1:] or runs) for side, runs in entry["runs"].items() if isinstance(runs, list)
        }
        entry["seconds"] = medians
        if len(medians) == 2 and medians["jupyter_gpudask"]:
            entry["ratio"] = round(medians["by hand"] / medians["jupyter_gpudask"], 2)
        table[name] = entry
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", default="", help="parts of the names of rows, separated by ;")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    wanted = [part for part in options.only.split(";") if part]
    names = [name for name in ROWS if not wanted or any(part in name for part in wanted)]
    if options.engine == "cpu":
        names = [name for name in names if "cupy" not in name]
    if options.side:
        measure(options.side, options.engine, names, options.repeat)
        return
    from report import header, publish

    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("SPEED_DATA", folder)
        table = compare(options, names)
    for name, entry in table.items():
        seconds = entry["seconds"]
        cells = [f"{seconds[side]:8.2f}" if side in seconds else "  failed" for side in entry["runs"]]
        print(f"{name:90} {cells[0]} {cells[1]} {entry.get('ratio', ''):>6}")
    publish(header() | {"rows": table}, options.out, hide="rows")


if __name__ == "__main__":
    main()
