"""Run the tests and benchmarks that need real GPUs, in order of importance, each with a time limit.

python .ci/gpu_checks.py FOLDER                                  # all of them
python .ci/gpu_checks.py FOLDER --only "submission;test_gpu"     # those whose names contain one of these
python .ci/gpu_checks.py FOLDER --limit 900                      # none begins that might not end in so many seconds
python .ci/gpu_checks.py --list

In FOLDER each leaves its output, as NAME.log, and benchmarks their JSON, as NAME.json. Times are only right on GPUs
that nobody else uses. A check that is listed as "alone" has all GPUs and nothing beside it; between those, checks run
side by side with a GPU each. They run with the Python that runs this, which must have the package and what its tests
need.
"""

from __future__ import annotations

import argparse
import os
import queue
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Check:
    """A command.

    Attributes
    ----------
    name
        Of its output.
    limit
        In seconds; what takes longer is stopped.
    command
        The arguments for Python; ``{out}`` stands for the folder of the results.
    alone
        Whether it needs all GPUs and a machine on which nothing else runs.
    folder
        In which it runs.
    variables
        Of its environment.
    """

    name: str
    limit: int
    command: str
    alone: bool = False
    folder: str = "."
    variables: Mapping[str, str] = field(default_factory=dict)


def speed(name: str, limit: int, rows: str) -> Check:
    """Rows of `benchmarks/speed.py`, given by parts of their names."""
    return Check(name, limit, f'benchmarks/speed.py --engine cuda --gpus 1 --only "{rows}" --out {{out}}/{name}.json')


def tests(name: str, limit: int, arguments: str, *, alone: bool) -> Check:
    """Tests that have the marker ``gpu``, by pytest's arguments."""
    return Check(name, limit, f"-m pytest -q --color=no -m gpu {arguments}", alone, "tests")


def tests_with_gpus(name: str, limit: int, arguments: str) -> Check:
    """Tests whose clusters are on the CPU elsewhere, with clusters on GPUs."""
    command = f"-m pytest -q --color=no -p no:benchmark {arguments}"  # that plugin refuses several processes
    return Check(name, limit, command, alone=True, folder="tests", variables={"GPUDASK_TEST_ENGINE": "cuda"})


def dask_tests(name: str, limit: int, suites: str) -> Check:
    """Dask's own tests, compared."""
    options = f"--suites {suites} --seconds {limit - 30} --rows {{out}}/{name}.jsonl"
    return Check(name, limit, f"oracle/dask_tests.py {options} --out {{out}}/{name}.json --table {{out}}/{name}.md")


ALONE = (
    tests("test_doctor", 90, "test_gpu.py -k doctor", alone=True),
    tests("test_gpu", 400, "test_gpu.py -k 'not doctor'", alone=True),
    tests("test_on_gpus", 360, "server/test_on_gpus.py comm/test_two_gpus.py", alone=True),
    tests_with_gpus("test_process_exits", 200, "server/test_process_ends.py"),
    tests_with_gpus("test_server", 400, "server --ignore server/test_process_ends.py --numprocesses 8 --dist loadfile"),
    Check("record_stream", 180, ".ci/pictures/record.py --out {out}/record_stream.json", alone=True),
    Check(
        "speed_all_gpus",
        400,
        'benchmarks/speed.py --engine cuda --only "2 TB;100 GB" --out {out}/speed_all_gpus.json',
        alone=True,
    ),
)
SIDE_BY_SIDE = (
    tests("test_frames_as_pandas", 200, "switch/test_frames_as_pandas.py", alone=False),
    tests("test_libraries", 150, "test_other_libraries_on_gpus.py with_polars/test_on_gpus.py", alone=False),
    tests("test_notebooks", 300, "test_notebooks.py", alone=False),
    tests("test_switch", 420, "switch fallback graph inspection --ignore switch/test_frames_as_pandas.py", alone=False),
    dask_tests("dask_tests_frames", 700, "dataframe expressions io"),
    dask_tests("dask_tests_arrays", 240, "array"),
    Check(
        "polars_interrupts",
        260,
        "benchmarks/polars_cells.py --only none --interrupts 100 --out {out}/polars_interrupts.json",
    ),
    speed("speed_empty", 90, "empty"),
    speed("speed_svd", 90, "SVD"),
    speed("speed_persisted", 120, "1 MB persisted"),
    speed("speed_parquet", 200, "Parquet"),
    speed("speed_strings", 200, "strings"),
    speed("speed_first", 240, "first CuPy and"),
    speed("speed_spilling", 200, "device memory"),
    speed("speed_join", 200, "shuffle join"),
    speed("speed_arrays", 300, "mean;standard;tiny;x + x.T"),
    speed("speed_2tb", 300, "2 TB;the same"),
    Check("docstrings", 200, "oracle/docstring_examples.py --fallback host --processes 8 --out {out}/docstrings.json"),
    Check(
        "random_programs",
        300,
        "oracle/random_programs.py --processes 4 --seconds 240 --rows {out}/random_programs.jsonl "
        "--out {out}/random_programs.json --table {out}/random_programs.md",
    ),
    Check(
        "scikit_learn",
        300,
        ".ci/notebooks.py --only scikit-learn --to {out} --out {out}/scikit_learn.json",
    ),
)
CHECKS = ALONE + SIDE_BY_SIDE


