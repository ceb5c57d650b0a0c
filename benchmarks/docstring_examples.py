"""The examples in the docstrings of dask.array and dask.dataframe, run on the CPU and under the switch, and compared.

    python benchmarks/docstring_examples.py --out benchmarks/results/NAME.json --table benchmarks/results/NAME.md
    python benchmarks/docstring_examples.py --module dask_cudf --out benchmarks/results/NAME.json

The second runs the examples of dask_cudf on the GPU twice, on stock Dask and with our backends. Without a GPU,
`--backend numpy` runs everything on the CPU twice; then everything agrees.
Under the switch, graphs of arrays are optimized as on a cluster (`optimized.py`).
How examples for NumPy and pandas become examples for Dask: docstrings/translate.py. What "agree" means:
docstrings/agreement.py.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from docstrings.collect import dask_docstrings, module_docstrings
from docstrings.judge import judge
from docstrings.report import counts, table
from docstrings.translate import translated
from docstrings.workers import Side, Worker
from report import header, publish

if TYPE_CHECKING:
    from docstrings.collect import Docstring
    from docstrings.judge import Row


def run_all(docstrings: list[Docstring], first: Side, second: Side, *, processes: int) -> list[Row]:
    """Judge all, some at a time."""
    free: SimpleQueue[dict[Side, Worker]] = SimpleQueue()
    made = []
    for _ in range(min(processes, len(docstrings))):
        # The CPU's run shares a process with ours, as two cells of a notebook do; stock Dask must have its own.
        one = Worker(first, second) if first.name == "cpu" else Worker(first)
        made.append({first: one, second: one if first.name == "cpu" else Worker(second)})
        free.put(made[-1])

    def run(docstring: Docstring) -> Row:
        workers = free.get()
        try:
            row = judge(docstring, first, second, workers)
        finally:
            free.put(workers)
        print(f"{row.outcome:9} {row.name:40} {row.note}", file=sys.stderr)
        return row

    with ThreadPoolExecutor(processes) as pool:
        for side in (first, second):  # what cannot begin at all ends the program here
            list(pool.map(lambda workers, side=side: workers[side].start(), made))
        rows = list(pool.map(run, docstrings))
    for workers in made:
        for worker in workers.values():
            worker.close()
    return rows


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--array", default="cupy", choices=["cupy", "numpy"])
    parser.add_argument("--dataframe", default="cudf", choices=["cudf", "pandas"])
    parser.add_argument("--backend", choices=["numpy"], help="short for --array numpy --dataframe pandas")
    parser.add_argument("--fallback", default="error", choices=["error", "host"], help="for what CuPy or cuDF lack")
    parser.add_argument("--module", help="a package whose docstrings to run instead, on stock Dask and with ours")
    parser.add_argument("--only", nargs="+", default=[""], metavar="PREFIX", help="of the names of docstrings")
    parser.add_argument("--show", action="store_true", help="print the examples as they are run, and run nothing")
    parser.add_argument("--processes", type=int, default=max(1, min(8, (os.cpu_count() or 2) // 2)))
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    parser.add_argument("--table", type=Path, help="the markdown file to write")
    arguments = parser.parse_args()
    if arguments.backend:
        arguments.array, arguments.dataframe = "numpy", "pandas"
    return arguments


def main() -> None:
    arguments = parsed()
    docstrings = module_docstrings(arguments.module) if arguments.module else dask_docstrings()
    docstrings = [docstring for docstring in docstrings if docstring.name.startswith(tuple(arguments.only))]
    if arguments.show:
        print("\n".join("\n".join([f"# {each.name}", *translated(each)]) for each in docstrings))
        return
    backends = {"array": arguments.array, "dataframe": arguments.dataframe}
    first, second = (
        Side("stock", **backends) if arguments.module else Side("cpu"),
        Side("gpu", **backends, fallback=arguments.fallback),
    )
    began = time.perf_counter()
    rows = run_all(docstrings, first, second, processes=arguments.processes)
    report = {
        **header(),
        "backends": backends,
        "fallback": arguments.fallback,
        "runs": [first.name, second.name],
        "seconds": round(time.perf_counter() - began, 1),
        "counts": counts(rows),
        "docstrings": [{key: value for key, value in asdict(row).items() if value} for row in rows],
    }
    publish(report, arguments.out, hide="docstrings")
    if arguments.table:
        package = arguments.module or "dask.array and dask.dataframe"
        facts = [f"{name} {version}" for name, version in report["versions"].items()]
        introduction = [
            f"{', '.join(report['gpus']) or 'No GPU'}, {report['date']}; {', '.join(facts)}. `{report['command']}`"
        ]
        arguments.table.write_text(table(rows, f"The docstring examples of {package}, run twice", introduction))


if __name__ == "__main__":
    main()
