"""Cells after Dask's documentation, run on the CPU and under %%gpudask, and compared.

    python benchmarks/cells.py --engine cuda --out benchmarks/results/NAME.json
    python benchmarks/cells.py --engine cuda --fallback host --out benchmarks/results/NAME.json
    python benchmarks/cells.py --engine cpu                    # everything agrees: it checks the cells and this script
    PYTHONPATH=tests/fake_gpus:tests/fake_cupy python benchmarks/cells.py --options "--dataframe pandas" --only array

The cells are in benchmarks/cells/, one file for each page. `# %% NAME` begins a cell; the cell `setup` runs before each
of the others. A cell ends with the value that is compared, and so are the variables that it assigns, unless they are
collections or their names begin with an underscore. The order of rows counts, unless Dask leaves it open, as after
``drop_duplicates``: `docstrings.agreement` has the methods. To add a cell, append it to a file.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from docstrings.agreement import difference, of_open_order
from docstrings.values import recorded
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from report import header, publish

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

FOLDER = Path(__file__).parent / "cells"
SETUP = "setup"
RESULT = "value"
"""The name of the value of a cell among its variables."""


@dataclass(frozen=True)
class Cell:
    """One cell."""

    page: str
    name: str
    setup: str
    source: str

    @property
    def code(self) -> str:
        return f"{self.setup}\n{self.source}"


@dataclass
class Run:
    """One run of a cell."""

    seconds: float = 0.0
    error: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    on_cpu: dict[str, int] = field(default_factory=dict)


@dataclass
class Row:
    """What came of a cell."""

    page: str
    name: str
    outcome: str
    """``agrees``, ``differs``, ``fails``, or ``left out``: it fails on the CPU, too."""
    note: str = ""
    seconds: tuple[float, float] = (0.0, 0.0)
    """On the CPU, and under %%gpudask."""
    on_cpu: dict[str, int] = field(default_factory=dict)
    """Blocks that ran on the CPU because CuPy or cuDF lack the operation, by operation."""


def read_cells(folder: Path = FOLDER) -> list[Cell]:
    """All cells, in the order of the files."""
    return [cell for file in sorted(folder.glob("*.py")) for cell in _cells_of(file)]


def _cells_of(file: Path) -> Iterator[Cell]:
    parts = re.split(r"^# %% (.+)\n", file.read_text(), flags=re.MULTILINE)[1:]
    named = dict(zip(parts[::2], parts[1::2], strict=True))
    if len(named) != len(parts) // 2:
        raise ValueError(f"{file} has two cells of one name.")
    setup = named.pop(SETUP)
    for name, source in named.items():
        yield Cell(file.stem, name, setup.strip(), source.strip())


class Notebook:
    """A shell with a cluster, in which each cell runs with variables of its own."""

    def __init__(self, start: str, options: str, limit: float) -> None:
        self._shell = InteractiveShell.instance()
        self._head = f"%%gpudask {options}\n"
        self._limit = limit
        signal.signal(signal.SIGALRM, _stop)
        for line in ("%load_ext jupyter_gpudask", start):
            self._shell.run_cell(line).raise_error()

    def configure(self, setting: str) -> None:
        """Run a line such as ``%config ...``."""
        self._shell.run_cell(setting).raise_error()

    def run(self, cell: Cell, *, on_gpus: bool) -> Run:
        """Run a cell, plain or under %%gpudask."""
        from jupyter_gpudask.fallback.log import fallback_log

        before, blocks = set(self._shell.user_ns), fallback_log.blocks.copy()
        run = Run()
        began = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, self._limit)
        try:
            with capture_output():
                done = self._shell.run_cell((self._head if on_gpus else "") + cell.code)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        run.seconds = round(time.perf_counter() - began, 3)
        error = done.error_before_exec or done.error_in_exec
        run.error = f"{type(error).__name__}: {error}".splitlines()[0][:300] if error else ""
        new = {name: value for name, value in self._shell.user_ns.items() if name not in before and name[0] != "_"}
        run.values = {name: _result(value) for name, value in {**new, RESULT: done.result}.items()}
        for place, number in fallback_log.blocks_since(blocks).items():
            run.on_cpu[place.operation] = run.on_cpu.get(place.operation, 0) + number
        for name in new:
            del self._shell.user_ns[name]
        self._shell.user_ns["Out"].clear()
        return run

    def close(self) -> None:
        self._shell.run_cell("%gpudask stop")


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError("the cell took too long")


def _result(value: Any) -> Any:
    """A value on the host; `None` for collections, containers of collections, and what cannot be compared."""
    from dask.base import unpack_collections

    parts = value.ravel().tolist() if isinstance(value, np.ndarray) and value.dtype == object else [value]
    return None if unpack_collections(*parts)[0] else recorded(value)


def judge(cell: Cell, cpu: Run, gpu: Run) -> Row:
    """Compare two runs of a cell."""
    row = Row(cell.page, cell.name, "agrees", "", (cpu.seconds, gpu.seconds), gpu.on_cpu)
    if cpu.error:
        row.outcome, row.note = "left out", cpu.error
    elif gpu.error:
        row.outcome, row.note = "fails", gpu.error
    else:
        (order_is_open,) = of_open_order([cell.source])
        for name, value in cpu.values.items():
            found = difference(value, gpu.values.get(name), order=not order_is_open)
            if found:
                row.outcome, row.note = "differs", f"{name}: {found}"
    return row


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--start", default="", help="options of %%gpudask start, such as '--gpus 1'")
    parser.add_argument("--options", default="", help="options of %%%%gpudask, such as '--dataframe pandas'")
    parser.add_argument("--fallback", default="error", choices=["error", "host"])
    parser.add_argument("--only", default="", metavar="PREFIX", help="of 'PAGE: NAME'")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for a cell")
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    cells = [cell for cell in read_cells() if f"{cell.page}: {cell.name}".startswith(arguments.only)]
    start = f"%gpudask start --engine {arguments.engine} {arguments.start}".strip()
    notebook = Notebook(start, arguments.options, arguments.limit)
    notebook.configure(f"%config GpuDask.fallback = {arguments.fallback!r}")
    rows = []
    try:
        for cell in cells:
            cpu = notebook.run(cell, on_gpus=False)
            gpu = Run() if cpu.error else notebook.run(cell, on_gpus=True)
            rows.append(judge(cell, cpu, gpu))
            print(f"{rows[-1].outcome:9} {cell.page}: {cell.name:45} {rows[-1].note}", file=sys.stderr)
    finally:
        notebook.close()
    report = {
        **header(),
        "engine": arguments.engine,
        "options": arguments.options,
        "fallback": arguments.fallback,
        "counts": {"cells": len(rows), **Counter(row.outcome for row in rows)},
        "cells": [asdict(row) for row in rows],
    }
    publish(report, arguments.out, hide="cells")


if __name__ == "__main__":
    main()
