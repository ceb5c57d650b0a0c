"""Rows of the first results: from the start of a process to what a cluster that it starts has computed.

The clock runs in another process, and starts before the interpreter.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .table import BY_HAND, OURS, ROWS, Row, Seconds

ARRAY = "from nothing to the first CuPy result"
BOTH = "from nothing to the first CuPy and the first cuDF result"


def compute(frame: bool) -> None:
    """Compute the first array, and with `frame` the first dataframe."""
    import dask.array as da

    assert float(da.ones((4000, 4000), chunks=(1000, 1000)).sum().compute()) == 4000 * 4000
    if frame:
        import dask.dataframe as dd

        columns = {"key": list(range(10)) * 100, "x": [1.0] * 1000}
        means = dd.from_dict(columns, npartitions=4).groupby("key").x.mean().compute()
        assert float(means.sum()) == 10


def _in_process(side: str, large: bool, frame: bool) -> Seconds:
    """In a process of its own that starts and closes a cluster; its end does not count."""
    script = "from workloads.first_result import main\nif __name__ == '__main__':\n    main()\n"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "first_result.py"  # spawned workers import it again, so it must be a file
        file.write_text(script)
        arguments = [side, "cuda" if large else "cpu", str(int(frame))]
        # Without an empty entry, which would be the working folder.
        given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        variables = os.environ | {"PYTHONPATH": os.pathsep.join([str(_benchmarks()), *given])}
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, str(file), *arguments], env=variables, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        seconds = next((time.perf_counter() - start for line in process.stdout if line == "computed\n"), None)
        process.communicate()
    if seconds is None:
        raise RuntimeError("No result was computed; the reason is above.")
    return Seconds(seconds)


def main() -> None:
    """The process that is measured."""
    from .clusters import cluster

    side, engine, frame = sys.argv[1:]
    with cluster(side, "whole", engine):
        compute(bool(int(frame)))
        print("computed", flush=True)


def _benchmarks() -> Path:
    return Path(__file__).parents[1]


for _name, _frame in ((ARRAY, False), (BOTH, True)):
    ROWS[_name] = Row(
        _name,
        {
            BY_HAND: lambda large, frame=_frame: _in_process(BY_HAND, large, frame),
            OURS: lambda large, frame=_frame: _in_process(OURS, large, frame),
        },
        cluster=None,
    )
