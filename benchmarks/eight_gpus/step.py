"""The process of a step: it starts the cluster and runs the computations. Each result is a line on stdout.

This module and what it imports are light: each worker of a cluster set up by hand imports the main module again.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .clusters import OPTIONS, open_cluster
from .plan import WITHOUT_WARM_UP, Step, repeats
from .works import WORKS, Sizes

MARK = "eight: "
# The large join is left out if, after the small one, it should take longer.
LARGE_JOIN_LIMIT = 60.0


def command(step: Step, sizes: Sizes, recording: Path | None) -> tuple[list[str], dict[str, str]]:
    """The command that runs a step, and its environment variables; the arguments are those of `run`."""
    file = None if recording is None else str(recording.resolve())
    order = json.dumps({"step": asdict(step), "sizes": asdict(sizes), "recording": file})
    given = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    path = [str(Path(entry).resolve()) for entry in (Path(__file__).parents[1], *given)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    return [sys.executable, "-m", "eight_gpus.step", order], environment


def report(**found: Any) -> None:
    """Report a result to the process that has started this one."""
    print(MARK + json.dumps(found), flush=True)


def run(step: Step, sizes: Sizes, recording: Path | None) -> None:
    """Run a step.

    Parameters
    ----------
    step
        The step.
    sizes
        How large its computations are.
    recording
        A file for the stream of the Jupyter server, or `None`.
    """
    if step.cluster == "notebooks":
        from .notebooks import run_notebooks

        report(notebooks=run_notebooks(step.gpus, sizes, recording))
        return
    report(options=OPTIONS.get(step.cluster, {}))
    began = time.perf_counter()
    with open_cluster(step.cluster, step.gpus, sizes):
        report(start=round(time.perf_counter() - began, 2))
        seconds: dict[str, float] = {}
        for name in step.works:
            expected = seconds.get("join", 0) * sizes.large_join_bytes / sizes.join_bytes
            if name == "large join" and expected > LARGE_JOIN_LIMIT:
                report(work=name, left_out=f"after the small one it should take {expected:.0f} s")
                continue
            try:
                found = measure(name, sizes)
            except Exception as error:  # noqa: BLE001 - the others are still measured
                report(work=name, error=f"{type(error).__name__}: {error}")
            else:
                seconds[name] = found["seconds"]
                report(work=name, **found)


def measure(name: str, sizes: Sizes) -> dict[str, Any]:
    """The seconds of a warm-up, of each run after it, and their median."""
    warm_up = None if name in WITHOUT_WARM_UP else _timed(name, sizes.for_warm_up())
    runs = [_timed(name, sizes)]
    while repeats(name, runs):
        runs.append(_timed(name, sizes))
    return {"warm_up": warm_up, "runs": runs, "seconds": round(statistics.median(runs), 3)}


def _timed(name: str, sizes: Sizes) -> float:
    began = time.perf_counter()
    WORKS[name](sizes)
    return round(time.perf_counter() - began, 3)


def main() -> None:
    order = json.loads(sys.argv[1])
    recording = order["recording"]
    run(Step(**order["step"]), Sizes(**order["sizes"]), None if recording is None else Path(recording))


if __name__ == "__main__":
    main()
