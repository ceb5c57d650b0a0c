"""Dask's own tests, run on the CPU and again with the switch on around each test, and compared.

    python benchmarks/dask_tests.py --out benchmarks/results/NAME.json --table benchmarks/results/NAME.md
    python benchmarks/dask_tests.py --suites cupy --results gpu --out benchmarks/results/NAME.json
    python benchmarks/dask_tests.py --array numpy --dataframe pandas    # everything agrees: it checks this script
    PYTHONPATH=tests/fake_cupy python benchmarks/dask_tests.py --suites array --dataframe pandas

A test that passes twice agrees. Of the others, `suites/judge.py` says what the difference is; "another value" is a
wrong answer unless something explains it. Dask's `assert_eq` compares the values of collections on GPUs, as NumPy and
pandas objects (`suites/comparison.py`). The tests are those that Dask installs; the fourth suite, `cupy`, has Dask's
tests for CuPy, whose first run is stock Dask on the GPU. With the switch on, graphs of arrays are optimized as on a
cluster (`optimized.py`).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from journal import NOT_RUN, Journal
from report import header, publish
from suites.files import SUITES, Portion, copy_tests, full_name, may_have, portions
from suites.judge import AGREES, LEFT_OUT, Row, judge
from suites.process import TestProcess
from suites.report import counts, table
from suites.session import Side

if TYPE_CHECKING:
    from collections.abc import Sequence

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Pairs:
    """Pairs of processes, one for each side; a pair does one thing at a time."""

    def __init__(self, number: int, sides: Sequence[Side], deadline: float) -> None:
        self._pairs = [[TestProcess(side, deadline) for side in sides] for _ in range(number)]
        self._free: SimpleQueue[list[TestProcess]] = SimpleQueue()
        self._pool = ThreadPoolExecutor(number)
        for pair in self._pairs:
            self._free.put(pair)

    def map(self, function, things):  # noqa: ANN001, ANN201
        """As `map`; the function gets a pair and a thing."""

        def with_pair(thing):  # noqa: ANN001, ANN202
            pair = self._free.get()
            try:
                return function(pair, thing)
            finally:
                self._free.put(pair)

        return self._pool.map(with_pair, things)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for pair in self._pairs:
            for process in pair:
                process.close()


def run_portion(pair: Sequence[TestProcess], portion: Portion, limit: float) -> list[Row]:
    """Run some tests of one file twice; the second time only those that pass on the CPU."""
    first, second = pair
    before = first.run(portion.file, portion.names, limit)
    kept = [name for name, outcome in before.items() if outcome.outcome == "passed"]
    after = second.run(portion.file, kept, limit)
    rows = [judge(full_name(portion.file, name), outcome, after.get(name)) for name, outcome in before.items()]
    for row in rows:
        if row.outcome not in (AGREES, LEFT_OUT, NOT_RUN):
            print(f"{row.outcome:18} {row.name}: {row.line} {row.note}"[:400], file=sys.stderr)
    return rows


def run_all(arguments: argparse.Namespace, sides: Sequence[Side], deadline: float, journal: Journal[Row]) -> list[Row]:
    """The rows of all tests that are asked for, of those in the journal too."""
    pairs = Pairs(arguments.processes, sides, deadline)
    try:
        with tempfile.TemporaryDirectory() as folder:
            copies = copy_tests(arguments.suites, Path(folder), arguments.dask_source)
            files = [file for file in copies if may_have(file, arguments.only)]
            names = pairs.map(lambda pair, file: pair[0].collect(file), files)
            tests = {
                file: [name for name in of_file if full_name(file, name).startswith(tuple(arguments.only))]
                for file, of_file in zip(files, names, strict=True)
            }
            wanted = {full_name(file, name) for file, of_file in tests.items() for name in of_file}
            known = [row for name, row in journal.rows.items() if name in wanted]
            left = {
                file: [name for name in of_file if full_name(file, name) not in journal.rows]
                for file, of_file in tests.items()
            }

            def run(pair: Sequence[TestProcess], portion: Portion) -> list[Row]:
                rows = run_portion(pair, portion, arguments.limit)
                journal.add(*rows)
                return rows

            all_portions = portions(left, first=arguments.first)
            number, parts = arguments.part
            done = pairs.map(run, all_portions[len(all_portions) * (number - 1) // parts :])
            return sorted((row for rows in [known, *done] for row in rows), key=lambda row: row.name)
    finally:
        pairs.close()


def _part(text: str) -> tuple[int, int]:
    number, _, parts = text.partition("/")
    if not 0 < int(number) <= int(parts):
        raise ValueError
    return int(number), int(parts)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--array", default="cupy", choices=["cupy", "numpy"])
    parser.add_argument("--dataframe", default="cudf", choices=["cudf", "pandas"])
    parser.add_argument("--fallback", default="host", choices=["error", "host", "strict"])
    parser.add_argument("--results", default="host", choices=["host", "gpu"], help="where those of compute() are")
    parser.add_argument("--suites", nargs="+", default=["array", "dataframe", "expressions", "io"], choices=SUITES)
    parser.add_argument("--dask-source", type=Path, metavar="FOLDER", help="Dask's package, if not the installed one")
    parser.add_argument("--only", nargs="+", default=[""], metavar="PREFIX", help="of 'SUITE/FILE::TEST'")
    parser.add_argument(
        "--part", type=_part, default=(1, 1), metavar="N/M", help="from the beginning of part N of M on"
    )
    parser.add_argument("--first", nargs="+", default=[], metavar="PREFIX", help="of the tests that are run first")
    parser.add_argument("--processes", type=int, default=max(1, min(16, os.cpu_count() or 1)), help="pairs of them")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a test")
    parser.add_argument("--seconds", type=float, default=360.0, help="for all of it; what is left is not run")
    parser.add_argument(
        "--rows",
        type=Path,
        metavar="FILE",
        help="written as the tests are run; if it exists, the run goes on from there",
    )
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    parser.add_argument("--table", type=Path, help="the markdown file to write")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    options = {name: getattr(arguments, name) for name in ("array", "dataframe", "fallback", "results")}
    began = time.monotonic()
    try:
        journal = Journal(arguments.rows, options, Row)
    except ValueError as error:
        sys.exit(str(error))
    sides = Side(switched=False), Side(switched=True, **options)
    rows = run_all(arguments, sides, began + arguments.seconds, journal)
    if all(row.outcome == NOT_RUN for row in rows):
        sys.exit("No test has run. Choose others with --suites and --only, or give more --seconds.")
    report = {
        **header(),
        **options,
        "suites": arguments.suites,
        "seconds": round(time.monotonic() - began, 1),
        "counts": counts(rows),
        "tests that do not agree": [asdict(row) for row in rows if row.outcome not in (AGREES, LEFT_OUT, NOT_RUN)],
    }
    publish(report, arguments.out, hide="tests that do not agree")
    if arguments.table:
        facts = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
        gpus = ", ".join(report["gpus"]) or "No GPU"
        introduction = [f"{gpus}, {report['date']}; {facts}. `{report['command']}`, {report['seconds']:.0f} s"]
        arguments.table.write_text(table(rows, introduction))


if __name__ == "__main__":
    main()
