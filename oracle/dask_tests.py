"""Dask's own tests, run on the CPU and again with the switch on around each test, and compared.

    python oracle/dask_tests.py --out benchmarks/results/NAME.json --table benchmarks/results/NAME.md
    python oracle/dask_tests.py --suites cupy --results gpu --out benchmarks/results/NAME.json
    python oracle/dask_tests.py --array numpy --dataframe pandas    # everything agrees: it checks this script
    PYTHONPATH=tests/fake_cupy python oracle/dask_tests.py --suites array
    PYTHONPATH=tests/switch python oracle/dask_tests.py --suites dataframe expressions    # what a kernel plans for GPUs

A test that passes twice agrees. Of the others, `dask_judge.py` says what the difference is; "another value" is a
wrong answer unless something explains it. Dask's `assert_eq` compares the values of collections on GPUs, as NumPy and
pandas objects (`dask_session.py`). The tests are those that Dask installs; the suite `cupy` has Dask's tests for CuPy.
With the switch on, graphs of arrays are optimized as on a cluster (`sides.py`).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import dask
from dask_judge import AGREES, COMPARED, GRAPH, LEFT_OUT, TYPES, VALUE, Failure, Outcome, Row, judge
from dask_session import ENDS_RUN, serve
from processes import LOST, NOT_RUN, START_LIMIT, Journal, Process, in_turns
from reports import ONE_THREAD, cell, finish, parser, percent, rows_of
from sides import BROKEN, Side

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

PORTION = 40
"""Tests that are run at once, of one file."""

PARAMETERS = 6
"""Of each test function as many are run before the others."""

SUITES = {
    "array": "array/tests/test_*.py",
    "dataframe": "dataframe/tests/test_*.py",
    "expressions": "dataframe/dask_expr/tests/test_*.py",
    "io": "dataframe/io/tests/test_*.py",
    "cupy": "array/tests/test_cupy_*.py",
}
"""Where the tests are in Dask's package."""

PACKAGE = "tests_of_dask"
"""The package of their modules: `array` and `io` alone are names of the standard library."""


class Portion(NamedTuple):
    """Some tests of one file."""

    file: Path
    names: tuple[str, ...]


def copy_tests(suites: Iterable[str], folder: Path) -> list[Path]:
    """Copy tests of Dask to `folder`, where their modules are not parts of Dask, and the fixtures that they need."""
    source, folder = Path(dask.__file__).parent, folder / PACKAGE
    folder.mkdir()
    shutil.copy(source / "conftest.py", folder / "conftest.py")
    copies = []
    for suite in suites:
        (folder / suite).mkdir()
        files = sorted(source.glob(SUITES[suite]))
        files = [file for file in files if suite == "cupy" or not file.name.startswith("test_cupy_")]
        copies += [Path(shutil.copy(file, folder / suite / file.name)) for file in files]
    return copies


def full_name(file: Path, test: str) -> str:
    """The name of a test among those of all files: ``"array/test_ufunc.py::test_angle"``."""
    return f"{file.parent.name}/{file.name}::{test}"


def may_have(file: Path, prefixes: Iterable[str]) -> bool:
    """Whether a test of a file may have a full name that begins with one of the prefixes."""
    place = full_name(file, "")
    return any(place.startswith(prefix) or prefix.startswith(place) for prefix in prefixes)


