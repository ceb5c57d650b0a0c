"""What the process of a step does: start the cluster, and run its computations. Each result is a line on stdout."""

from __future__ import annotations

import json
import statistics
import time
from typing import TYPE_CHECKING, Any

from .clusters import OPTIONS, open_cluster
from .plan import WITHOUT_WARM_UP, repeats
from .works import WORKS

if TYPE_CHECKING:
    from pathlib import Path

    from .plan import Step
    from .works import Sizes

MARK = "eight: "
# The large join is left out if, after the small one, it should take longer.
LARGE_JOIN_LIMIT = 60.0


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