def visible_gpus() -> list[str]:
    """The GPUs that a check may get, as `CUDA_VISIBLE_DEVICES` names them."""
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return visible.split(",")
    listed = subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"],  # noqa: S607 - of the driver
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout.split()


def run(check: Check, gpus: list[str], out: Path) -> str:
    """Run it on these GPUs, and say how it ended and after how long. What outlives its limit is killed."""
    variables = os.environ | check.variables | {"CUDA_VISIBLE_DEVICES": ",".join(gpus), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, *shlex.split(check.command.format(out=out))]
    began = time.monotonic()
    with (out / f"{check.name}.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT / check.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            ended = f"status {process.wait(check.limit)}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)  # pytest and the benchmarks then close their clusters
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            ended = f"stopped at its limit of {check.limit} s"
    return f"{check.name}: {ended} after {time.monotonic() - began:.0f} s: {last_line(out / f'{check.name}.log')}"


def last_line(log: Path) -> str:
    """The end of an output."""
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip()[:160] for line in reversed(lines) if line.strip()), "no output")


def run_all(checks: list[Check], gpus: list[str], out: Path, deadline: float) -> None:
    """Run each, and print how it ended."""
    free: queue.Queue[str] = queue.Queue()
    for gpu in gpus:
        free.put(gpu)

    def begin(check: Check, its_gpus: list[str]) -> None:
        if time.monotonic() + check.limit > deadline:
            print(f"{check.name}: left out, {check.limit} s did not remain", flush=True)
        else:
            print(run(check, its_gpus, out), flush=True)

    def begin_on_one(check: Check) -> None:
        gpu = free.get()
        try:
            begin(check, [gpu])
        finally:
            free.put(gpu)

    for alone, group in groupby(checks, lambda check: check.alone):
        if alone:
            for check in group:
                begin(check, gpus)
        else:
            with ThreadPoolExecutor(len(gpus)) as pool:
                list(pool.map(begin_on_one, group))


def main() -> None:
    """Read the command line, and run what it selects."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="FOLDER", nargs="?")
    parser.add_argument("--only", default="", help="parts of names, separated by ;")
    parser.add_argument("--limit", type=float, default=float("inf"), help="of the whole, in seconds")
    parser.add_argument("--list", action="store_true", help="list the checks, and run none")
    options = parser.parse_args()
    parts = [part for part in options.only.split(";") if part]
    chosen = [check for check in CHECKS if not parts or any(part in check.name for part in parts)]
    if options.list:
        for check in chosen:
            print(f"{check.name:22} {check.limit:4} s{' alone' if check.alone else ''}: {check.command}")
        return
    if options.out is None:
        parser.error("Name the folder for the results.")
    out = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    run_all(chosen, visible_gpus(), out, time.monotonic() + options.limit)


if __name__ == "__main__":
    main()
