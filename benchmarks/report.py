"""The report of a benchmark: what ran where and with which versions, as JSON on the screen and in a file."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.machine.gpus import list_gpus

_PACKAGES = (
    "jupyter_gpudask",
    "dask",
    "distributed",
    "dask-cuda",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "cudf-cu12",
    "cudf-cu13",
    "numpy",
    "pandas",
    "ipython",
    "ipykernel",
    "jupyterlab",
)


def header() -> dict[str, Any]:
    """The command, date, GPUs, CPU cores, Python and versions of the installed packages."""
    return {
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "gpus": gpu_names(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions(),
    }


def gpu_names() -> list[str]:
    """The names of the GPUs; empty without a driver."""
    try:
        return [gpu.name for gpu in list_gpus()]
    except GpuUnavailableError:
        return []


def versions() -> dict[str, str]:
    """Versions of the packages that matter, as far as they are installed."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def publish(report: dict[str, Any], out: Path | None, *, hide: str = "") -> None:
    """Print a report, without its part `hide`, and write all of it to the file `out` if there is one."""
    if out:
        out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({name: part for name, part in report.items() if name != hide}, indent=1))