def portions(tests: Mapping[Path, Sequence[str]], size: int = PORTION, first: Collection[str] = ()) -> list[Portion]:
    """All tests, in turns from all files; a run that is cut short has seen some parameters of each test function.

    Tests whose full names begin with one of `first` come before all others, in portions of a fourth of the size.
    """
    early = {
        file: [name for name in names if full_name(file, name).startswith(tuple(first))]
        for file, names in tests.items()
    }
    left = {file: _without(names, early[file]) for file, names in tests.items()}
    some = {file: _some_of_each(names) for file, names in left.items()}
    others = {file: _without(names, some[file]) for file, names in left.items()}
    return _in_turns(early, max(1, size // 4)) + _in_turns(some, size) + _in_turns(others, size)


def _some_of_each(names: Sequence[str]) -> list[str]:
    """Of each test function some of its parameters, evenly spread."""
    functions: dict[str, list[str]] = {}
    for name in names:
        functions.setdefault(name.partition("[")[0], []).append(name)
    return [name for of_one in functions.values() for name in of_one[:: -(-len(of_one) // PARAMETERS)]]


def _without(names: Sequence[str], unwanted: Collection[str]) -> list[str]:
    unwanted = set(unwanted)
    return [name for name in names if name not in unwanted]


def _in_turns(tests: Mapping[Path, Sequence[str]], size: int) -> list[Portion]:
    of_files = [
        [Portion(file, tuple(names[begin : begin + size])) for begin in range(0, len(names), size)]
        for file, names in tests.items()
    ]
    return [portion for turn in zip_longest(*of_files) for portion in turn if portion]


class TestProcess:
    """A process for one of the two sides, made again after it was lost; after the `deadline` nothing is run."""

    __test__ = False  # of pytest, which takes each class of this name for tests

    def __init__(self, side: Side, deadline: float = float("inf")) -> None:
        self._side, self._deadline = side, deadline
        self._process = Process(serve, side)

    def collect(self, file: Path) -> list[str]:
        """The names of the tests of a file; of a file that cannot be imported, none."""
        try:
            self._send(file, None)
            names: list[str] = self._receive(START_LIMIT)
        except LOST as error:
            print(f"{file.name} has no tests: {self._end(error, START_LIMIT)}", file=sys.stderr)
            return []
        return names

    def run(self, file: Path, names: Sequence[str], limit: float) -> dict[str, Outcome]:
        """Run tests of one file, each within `limit` seconds.

        What needs more is ``"lost"``, and so is what ends the process; the others are run in a new one. Without a
        process, as on a GPU whose memory is full, they are ``"not run"``.
        """
        outcomes: dict[str, Outcome] = {}
        while remaining := [name for name in names if name not in outcomes]:
            if self._is_over() or not self._run(file, remaining, limit, outcomes):
                break
        return {name: outcomes.get(name, Outcome("not run")) for name in names}

    def _run(self, file: Path, names: list[str], limit: float, outcomes: dict[str, Outcome]) -> bool:
        """Run until the end, or until the process is lost; whether there is something left to do."""
        is_new = not self._process.exists
        try:
            self._send(file, names)
        except LOST as error:
            how = self._end(error, START_LIMIT)
            if is_new and not self._is_over():
                print(f"A process does not start ({how}): {self._side}", file=sys.stderr)
            return not is_new
        running, wait, began = "", START_LIMIT, len(outcomes)
        while True:
            try:
                message = self._receive(wait)
            except LOST as error:
                how = self._end(error, limit)
                if self._is_over() and isinstance(error, TimeoutError):
                    return False
                # Before the first test, it was the file: a second attempt would end in the same way.
                lost = [running] if running else names if len(outcomes) == began else []
                outcomes.update({name: Outcome("lost", Failure("", how)) for name in lost})
                return True
            if message is ENDS_RUN:
                if running:  # pytest itself failed
                    outcomes[running] = Outcome("lost", Failure("", "pytest ended in it"))
                return bool(running)
            running, *done = message
            wait = limit
            if done:
                outcomes[running] = done[0]
                failure = done[0].failure
                running, wait = "", START_LIMIT
                if failure and any(word in failure.message for word in BROKEN):
                    self.close()
                    return True

    def _end(self, error: Exception, limit: float) -> str:
        how = self._process.lost(error, limit)
        return "no time was left" if isinstance(error, TimeoutError) and self._is_over() else how

    def close(self) -> None:
        """End the process, and those that its tests have started."""
        self._process.close()

    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def _send(self, *request: Any) -> None:
        self._process.start(self._left(START_LIMIT))
        self._process.send(request)

    def _receive(self, limit: float) -> Any:
        return self._process.receive(self._left(limit))

    def _left(self, limit: float) -> float:
        return min(limit, max(0.0, self._deadline - time.monotonic()))


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


def run_all(arguments: argparse.Namespace, sides: Sequence[Side], deadline: float, journal: Journal) -> list[Row]:
    """The rows of all tests that are asked for, of those in the journal too."""
    pairs = [[TestProcess(side, deadline) for side in sides] for _ in range(arguments.processes)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            copies = copy_tests(arguments.suites, Path(folder))
            files = [file for file in copies if may_have(file, arguments.only)]
            names = in_turns(pairs, lambda pair, file: pair[0].collect(file), files)
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

            done = in_turns(pairs, run, portions(left, first=arguments.first))
            return sorted((row for rows in [known, *done] for row in rows), key=lambda row: row.name)
    finally:
        for pair in pairs:
            for process in pair:
                process.close()


def counts(rows: Sequence[Row]) -> dict[str, Any]:
    """How many tests came out how."""
    of_outcome = Counter(row.outcome for row in rows)
    compared = sum(of_outcome[outcome] for outcome in COMPARED)
    agree = [row for row in rows if row.outcome == AGREES]
    like = len(agree) + of_outcome[TYPES] + of_outcome[GRAPH]

    return {
        "tests": len(rows),
        "pass on the CPU and ran under the switch": compared,
        **{outcome: of_outcome[outcome] for outcome in (*COMPARED, "left out", "not run") if of_outcome[outcome]},
        "agree, in percent": percent(len(agree), compared),
        "agree, or differ only in types or the graph, in percent": percent(like, compared),
        "agree, and compared a collection on the GPU": sum(row.on_gpu for row in agree),
        "agree, with something on the CPU": sum(bool(row.on_cpu) for row in agree),
    }


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Tables of markdown: the counts of each file, and the tests that do not agree, other values first."""
    files = []
    for file, of_file in _grouped(rows, lambda row: row.name.partition("::")[0]).items():
        outcomes = Counter(row.outcome for row in of_file if row.outcome in COMPARED)
        others = ", ".join(f"{outcome}: {n}" for outcome, n in outcomes.most_common() if outcome != AGREES)
        files.append((file, outcomes.total(), outcomes[AGREES], others))
    yield from rows_of(("file", "passes on the CPU", "agrees", "other outcomes"), files)
    operations = Counter(operation for row in rows if row.outcome == AGREES for operation in row.on_cpu)
    of_operations = ((cell(operation), n) for operation, n in operations.most_common())
    yield from rows_of(("on the CPU, in tests that agree", "tests"), of_operations)
    differing = [row for row in rows if row.outcome in COMPARED and row.outcome != AGREES]
    all_of = Counter(row.name.partition("[")[0] for row in rows if row.outcome in COMPARED)
    groups = _grouped(differing, lambda row: (row.outcome, row.name.partition("[")[0]))
    of_groups = []
    for (outcome, function), group in sorted(groups.items(), key=lambda item: (item[0][0] != VALUE, item[0])):
        line, note = (cell(text) for text in (group[0].line.replace("`", "'"), group[0].note))
        words = f"`{line}` {note}" if line else note
        of_groups.append((f"`{function}`", outcome, f"{len(group)} of {all_of[function]}", words))
    yield from rows_of(("test", "outcome", "parameters", "the first of them"), of_groups)


def _grouped(rows: Iterable[Row], key: Any) -> dict[Any, list[Row]]:
    groups = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def main() -> None:
    made = parser(__doc__, seconds=360.0)
    made.add_argument("--fallback", default="host", choices=["error", "host", "strict"])
    made.add_argument("--results", default="host", choices=["host", "gpu"], help="where those of compute() are")
    made.add_argument("--suites", nargs="+", default=["array", "dataframe", "expressions", "io"], choices=SUITES)
    made.add_argument("--only", nargs="+", default=[""], metavar="PREFIX", help="of 'SUITE/FILE::TEST'")
    made.add_argument("--first", nargs="+", default=[], metavar="PREFIX", help="of the tests that are run first")
    arguments = made.parse_args()
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    options = {name: getattr(arguments, name) for name in ("array", "dataframe", "fallback", "results")}
    began = time.monotonic()
    try:
        journal = Journal(arguments.rows, options, Row)
    except ValueError as error:
        sys.exit(str(error))
    rows = run_all(arguments, (Side(), Side.switched(**options)), began + arguments.seconds, journal)
    if all(row.outcome == NOT_RUN for row in rows):
        sys.exit("No test has run. Choose others with --suites and --only, or give more --seconds.")
    differ = "tests that do not agree"
    report = options | {
        "suites": arguments.suites,
        "seconds": round(time.monotonic() - began, 1),
        "counts": counts(rows),
        differ: [asdict(row) for row in rows if row.outcome not in (AGREES, LEFT_OUT, NOT_RUN)],
    }
    agree = report["counts"]["agree, in percent"]
    title = "Dask's own tests, on the CPU and with the switch on"
    finish(arguments, title, report, table(rows), hide=differ, agree=agree)


if __name__ == "__main__":
    main()
