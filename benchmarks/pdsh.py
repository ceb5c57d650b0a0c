"""The 22 queries of PDS-H (derived from TPC-H) in `%%gpudask` cells, by hand, with cudf-polars and with Polars.

    python benchmarks/pdsh.py --scale 10 --out benchmarks/results/NAME.json
    python benchmarks/pdsh.py --scale 0.1 --only ours-cpu,plans-pandas

Needs ``tpchgen-cli`` and Polars for the data, and ``cudf-polars-cu12`` or ``-cu13`` for its queries, which Polars runs
on the CPU, too. The queries for Dask are those of `workloads.pdsh`. Each side runs in a process of its own, or with
``--together`` in one, where they take turns at each query; each query ``--repeat`` times, of which the fastest counts.
An answer is right if it has as many rows as that of Polars in this run or in an earlier one with the same ``--data``,
and the sums of its numeric columns. ``plans`` are the seconds in which all 22 plans are built, optimized and written as
graphs; nothing is computed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from harness import header, publish
from workloads.pdsh import QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable

TABLES = ("lineitem", "orders", "customer", "part", "partsupp", "supplier", "nation", "region")
SIDES = (
    "polars",
    "cudf-polars",
    "dask-engine",
    "polars-cells",
    "ours",
    "by-hand",
    "plans-ours",
    "plans-by-hand",
    "plans-pandas",
)
"""Also ``ours-cpu``, cells with NumPy and pandas on the CPU, and ``polars-cells-cpu``."""


def write_tables(folder: Path, scale: float) -> None:
    """Parquet files, three of each large table for a scale of 10; decimals as float64, days as datetime64[ms].

    At a scale of 100 they take 31 GB, and 40 GB on the way there.
    """
    import polars as pl

    shutil.rmtree(folder, ignore_errors=True)
    beside = Path(sys.executable).with_name("tpchgen-cli")
    generator = [str(beside) if beside.exists() else "tpchgen-cli", "parquet", "-s", str(scale)]
    cores = os.cpu_count() or 1
    workers = max(2, min(8, cores // 4))
    generator += ["--num-threads", str(max(1, 2 * cores // workers))]

    def write(table: str, part: int, parts: int) -> None:
        raw = folder / "raw" / f"{table}-{part}"
        command = [*generator, "--output-dir", str(raw), "--tables", table, "--parts", str(parts), "--part", str(part)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        frame = pl.read_parquet(f"{raw}/**/*.parquet")
        casts = [pl.col(c).cast(pl.Float64) for c, kind in frame.schema.items() if isinstance(kind, pl.Decimal)]
        casts += [pl.col(c).cast(pl.Datetime("ms")) for c, kind in frame.schema.items() if kind == pl.Date]
        target = folder / table / f"{part - 1:03}.parquet"
        frame.with_columns(*casts).write_parquet(target, row_group_size=2_000_000, compression="snappy")
        shutil.rmtree(raw)

    with ThreadPoolExecutor(workers) as pool:  # a part is written while the next ones are generated
        written = []
        for table in TABLES:
            (folder / table).mkdir(parents=True)
            parts = 1 if table in TABLES[-2:] else max(2, int(scale // 3))
            written += [pool.submit(write, table, part, parts) for part in range(1, parts + 1)]
        for each in written:
            each.result()
    (folder / "raw").rmdir()


def summary(answer: Any) -> list[Any]:
    """The number of rows, and the sorted sums of the numeric columns, of a dataframe, a series or a number."""
    import pandas as pd

    answer = answer.to_pandas() if hasattr(answer, "to_pandas") else answer
    answer = answer.to_frame() if isinstance(answer, pd.Series) else answer
    if not isinstance(answer, pd.DataFrame):
        return [1, [float(answer)]]
    numeric = answer.select_dtypes("number")
    return [len(answer), sorted(float(numeric[column].sum()) for column in numeric)]


def agree(answer: list[Any], expected: list[Any]) -> bool:
    """Whether two summaries are the same, to six digits or 0.05."""
    (rows, sums), (rows_expected, sums_expected) = answer, expected
    pairs = zip(sums, sums_expected, strict=False)
    return (
        rows == rows_expected
        and len(sums) == len(sums_expected)
        and all(abs(a - b) <= 0.05 + 1e-6 * abs(b) for a, b in pairs)
    )


def frames_of_polars(folder: Path) -> Callable[[int], Any]:
    """The queries of cudf-polars."""
    import polars as pl
    from cudf_polars.streaming.benchmarks.pdsh import PDSHQueries

    scale = len(pl.read_parquet(folder / "supplier")) / 10_000
    options = types.SimpleNamespace(dataset_path=str(folder), suffix="", scale_factor=scale, qualification=False)
    return lambda number: getattr(PDSHQueries, f"q{number}")(options).frame


def of_polars(folder: Path, engine: str) -> Callable[[int], Any]:
    """The queries on the GPU, with Polars' streaming engine, or with ``DaskEngine`` by hand."""
    import polars as pl

    chosen: Any = pl.GPUEngine(raise_on_fail=True) if engine == "gpu" else "streaming"
    if engine == "dask":
        from cudf_polars.engine.dask import DaskEngine
        from dask_cuda import LocalCUDACluster
        from distributed import Client

        chosen = DaskEngine(dask_client=Client(LocalCUDACluster(dashboard_address=None)))
    frame = frames_of_polars(folder)
    return lambda number: frame(number).collect(engine=chosen)


