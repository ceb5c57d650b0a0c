"""The examples in the docstrings of dask.array and dask.dataframe, run on the CPU and under the switch, and compared.

    python oracle/docstring_examples.py --out benchmarks/results/NAME.json --table benchmarks/results/NAME.md
    python oracle/docstring_examples.py --module dask_cudf --out benchmarks/results/NAME.json

The second runs the examples of dask_cudf on the GPU twice, on stock Dask and with our backends. Without a GPU,
everything runs on the CPU twice; then everything agrees. Under the switch, graphs of arrays are optimized as on a
cluster (`sides.py`). How examples for NumPy and pandas become examples for Dask: `docstrings.py`. What "agree" means:
`docstring_runs.py`. Where the runs differ, such examples are run with NumPy and pandas, too, and these decide.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import pickle
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from docstring_runs import Outcome, Value, difference, of_open_order, run_examples, undetermined
from docstrings import Docstring, as_printed, dask_docstrings, module_docstrings, scope_of, translated, write_files
from processes import LOST, START_LIMIT, Process, in_turns
from reports import cell, finish, parser, percent, rows_of
from sides import BROKEN, Side, on_side
from strict_rules import AS_HOST

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterator, Sequence
    from multiprocessing.connection import Connection

AGREE, DIFFER, FAILS, LEFT_OUT = "agree", "differ", "fails", "left out"
"""Of a docstring: everything agrees; a value differs; an example fails in the second run only; nothing to compare. And
`AS_HOST`, if every value that differs is that of NumPy or pandas."""

LIMIT = 40.0
"""Seconds for the examples of one docstring, in each of the two runs."""

_NOT_HERE = ("matplotlib",)
"""What some machines have and others have not, and what iterates over an array element by element."""

CAUSES = {
    r"^da\.ma\.": "CuPy has no masked arrays",
    r"^da\.isinf$": "Dask on the CPU writes the result into the constants of its graph",
    r"^dd\.(DataFrame\.to_html|Series\.dt\.to_pytimedelta)$": "the same in another form",
    r"Unsupported type <class 'numpy\.ndarray'>|MixedBackendsError": "NumPy's data, or a list, beside blocks of CuPy",
    r"Implicit conversion to a (host )?NumPy array": "something made only for NumPy is given data of the GPU",
    r"(Unsupported dtype|not supported).*(object|str|datetime|timedelta)": "CuPy has numbers alone",
    r"took over|process died": "no end within the limit, or a crash",
    r"NotImplemented|[Nn]ot implemented|[Nn]ot supported|[Uu]nsupported|No dispatch|Failed to generate metadata|"
    r"inference failed|Cannot interpret frequency|no implementation|has no attribute|unexpected keyword|"
    r"does not support|[Nn]ot yet supported|do not currently|must be (all )?the same|must all have|[Nn]ot allowed|"
    r"\(in (cudf|cupy)\)|of type '<class 'cudf": "not in CuPy or cuDF",
    r": rows in another order": "rows in another order",
    r": dtypes |: values \[[ \d.nan]+\] and \['": "another dtype",
}
"""What stands behind a docstring that does not agree, by what its name or its note says; the first that fits."""


@dataclass
class Row:
    """What came of one docstring."""

    name: str
    outcome: str
    note: str = ""
    examples: int = 0
    """How many examples it has."""
    ran: int = 0
    """How many of them run in the first run; the others are not compared."""
    compared: int = 0
    """How many values were compared."""
    on_gpu: int = 0
    """How many of those came from CuPy or cuDF in the second run."""
    stayed: str = ""
    """The first example that leaves a Dask collection without anything of CuPy or cuDF in it."""
    random: bool = False
    """Whether some were compared by dtype and shape alone."""
    as_written: tuple[int, int] = (0, 0)
    """How many examples print what the docstring says, in each run."""


class RunError(Exception):
    """A process died, or took too long."""


class Worker:
    """A process that runs docstrings one by one on some sides; it is made again after it was lost."""

    def __init__(self, *sides: Side) -> None:
        self._process = Process(_serve, sides)

    def run(
        self, side: Side, docstring: Docstring, sources: list[str], only: Collection[int] | None, limit: float
    ) -> dict[int, Outcome]:
        """The outcomes of the examples, as translated to `sources`; a `RunError` after `limit` seconds, or a death."""
        self.start()
        self._process.send((side, docstring, sources, only))
        outcomes: dict[int, Outcome] = self._received(limit, lambda: self._process.receive(limit))
        errors = [error for each in outcomes.values() for error in (each.error, *each.failed.values()) if error]
        if any(word in error for error in errors for word in BROKEN):
            self.close()
        return outcomes

    def start(self) -> None:
        """Make the process, if there is none."""
        self._received(START_LIMIT, self._process.start)

    def _received(self, limit: float, ask: Any) -> Any:
        try:
            return ask()
        except LOST as error:
            raise RunError(self._process.lost(error, limit)) from error

    def close(self) -> None:
        """End the process."""
        self._process.close()


def _serve(pipe: Connection, sides: Sequence[Side]) -> None:
    os.setsid()
    warnings.simplefilter("ignore")
    for name in _NOT_HERE:
        sys.modules[name] = None  # type: ignore[assignment]
    begin = Docstring("da.ones", "dask", ("da.ones(2).sum()", "dd.from_pandas(pd.DataFrame({'x': [1]}))"), ("", ""))
    for side in sides:
        run_on(side, begin, list(begin.examples))
    pipe.send(None)
    with contextlib.suppress(EOFError):
        while True:
            pipe.send_bytes(pickle.dumps(run_on(*pipe.recv())))


def run_on(
    side: Side, docstring: Docstring, sources: Sequence[str], only: Collection[int] | None = None
) -> dict[int, Outcome]:
    """Run examples in this process, in a folder of their own."""
    import dask

    folder_before, settings_before = Path.cwd(), copy.deepcopy(dask.config.config)
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        os.chdir(folder)
        try:
            with on_side(side):
                scope = scope_of(docstring.name, with_collections=docstring.origin == "dask")
                return run_examples(sources, docstring.wants, scope, only=only)
        finally:
            os.chdir(folder_before)
            dask.config.config.clear()
            dask.config.config.update(settings_before)


def judge(docstring: Docstring, first: Side, second: Side, workers: dict[Side, Worker], limit: float = LIMIT) -> Row:
    """Run the examples on both sides, each within `limit` seconds, and compare.

    What fails on the first is not run on the second. One worker may serve both sides.
    """
    sources = translated(docstring)
    row = Row(docstring.name, LEFT_OUT, examples=len(sources))
    try:
        before = workers[first].run(first, docstring, sources, None, limit)
    except RunError as error:
        row.note = str(error)
        return row
    kept = {number: outcome for number, outcome in before.items() if outcome.error is None}
    row.ran = len(kept)
    if not any(outcome.graphs and outcome.values for outcome in kept.values()):
        row.note = next((outcome.error for outcome in before.values() if outcome.error), "computes nothing with Dask")
        return row
    try:
        after = workers[second].run(second, docstring, sources, set(kept), limit)
    except RunError as error:
        row.outcome, row.note = FAILS, str(error)
        return row
    row.as_written = sum(one.as_written for one in kept.values()), sum(other.as_written for other in after.values())

    @functools.cache
    def on_host() -> dict[int, Outcome]:
        outcomes: dict[int, Outcome] = {}
        if docstring.origin != "dask":
            with contextlib.suppress(RunError):
                outcomes = workers[first].run(Side(), docstring, as_printed(docstring), None, limit)
        return {number: outcome for number, outcome in outcomes.items() if not outcome.graphs}

    _compare(row, sources, kept, after, on_host)
    return row


def _compare(
    row: Row,
    sources: list[str],
    before: dict[int, Outcome],
    after: dict[int, Outcome],
    on_host: Callable[[], dict[int, Outcome]],
) -> None:
    """Compare the two runs, and where they differ the second with that `on_host`, of NumPy or pandas alone."""
    random, open_order = undetermined(sources), of_open_order(sources)
    row.outcome = AGREE
    row.random = any(random[number] for number in before)
    for number, one in before.items():
        other = after[number]
        if other.error:
            if row.outcome != FAILS:
                row.outcome, row.note = FAILS, f"`{_first_line(one.source)}`: {other.error}"
            continue
        for name, error in other.failed.items():
            if name in one.values and row.outcome != FAILS:
                row.outcome, row.note = FAILS, f"`{_first_line(one.source)}`, computed: {error}"
        for name in one.values.keys() - other.failed.keys():
            pair = one.values.get(name), other.values.get(name)
            row.compared += 1
            row.on_gpu += pair[1] is not None and pair[1].on_gpu
            if pair[1] is not None and pair[1].of_dask and not pair[1].on_gpu:
                row.stayed = row.stayed or _first_line(one.source)
            differ = functools.partial(difference, values=not random[number], order=not open_order[number])
            found = differ(*pair)
            if not found or row.outcome not in (AGREE, AS_HOST):
                continue
            is_as_host = number in on_host() and _agree(on_host()[number], other, name, differ)
            is_as_host = is_as_host or ("groupby" in one.source and _are_sorted_groups(*pair))
            if row.outcome == AGREE or not is_as_host:
                row.outcome, row.note = AS_HOST if is_as_host else DIFFER, f"`{_first_line(one.source)}`: {found}"


def _agree(host: Outcome, other: Outcome, name: str, differ: Callable[..., str | None]) -> bool:
    """Whether a value agrees with that of NumPy or pandas; of random ones, the shape does, too."""
    pair = host.values.get(name), other.values.get(name)
    if pair[0] is None or pair[1] is None or differ(*pair):
        return False
    return np.shape(pair[0].data) == np.shape(pair[1].data)


def _are_sorted_groups(one: Value | None, other: Value | None) -> bool:
    """Whether the second value has the groups of the first one in the order of pandas, which Dask has in each part."""
    if one is None or not hasattr(one.data, "sort_index"):
        return False
    return not difference(replace(one, data=one.data.sort_index()), other)


def _first_line(source: str) -> str:
    line = source.splitlines()[0].partition("# doctest")[0].strip()
    return line if len(line) <= 80 else line[:79] + "…"


def cause(row: Row) -> str:
    """Why a docstring does not agree; empty if it does."""
    if row.outcome not in (DIFFER, FAILS):
        return ""
    fits = (cause for pattern, cause in CAUSES.items() if re.search(pattern, row.name) or re.search(pattern, row.note))
    return next(fits, "another error" if row.outcome == FAILS else "another value")


def counts(rows: Sequence[Row]) -> dict[str, Any]:
    """How many docstrings came out how; and what stands behind them."""
    run = [row for row in rows if row.outcome != LEFT_OUT]
    return {
        "docstrings": len(rows),
        "compared": len(run),
        **Counter(row.outcome for row in rows),
        "agree, with values from the GPU": sum(row.outcome == AGREE and row.on_gpu > 0 for row in rows),
        "examples run": sum(row.ran for row in run),
        "examples that print what is written, in the two runs": [sum(row.as_written[i] for row in run) for i in (0, 1)],
        "values compared": sum(row.compared for row in run),
        "values from the GPU": sum(row.on_gpu for row in run),
        "causes": dict(Counter(filter(None, map(cause, rows))).most_common()),
    }


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Tables of markdown: the causes, one line for each docstring that ran, and then those that did not."""
    yield from rows_of(("cause, where they do not agree", ""), counts(rows)["causes"].items())
    run = []
    for row in rows:
        if row.outcome != LEFT_OUT:
            random = "dtypes and shapes of random values" if row.random else ""
            stayed = f"stays on the CPU: `{row.stayed}`" if row.stayed and row.on_gpu else ""
            note = cell("; ".join(filter(None, [cause(row), row.note, stayed, random])))
            run.append(
                (f"`{row.name}`", row.outcome, f"{row.ran} of {row.examples}", f"{row.compared}, {row.on_gpu}", note)
            )
    yield from rows_of(("docstring", "outcome", "examples run", "values, of these on the GPU", "note"), run)
    yield from ("Left out, because no example runs or none computes anything with Dask:", "")
    left_out = ((f"`{row.name}`", cell(row.note)) for row in rows if row.outcome == LEFT_OUT)
    yield from rows_of(("docstring", "the first reason"), left_out)


