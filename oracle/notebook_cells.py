"""The notebooks in oracle/notebooks, cell by cell in IPython, plainly on the CPU and under ``%%gpudask``, and compared.

    python oracle/notebook_cells.py --seconds 540 --out benchmarks/results/NAME.json --table benchmarks/results/NAME.md
    python oracle/notebook_cells.py --only 'xarray_basics;dask_ml: standard scaler'
    python oracle/notebook_cells.py --notebooks FOLDER   # your own, scripts and .ipynb files

A notebook is a script in the percent format, in the style of the tutorials of a library; "# needs: ..." names the
modules without which it is left out. The second run is on a cluster of ``%gpudask start``, of the CPU cluster if there
is no GPU. What a cell binds, and its last expression, are computed in the same cell, and compared.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from notebook_runs import ERRORS, Notebook, Outcome, Shell, difference, serve
from processes import LOST, NOT_RUN, START_LIMIT, Journal, Process, in_turns
from reports import ONE_THREAD, finish, parser, percent, rows_of
from reports import cell as text_cell
from sides import BROKEN

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from harness import chosen, gpus

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from notebook_runs import Cell

NOTEBOOKS = Path(__file__).parent / "notebooks"

AGREES, DIFFERS, FAILS = "agrees", "differs", "fails"
FOLLOWS = "follows a failure"
"""It uses a name that a cell with an error would have bound."""
FAILS_PLAINLY = "fails on the CPU, too"
NO_VALUE = "runs, with nothing to compare"
LEFT_OUT = "left out"

_OUTCOMES = (AGREES, NO_VALUE, DIFFERS, FAILS, FOLLOWS, FAILS_PLAINLY, LEFT_OUT)
_RAN = (AGREES, NO_VALUE, DIFFERS, FAILS, FOLLOWS)
"""Of the cells that run on the CPU."""
_MOST_DEATHS = 3
"""After so many in one notebook, the rest of it is not run."""


@dataclass
class Row:
    """What came of one cell."""

    key: str
    outcome: str
    note: str = ""
    """The error, or what differs."""
    frames: list[str] = field(default_factory=list)
    """The innermost functions of the traceback of the error."""
    compared: int = 0
    """How many values were compared."""
    collections: int = 0
    """How many of those were collections of Dask, and how many of these were on the GPU."""
    on_gpu: int = 0
    seconds: float = 0.0
    """On the CPU; and under the magic."""
    seconds_switched: float = 0.0
    on_cpu: dict[str, int] = field(default_factory=dict)
    """The blocks that ran on the CPU under the magic, by operation."""
    reasons: list[str] = field(default_factory=list)


class Runs:
    """Runs notebooks in shells of one kind, each notebook in a process of its own."""

    def __init__(self, shell: Shell, limit: float, deadline: float) -> None:
        self._shell, self._limit, self._deadline = shell, limit, deadline

    def run(self, cells: Sequence[Cell]) -> dict[str, Outcome]:
        """The outcomes by key. After a death, a new process repeats the cells before, without those with an error."""
        outcomes: dict[str, Outcome] = {}
        deaths = 0
        while deaths < _MOST_DEATHS and len(outcomes) < len(cells) and time.monotonic() < self._deadline:
            deaths += not self._run(cells, outcomes)
        return outcomes

    def _run(self, cells: Sequence[Cell], outcomes: dict[str, Outcome]) -> bool:
        """Run to the end; whether the process came so far."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            process = Process(serve, self._shell, folder)
            limit = START_LIMIT
            running = cells[0].key
            try:
                process.start(limit)
                limit = self._limit
                for cell in cells:
                    before, running = outcomes.get(cell.key), cell.key
                    if before is not None and before.error:
                        continue
                    left = self._deadline - time.monotonic()
                    if left < 1:
                        return True
                    process.send(cell)
                    outcome = process.receive(min(limit, left))
                    outcomes.setdefault(cell.key, outcome)
                    if any(word in text for text in (outcome.error, *outcome.failed.values()) for word in BROKEN):
                        outcomes[cell.key].error = outcomes[cell.key].error or next(iter(outcome.failed.values()))
                        return False
                process.send(None)
                process.receive(30)
            except LOST as error:
                if time.monotonic() >= self._deadline and isinstance(error, TimeoutError):
                    return True
                how = process.lost(error, limit)
                outcomes.setdefault(running, Outcome()).error = f"{how}{_last_line(Path(folder, ERRORS))}"
                return False
            finally:
                process.close()
        return True


def _last_line(file: Path) -> str:
    lines = file.read_text(errors="replace").split("\n") if file.exists() else []
    found = [line.strip() for line in lines if line.strip()]
    return f": {found[-1][:300]}" if found else ""


def judge(cells: Sequence[Cell], plain: dict[str, Outcome], switched: dict[str, Outcome]) -> Iterator[Row]:
    """The rows of one notebook."""
    lost: set[str] = set()
    for cell in cells:
        one, other = plain.get(cell.key), switched.get(cell.key)
        if one is None or other is None:
            yield Row(cell.key, NOT_RUN)
            continue
        row = Row(cell.key, AGREES, seconds=one.seconds, seconds_switched=other.seconds, frames=other.frames)
        row.collections, row.on_gpu = other.collections, other.on_gpu
        row.on_cpu, row.reasons = other.on_cpu, other.reasons
        new = {name: error for name, error in other.failed.items() if name not in one.failed}
        if one.error:
            row.outcome, row.note = FAILS_PLAINLY, one.error
        elif other.error:
            follows = any(f"name '{name}' is not defined" in other.error for name in lost)
            row.outcome, row.note = FOLLOWS if follows else FAILS, other.error
            lost.update(cell.names)
        elif new:
            row.outcome, row.note = FAILS, "; ".join(f"{name or 'the last expression'}: {e}" for name, e in new.items())
        else:
            row.note, row.compared = difference(cell, one, other)
            row.outcome = DIFFERS if row.note else AGREES if row.compared else NO_VALUE
        yield row