def of_polars_cells(folder: Path, arguments: str = "") -> Callable[[int], Any]:
    """The queries of cudf-polars in cells of one kernel."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jupyter_gpudask")
    shell.run_line_magic("gpudask", f"start {arguments}")
    shell.user_ns["frame"] = frames_of_polars(folder)

    def run(number: int) -> Any:
        shell.run_cell(f"%%gpudask\nanswer = frame({number}).collect()").raise_error()
        return shell.user_ns["answer"]

    return run


def of_cells(folder: Path, arguments: str, head: str) -> Callable[[int], Any]:
    """The queries in cells of one kernel, with a cluster of its own."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jupyter_gpudask")
    shell.run_line_magic("gpudask", f"start {arguments}")
    shell.user_ns.update(QUERIES=QUERIES, Planned=Planned, folder=str(folder))

    def run(number: int) -> Any:
        tables = "lambda name: dd.read_parquet(f'{folder}/{name}')"
        cell = f"import dask.dataframe as dd\ntry: answer = QUERIES[{number}]({tables})\nexcept Planned: answer = None"
        shell.run_cell(f"%%gpudask {head}\n{cell}").raise_error()
        return shell.user_ns["answer"]

    return run


def of_dask(folder: Path, backend: str, *, cluster: bool) -> Callable[[int], Any]:
    """The queries with Dask's own switch, and on a `LocalCUDACluster` if they are computed."""
    import dask
    import dask.dataframe as dd

    if cluster:
        from dask_cuda import LocalCUDACluster
        from distributed import Client

        Client(LocalCUDACluster(dashboard_address=None))
    dask.config.set({"dataframe.backend": backend})
    return lambda number: QUERIES[number](lambda name: dd.read_parquet(f"{folder}/{name}"))


class Planned(Exception):  # noqa: N818
    """Instead of an answer: the graph was written."""


def plan_only() -> None:
    """Let `compute()` of dataframes write the optimized graph, and stop."""
    from dask.dataframe.dask_expr import _collection

    def compute(self: Any, *_: Any, **__: Any) -> Any:
        dict(self.expr.optimize(fuse=True).__dask_graph__())
        raise Planned

    _collection.FrameBase.compute = _collection.Scalar.compute = compute


