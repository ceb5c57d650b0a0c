"""Rows of the first results of a process, and of an empty cell."""

from __future__ import annotations

import io
import statistics
import time
from contextlib import redirect_stdout
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from harness import BY_HAND, OURS, PLAIN, Process, cluster

from . import ROWS, Row, Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

ARRAY = "from nothing to the first CuPy result"
BOTH = "from nothing to the first CuPy and the first cuDF result"
EMPTY = "an empty cell, plain and under %%gpudask"
_CELLS = 300


def compute_first(side: str, engine: str, frame: bool) -> Iterator[None]:
    """Start a cluster, and compute the first array, and with `frame` the first dataframe."""
    with cluster(side, engine):
        import dask.array as da

        assert float(da.ones((4000, 4000), chunks=(1000, 1000)).sum().compute()) == 4000 * 4000
        if frame:
            import dask.dataframe as dd

            columns = {"key": list(range(10)) * 100, "x": [1.0] * 1000}
            means = dd.from_dict(columns, npartitions=4).groupby("key").x.mean().compute()
            assert float(means.sum()) == 10
        yield


def _first_result(side: str, frame: bool, large: bool) -> Seconds:
    """In a process of its own, from before its interpreter starts; the end of its cluster does not count."""
    start = time.perf_counter()
    process = Process(compute_first, {}, side=side, engine="cuda" if large else "cpu", frame=frame)
    next(process)
    seconds = time.perf_counter() - start
    process.end()
    return Seconds(seconds)


@cache
def _shell(large: bool) -> Any:
    """The IPython shell of this process, with the extension and a cluster that ends with the process."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    for line in ("%load_ext jupyter_gpudask", f"%gpudask start {'' if large else '--cpu 1'}"):
        shell.run_cell(line).raise_error()
    return shell


def _seconds_of(cell: str, large: bool) -> Seconds:
    """The median of `_CELLS` runs of a cell in a real IPython shell with a running cluster."""
    shell, seconds = _shell(large), []
    with redirect_stdout(io.StringIO()):
        for _ in range(_CELLS):
            start = time.perf_counter()
            result = shell.run_cell(cell)
            seconds.append(time.perf_counter() - start)
            result.raise_error()
    return Seconds(statistics.median(seconds))


for _name, _frame in ((ARRAY, False), (BOTH, True)):
    ROWS[_name] = Row(_name, {side: partial(_first_result, side, _frame) for side in (BY_HAND, OURS)}, cluster=None)
_SIDES = {PLAIN: partial(_seconds_of, "pass"), OURS: partial(_seconds_of, "%%gpudask\npass")}
ROWS[EMPTY] = Row(EMPTY, _SIDES, cluster=None)
