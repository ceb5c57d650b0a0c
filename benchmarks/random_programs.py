"""Random programs, run with NumPy and pandas, with Dask, and with Dask under the switch, and compared.

    python benchmarks/random_programs.py --seconds 300 --rows ROWS.jsonl --table benchmarks/results/NAME.md
    python benchmarks/random_programs.py --program 1234                # run one, and print all of it
    python benchmarks/random_programs.py --array numpy --dataframe pandas
    PYTHONPATH=tests/fake_cupy python benchmarks/random_programs.py --dataframe pandas --kind array

A program has some data and a few steps in the style of pandas or NumPy (`programs/`), all made from its seed. It agrees
if Dask under the switch has the values, dtypes, names and order of Dask on the CPU, or fails where that fails. Where
they differ, NumPy and pandas decide: a result like theirs is no finding, and neither is a difference that
docs/what-runs-where.md lists (`programs/compare.py`). The others are made smaller and grouped by the last operation.
Without an option, the backends are CuPy and cuDF where there is a GPU, and those of the CPU elsewhere.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from journal import Journal
from programs.compare import FINDINGS, Row
from programs.process import Pair
from programs.reduce import reduced
from programs.report import counts, groups, summary, table
from programs.run import Backends, run
from report import gpu_names, header, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
REDUCED_OF_GROUP = 1
"""Programs of a group of differences that are made smaller; the others only add to its number."""


class Search:
    """Runs the programs of many seeds in several pairs of processes at once."""

    def __init__(self, arguments: argparse.Namespace, journal: Journal[Row]) -> None:
        self._arguments, self._journal = arguments, journal
        self._backends = Backends(arguments.array, arguments.dataframe)
        self._seeds = self._wanted()
        self._lock = threading.Lock()
        self._reduced: Counter[tuple[str, ...]] = Counter()
        self._deadline = time.monotonic() + arguments.seconds

    def run(self) -> None:
        """Run until the time is over, or the programs are done."""
        with ThreadPoolExecutor(self._arguments.processes) as pool:
            for done in [pool.submit(self._run_some) for _ in range(self._arguments.processes)]:
                done.result()

    def _wanted(self) -> Iterator[int]:
        first = self._arguments.seed
        seeds = (
            itertools.count(first)
            if self._arguments.programs is None
            else range(first, first + self._arguments.programs)
        )
        return (seed for seed in seeds if seed not in self._journal.rows)

    def _next(self) -> int | None:
        with self._lock:
            return next(self._seeds, None) if time.monotonic() < self._deadline else None

    def _run_some(self) -> None:
        pair = Pair(self._backends, self._arguments.limit)
        try:
            while (seed := self._next()) is not None:
                self._journal.add(self._row_of(pair, seed))
        finally:
            pair.close()

    def _row_of(self, pair: Pair, seed: int) -> Row:
        program, row = pair.judged_seed(seed, self._arguments.kind)
        if row.outcome not in FINDINGS:
            return row
        with self._lock:
            self._reduced[row.group] += 1
            is_new = self._reduced[row.group] <= REDUCED_OF_GROUP
        if is_new:
            left = max(1.0, self._deadline - time.monotonic())
            program, row = reduced(program, row, pair.judged, min(self._arguments.reduce, left))
        row.source = program.source
        print(f"{row.outcome}, seed {seed}, {row.last}: {row.note}"[:300], file=sys.stderr)
        return row


def show(seed: int, arguments: argparse.Namespace) -> None:
    """Run one program in this process, and print all of it."""
    pair = Pair(Backends(arguments.array, arguments.dataframe), arguments.limit)
    try:
        program, row = pair.judged_seed(seed, arguments.kind)
        print(program.source)
        if row.outcome in FINDINGS:
            smaller, row = reduced(program, row, pair.judged, arguments.reduce)
            print(f"# made smaller\n{smaller.source}")
            program = smaller
    finally:
        pair.close()
    for way in ("host", "dask", "switch", "optimized"):
        outcome = run(program, way, Backends(arguments.array, arguments.dataframe))
        print(f"--- {way}: {outcome.error or ''}\n{outcome.value!r}\n{outcome.facts or ''}")
        for operation, blocks in outcome.on_cpu.items():
            print(f"on the CPU: {operation}, {blocks} blocks")
    print(f"{row.outcome} {row.note} {row.host}")


def parsed() -> argparse.Namespace:
    gpu = bool(gpu_names())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--array", choices=["cupy", "numpy"], default="cupy" if gpu or _has_stand_in() else "numpy")
    parser.add_argument("--dataframe", choices=["cudf", "pandas"], default="cudf" if gpu else "pandas")
    parser.add_argument("--kind", nargs="+", choices=["frame", "array"], default=["frame", "array"])
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the next ones count up")
    parser.add_argument("--programs", type=int, help="how many; without it, as many as the time allows")
    parser.add_argument("--seconds", type=float, default=300.0, help="for all of it")
    parser.add_argument("--processes", type=int, default=max(1, min(16, os.cpu_count() or 1)), help="pairs of them")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one run of a program")
    parser.add_argument("--reduce", type=float, default=15.0, help="seconds to make a program smaller")
    parser.add_argument("--program", type=int, metavar="SEED", help="run one program, and print all of it")
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="written as the programs run; one that exists is continued"
    )
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    parser.add_argument("--table", type=Path, help="the markdown file to write")
    return parser.parse_args()


def _has_stand_in() -> bool:
    return any(Path(folder).name == "fake_cupy" for folder in sys.path)


def main() -> None:
    arguments = parsed()
    # The order of columns that Dask takes from a set is the same in all processes.
    os.environ.update(dict.fromkeys(ONE_THREAD, "1") | {"PYTHONHASHSEED": "0"})
    if arguments.program is not None:
        show(arguments.program, arguments)
        return
    options = {name: getattr(arguments, name) for name in ("array", "dataframe", "kind")}
    began = time.monotonic()
    try:
        journal = Journal(arguments.rows, options, Row)
    except ValueError as error:
        sys.exit(str(error))
    Search(arguments, journal).run()
    rows = [journal.rows[seed] for seed in sorted(journal.rows)]
    if not rows:
        sys.exit("No program has run. Give more --seconds.")
    report = {
        **header(),
        **options,
        "seeds": [rows[0].seed, rows[-1].seed],
        "seconds": round(time.monotonic() - began, 1),
        "counts": counts(rows),
        "differences": summary(rows),
    }
    for group in groups(rows):
        print(f"\n# {group[0].outcome}: {group[0].last} ({len(group)}). {group[0].note}\n{group[0].source}")
    publish(report, arguments.out, hide="differences")
    if arguments.table:
        gpus = ", ".join(report["gpus"]) or "No GPU"
        facts = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
        introduction = [f"{gpus}, {report['date']}; {facts}. `{report['command']}`, {report['seconds']:.0f} s"]
        arguments.table.write_text(table(rows, introduction))


if __name__ == "__main__":
    main()