def start_side(side: str, folder: Path) -> Callable[[int], Any]:
    """The function that answers a query."""
    if side.startswith("plans"):
        plan_only()
    started: Callable[[int], Any] = {
        "polars": lambda: of_polars(folder, "cpu"),
        "cudf-polars": lambda: of_polars(folder, "gpu"),
        "dask-engine": lambda: of_polars(folder, "dask"),
        "polars-cells": lambda: of_polars_cells(folder),
        "polars-cells-cpu": lambda: of_polars_cells(folder, "--cpu"),
        "ours": lambda: of_cells(folder, "", ""),
        "ours-cpu": lambda: of_cells(folder, "--cpu", "--array numpy --dataframe pandas"),
        "by-hand": lambda: of_dask(folder, "cudf", cluster=True),
        "plans-ours": lambda: of_cells(folder, "", ""),
        "plans-by-hand": lambda: of_dask(folder, "cudf", cluster=False),
        "plans-pandas": lambda: of_dask(folder, "pandas", cluster=False),
    }[side]()
    return started


def run_sides(sides: list[str], folder: Path, repeat: int, seconds: float, out: Path) -> None:
    """Write seconds and summaries of the queries that sides answer within `seconds`, in turns; the first goes round."""
    runs = {side: start_side(side, folder) for side in sides}
    queries: dict[str, dict[int, Any]] = {side: {} for side in sides}
    until = time.monotonic() + seconds
    for turn in range(repeat):
        for number in QUERIES:
            first = turn % len(sides)
            for side in sides[first:] + sides[:first]:
                if time.monotonic() > until:
                    return
                queries[side][number] = run_query(runs[side], number, queries[side].get(number, {}))
                out.write_text(json.dumps(queries))


def run_query(run: Callable[[int], Any], number: int, before: dict[str, Any]) -> dict[str, Any]:
    """Seconds, of this try or of `before` if that was faster, and summary of a query; or its error."""
    began = time.perf_counter()
    try:
        answer = run(number)
    except Planned:
        answer = None
    except Exception as error:  # noqa: BLE001
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    taken = time.perf_counter() - began
    return {
        "seconds": round(min(taken, before.get("seconds", taken)), 4),
        "summary": answer if answer is None else summary(answer),
    }


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """All sides, each in a process of its own or together: total seconds, and how many answers Polars gives, too."""
    sides: dict[str, Any] = {}
    for group in [options.only] if options.together else [[side] for side in options.only]:
        out = options.data / f"{'+'.join(group)}.json"
        command = [sys.executable, __file__, "--side", ",".join(group), "--data", str(options.data), "--out", str(out)]
        command += ["--repeat", str(options.repeat), "--seconds", str(options.seconds)]
        out.unlink(missing_ok=True)
        subprocess.run(
            command, check=False, env=os.environ | {"KVIKIO_COMPAT_MODE": "on"}, timeout=options.seconds + 120
        )
        sides |= json.loads(out.read_text()) if out.exists() else {side: {} for side in group}
        print({side: len(sides[side]) for side in group}, "queries", flush=True)
    earlier = options.data / "polars.json"
    expected = sides.get("polars") or (json.loads(earlier.read_text())["polars"] if earlier.exists() else {})
    table = {}
    for side, queries in sides.items():
        answered = {number: query for number, query in queries.items() if "seconds" in query}
        row = {"queries": len(answered), "seconds": round(sum(query["seconds"] for query in answered.values()), 2)}
        if not side.startswith("plans") and expected:
            row["right"] = sum(
                agree(q["summary"], expected[n]["summary"]) for n, q in answered.items() if n in expected
            )
        table[side] = row
        print(side, row, flush=True)
    return {"scale": options.scale, "together": options.together, "table": table, "queries": sides}


def main() -> None:
    """Write the data, run the sides, and publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--data", type=Path, default=Path(gettempdir()) / "pdsh", help="folder of the tables")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SIDES), help="sides")
    parser.add_argument("--together", action="store_true", help="run the sides in one process, in turns")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120, help="after which a side begins no further query")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        run_sides(options.side.split(","), options.data, options.repeat, options.seconds, options.out)
        os._exit(0)  # by hand: LocalCUDACluster's processes end with this one
    if not (options.data / TABLES[-1]).exists():
        began = time.monotonic()
        write_tables(options.data, options.scale)
        print(f"tables written in {time.monotonic() - began:.0f} s", flush=True)
    publish(header() | compare(options), options.out, hide="queries")


if __name__ == "__main__":
    main()
