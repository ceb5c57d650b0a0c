"""The row of an empty cell: what `%%gpudask` adds to a plain cell, in a real IPython shell with a running cluster."""

from __future__ import annotations

import io
import statistics
import time
from contextlib import redirect_stdout
from functools import cache
from typing import Any

from .table import OURS, PLAIN, ROWS, Row, Seconds

EMPTY = "an empty cell, plain and under %%gpudask"
_CELLS = 300


@cache
def _shell(large: bool) -> Any:
    """The IPython shell of this process, with the extension and a cluster that ends with the process."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    for line in ("%load_ext jupyter_gpudask", f"%gpudask start {'' if large else '--cpu 1'}"):
        shell.run_cell(line).raise_error()
    return shell


def _seconds_of(cell: str, large: bool) -> Seconds:
    """The median of `_CELLS` runs of a cell."""
    shell, seconds = _shell(large), []
    with redirect_stdout(io.StringIO()):
        for _ in range(_CELLS):
            start = time.perf_counter()
            result = shell.run_cell(cell)
            seconds.append(time.perf_counter() - start)
            result.raise_error()
    return Seconds(statistics.median(seconds))


ROWS[EMPTY] = Row(
    EMPTY,
    {
        PLAIN: lambda large: _seconds_of("pass", large),
        OURS: lambda large: _seconds_of("%%gpudask\npass", large),
    },
    cluster=None,
)