def run_all(arguments: argparse.Namespace, docstrings: list[Docstring], sides: Sequence[Side]) -> list[Row]:
    """Judge all, some at a time."""
    first, second = sides
    made: list[dict[Side, Worker]] = []
    for _ in range(min(arguments.processes, len(docstrings))):
        # The CPU's run shares a process with ours, as two cells of a notebook do; stock Dask must have its own.
        one = Worker(first, second) if first.name == "cpu" else Worker(first)
        made.append({first: one, second: one if first.name == "cpu" else Worker(second)})

    def run(workers: dict[Side, Worker], docstring: Docstring) -> Row:
        row = judge(docstring, first, second, workers, arguments.limit)
        print(f"{row.outcome:9} {row.name:40} {row.note}", file=sys.stderr)
        return row

    try:
        for worker in {worker for workers in made for worker in workers.values()}:
            worker.start()  # what cannot begin at all ends the program here
        return in_turns(made, run, docstrings)
    finally:
        for workers in made:
            for worker in workers.values():
                worker.close()


def main() -> None:
    made = parser(__doc__, limit=LIMIT)
    made.add_argument("--fallback", default="error", choices=["error", "host"], help="for what CuPy or cuDF lack")
    made.add_argument("--results", default="gpu", choices=["host", "gpu"], help="where computed values are")
    made.add_argument("--module", help="a package whose docstrings to run instead, on stock Dask and with ours")
    made.add_argument("--only", nargs="+", default=[""], metavar="PREFIX", help="of the names of docstrings")
    made.add_argument("--show", action="store_true", help="print the examples as they are run, and run nothing")
    arguments = made.parse_args()
    docstrings = module_docstrings(arguments.module) if arguments.module else dask_docstrings()
    docstrings = [docstring for docstring in docstrings if docstring.name.startswith(tuple(arguments.only))]
    if arguments.show:
        print("\n".join("\n".join([f"# {each.name}", *translated(each)]) for each in docstrings))
        return
    backends = {"array": arguments.array, "dataframe": arguments.dataframe}
    first = Side("stock", **backends) if arguments.module else Side()
    second = Side.switched(**backends, fallback=arguments.fallback, results=arguments.results)
    began = time.perf_counter()
    rows = run_all(arguments, docstrings, (first, second))
    report = {
        "backends": backends,
        "fallback": arguments.fallback,
        "results": arguments.results,
        "runs": [first.name, second.name],
        "seconds": round(time.perf_counter() - began, 1),
        "counts": counts(rows),
        "docstrings": [{key: value for key, value in asdict(row).items() if value} for row in rows],
    }
    title = f"The docstring examples of {arguments.module or 'dask.array and dask.dataframe'}, run twice"
    compared = [row.outcome for row in rows if row.outcome != LEFT_OUT]
    agree = percent(compared.count(AGREE) + compared.count(AS_HOST), len(compared))
    finish(arguments, title, report, table(rows), hide="docstrings", agree=agree)


if __name__ == "__main__":
    main()
