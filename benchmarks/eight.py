"""The headline on eight GPUs, and on fewer: starts, 2 TB of random numbers, scaling, transports, and four notebooks.

    python benchmarks/eight.py --out benchmarks/results/NAME.json --recording benchmarks/pictures/NAME.json
    python benchmarks/eight.py --gpus 2 --seconds 300 --only "unix;tcp;ucx" --out benchmarks/results/NAME.json
    python benchmarks/eight.py --plan
    python benchmarks/eight.py --small

Each step is a process of its own with a time limit: a cluster of 8, 1, 2 or 4 GPUs, by hand or ours over Unix sockets,
TLS, plain TCP or UCX, and its computations; or a Jupyter server with four notebooks. A result is printed and added to
the file at once, so that what ran before a step that fails or takes too long is kept. A step for which no time is left
is left out. With a file that exists already, its results are kept, except for those of steps that run again. After each
step NVML and the operating system are asked what it has left. The exit status is 1 if a step failed or left something.

With --small it runs on two simulated GPUs with small sizes: it shows that each step goes through, and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eight_gpus.plan import Step, make_plan
from eight_gpus.step import MARK, command
from eight_gpus.summary import summarize
from eight_gpus.witness import VARIABLE, Witness
from eight_gpus.works import SMALL, Sizes
from report import header

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.machine.gpus import visible_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SIMULATED = 2
LOG_LINES = 50


def simulate(gpus: int) -> None:
    """Start this program again, with simulated GPUs."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from helpers import fake_gpu_environment

    environment = fake_gpu_environment(cupy=True, FAKE_GPUS=str(gpus))
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)  # noqa: S606 - this program


class Report:
    """The results, written to a file after each."""

    def __init__(self, out: Path | None, gpus: int) -> None:
        self._out, self._gpus = out, gpus
        self._content: dict[str, Any] = header() | {"gpus_used": gpus, "steps": {}}
        if out and out.exists() and out.read_text().strip():
            before = json.loads(out.read_text())
            used = before["gpus"], before["gpus_used"]
            if used != (self._content["gpus"], gpus):
                sys.exit(f"{out} has results of {used[1]} of the GPUs {used[0]}: give another file with --out.")
            self._content["steps"] = before["steps"]

    @property
    def steps(self) -> dict[str, Any]:
        return self._content["steps"]  # type: ignore[no-any-return]

    def begin(self, name: str, entry: dict[str, Any]) -> dict[str, Any]:
        """Replace what there is of a step."""
        self.steps[name] = entry
        return entry

    def write(self) -> None:
        """Write the file as a whole, so that it is never a part of one."""
        self._content["summary"] = summarize(self.steps, self._gpus)
        if self._out:
            part = self._out.with_suffix(".part")
            part.write_text(json.dumps(self._content, indent=1) + "\n")
            part.replace(self._out)

    def show(self) -> None:
        """Print the summary."""
        print(json.dumps(self._content["summary"], indent=1))


def add(entry: dict[str, Any], found: dict[str, Any]) -> None:
    """Add one result to those of its step."""
    if "work" in found:
        name = found.pop("work")
        entry["works"][name] = found
    else:
        entry.update(found)


def run_step(name: str, line: list[str], environment: Mapping[str, str], limit: float, report: Report) -> None:
    """Run the command line of a step until it ends or is killed after `limit` seconds, and add what it reports."""
    entry, began = report.steps[name], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                line,
                stdout=output,
                stderr=output,
                cwd=folder,  # not a checkout, whose folder of the package would be imported
                env={**environment, "PYTHONUNBUFFERED": "1"},  # what a step that is killed has printed is in the log
                start_new_session=True,
            )
        try:
            for text in follow(log, process, began + limit):
                if text.startswith(MARK):
                    found = json.loads(text.removeprefix(MARK))
                    print(f"{time.monotonic() - began:6.1f} s  {name}: {json.dumps(found)}", flush=True)
                    add(entry, found)
                    report.write()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                entry["error"] = f"killed after {limit:.0f} s"
            process.wait()
        lines = log.read_text(errors="replace").splitlines()
        if process.returncode > 0:
            entry["error"] = lines[-1] if lines else f"ended with status {process.returncode}"
        if "error" in entry:
            entry["log"] = lines[-LOG_LINES:]
    entry["seconds"] = round(time.monotonic() - began, 1)