def run_all(arguments: argparse.Namespace, notebooks: Sequence[Notebook], wanted: set[str], journal: Journal) -> None:
    """Run the notebooks that have cells of which the journal has no row."""
    deadline = time.monotonic() + arguments.seconds
    visible = [gpu.index for gpu in gpus()]

    def run_one(number: int, notebook: Notebook) -> None:
        missing = [name for name in notebook.needs if importlib.util.find_spec(name) is None]
        cells = [cell for cell in notebook.cells if cell.key in wanted]
        if missing:
            journal.add(*(Row(cell.key, LEFT_OUT, f"needs {', '.join(missing)}") for cell in cells))
            return
        last = notebook.cells.index(cells[-1])
        whole = notebook.cells[: last + 1]
        plain = Runs(Shell(), arguments.limit, deadline).run(whole)
        which = f" --gpus {visible[number % len(visible)]}," if len(visible) > 1 else ""
        start = f"%gpudask start --share yes{which}" if visible else "%gpudask start --cpu 2"
        magic = f"%%gpudask --array {arguments.array} --dataframe {arguments.dataframe}\n"
        switched = Runs(Shell(start, magic), arguments.limit, deadline).run(whole)
        for row in judge(whole, plain, switched):
            if row.key in wanted:
                journal.add(row)
                if row.outcome in (DIFFERS, FAILS, FAILS_PLAINLY):
                    print(f"{row.outcome}, {row.key}: {row.note}"[:400], file=sys.stderr)

    left = [each for each in notebooks if any(c.key in wanted and c.key not in journal.rows for c in each.cells)]
    in_turns(range(min(arguments.processes, len(left)) or 1), run_one, left)


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The pages' tables: by notebook, and each cell with something to say."""
    by_notebook: dict[str, Counter[str]] = {}
    for row in rows:
        by_notebook.setdefault(row.key.partition(":")[0], Counter())[row.outcome] += 1
    yield from rows_of(
        ("Notebook", *_OUTCOMES), ([name, *(count[o] or "" for o in _OUTCOMES)] for name, count in by_notebook.items())
    )
    said = [row for row in rows if row.outcome in (DIFFERS, FAILS, FOLLOWS, FAILS_PLAINLY, LEFT_OUT)]
    yield from rows_of(("Cell", "Outcome", "What"), ([r.key, r.outcome, text_cell(r.note)] for r in said))
    on_cpu = [row for row in rows if row.on_cpu]
    parts = ([r.key, text_cell(", ".join(f"{name} ({n})" for name, n in r.on_cpu.items()))] for r in on_cpu)
    yield from rows_of(("Cell", "Ran on the CPU (blocks)"), parts)


def _version(module: str) -> str:
    try:
        return version(module.replace("_", "-").replace("skimage", "scikit-image").replace("sklearn", "scikit-learn"))
    except PackageNotFoundError:
        return "not installed"


def main() -> None:
    made = parser(__doc__, limit=120.0, seconds=540.0)
    made.add_argument(
        "--notebooks", type=Path, default=NOTEBOOKS, metavar="FOLDER", help="with scripts and .ipynb files"
    )
    made.add_argument("--only", default="", help="parts of the names of cells, separated by ;")
    arguments = made.parse_args()
    files = sorted(file for file in arguments.notebooks.iterdir() if file.suffix in (".py", ".ipynb"))
    notebooks = [Notebook.read(file) for file in files]
    keys = [cell.key for notebook in notebooks for cell in notebook.cells]
    wanted = set(chosen(keys, arguments.only))
    options: dict[str, Any] = {name: getattr(arguments, name) for name in ("array", "dataframe")}
    # The order of columns that Dask takes from a set is the same in all processes.
    os.environ.update(dict.fromkeys(ONE_THREAD, "1") | {"PYTHONHASHSEED": "0"})
    began = time.monotonic()
    try:
        journal = Journal(arguments.rows, options, Row)
    except ValueError as error:
        sys.exit(str(error))
    run_all(arguments, notebooks, wanted, journal)
    rows = [journal.rows[key] for key in keys if key in journal.rows]
    counted = Counter(row.outcome for row in rows)
    needs = sorted({name for notebook in notebooks for name in notebook.needs})
    report = options | {
        "seconds": round(time.monotonic() - began, 1),
        "libraries": {name: _version(name) for name in needs},
        "counts": {"cells": len(wanted), "run": len(rows), **{name: counted[name] for name in _OUTCOMES}},
        "cells": [asdict(row) for row in rows],
    }
    agree = percent(counted[AGREES] + counted[NO_VALUE], sum(counted[name] for name in _RAN))
    report["counts"]["agree, in percent"] = agree
    title = "Notebooks, on the CPU and under the magic, cell by cell"
    finish(arguments, title, report, table(rows), hide="cells", agree=agree)


if __name__ == "__main__":
    main()
