"""Dask's own tests of its CuPy backend, on stock Dask and with our backends in place.

python benchmarks/dask_cupy_tests.py --out benchmarks/results/NAME.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import dask.array
import pytest
from report import header, publish

FILES = sorted(str(path) for path in (Path(dask.array.__file__).parent / "tests").glob("test_cupy_*.py"))


class Recorder:
    """Counts outcomes, and keeps what failed and why."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
            self.counts[outcome] += report.when == "call" or outcome == "skipped"
            if outcome == "failed":
                self.failed[report.nodeid] = str(report.longrepr)[-300:]


def run(*, ours: bool) -> dict[str, object]:
    if ours:
        from jupyter_gpudask.patches.apply import patches

        patches.apply("kernel")
    recorder = Recorder()
    arguments = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "-W", "default", *FILES]
    pytest.main(arguments, plugins=[recorder])
    return {"counts": dict(recorder.counts), "failed": recorder.failed}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", choices=["stock", "ours"], help="run one of the two, in this process")
    arguments = parser.parse_args()
    if arguments.one:
        print("\n" + json.dumps(run(ours=arguments.one == "ours")))
        sys.exit()
    report = header()
    runs = {
        name: subprocess.Popen([sys.executable, __file__, "--one", name], stdout=subprocess.PIPE, text=True)
        for name in ("stock", "ours")
    }
    for name, process in runs.items():
        report[name] = json.loads(process.communicate()[0].splitlines()[-1])
    publish(report, arguments.out)