def follow(log: Path, process: subprocess.Popen[bytes], deadline: float) -> Iterator[str]:
    """The lines of a file to which a process writes, until it ends or the time is up.

    A pipe would stay open as long as any process of a cluster does.
    """
    with log.open(errors="replace") as file:
        text = ""
        while True:
            ended = process.poll() is not None or time.monotonic() > deadline
            *lines, text = (text + file.read()).split("\n")
            yield from lines
            if ended:
                return
            time.sleep(0.1)


def run_all(plan: list[Step], sizes: Sizes, options: argparse.Namespace, report: Report) -> bool:
    """Run the steps for which there is time; whether all went well and left nothing."""
    end, witness, passed = time.monotonic() + options.seconds, Witness(), True
    for step in plan:
        left = end - time.monotonic()
        if left < step.seconds:
            note = f"left out: it takes about {step.seconds:.0f} s, and {left:.0f} s are left"
            print(f"{step.name}: {note}", flush=True)
            if step.name not in report.steps:
                report.begin(step.name, {"left_out": note})
            continue
        entry = report.begin(step.name, {"gpus": step.gpus, "works": {}, "works_left_out": step.left_out})
        line, environment = command(step, sizes, options.recording)
        environment[VARIABLE] = token = str(uuid.uuid4())
        run_step(step.name, line, environment, min(left, options.limit or step.limit), report)
        entry["witness"] = witness.look(token)
        failed = "error" in entry or any("error" in work for work in entry["works"].values())
        passed = passed and not failed and entry["witness"]["nothing_left"]
        outcome = entry.get("error") or ("failed in part" if failed else "done")
        print(f"{step.name}: {outcome} in {entry['seconds']} s; {json.dumps(entry['witness'])}", flush=True)
        report.write()
    report.write()
    return passed


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the file for the results")
    parser.add_argument("--recording", type=Path, help="the file for the stream of the server with the notebooks")
    parser.add_argument("--gpus", type=int, help="use the first so many GPUs (default: all)")
    parser.add_argument("--only", default="", help="parts of the names of steps, separated by ;")
    parser.add_argument("--seconds", type=float, default=420, help="no step starts that would take longer (420)")
    parser.add_argument("--limit", type=float, help="kill each step after so many seconds")
    parser.add_argument("--plan", action="store_true", help="only print the steps and their seconds")
    parser.add_argument("--small", action="store_true", help=f"small sizes, on {SIMULATED} simulated GPUs")
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.small and "FAKE_GPUS" not in os.environ:
        simulate(options.gpus or SIMULATED)
    try:
        gpus = visible_gpus()
    except GpuUnavailableError as error:
        sys.exit(f"{error} To try it on simulated GPUs, type: {sys.argv[0]} --small")
    sizes = SMALL if options.small else Sizes()
    options.gpus = options.gpus or len(gpus)
    if options.gpus > len(gpus):
        sys.exit(f"--gpus {options.gpus} is more than the number of GPUs, {len(gpus)}: give a smaller one.")
    plan = make_plan(options.gpus, min(gpu.memory_total or 0 for gpu in gpus), sizes.large_join_bytes)
    if options.gpus < len(gpus):
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.uuid for gpu in gpus[: options.gpus])
    wanted = [part for part in options.only.split(";") if part]
    plan = [step for step in plan if not wanted or any(part in step.name for part in wanted)]
    for step in plan:
        limit = options.limit or step.limit
        print(f"{step.name:18} about {step.seconds:3.0f} s, killed after {limit:3.0f} s  {', '.join(step.works)}")
    print(f"all of it: about {sum(step.seconds for step in plan):.0f} s; limit: {options.seconds:.0f} s", flush=True)
    if options.plan:
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # which kills the step that runs
    report = Report(options.out, options.gpus)
    passed = run_all(plan, sizes, options, report)
    report.show()
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
