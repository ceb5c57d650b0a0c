"""The page docs/scoreboard.md, made from the newest measurements on GPUs in benchmarks/results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
_ON_CPU = re.compile(" on GPUs(?: and|,) [^:]* on the CPU")
HAND, OURS = "by hand", "jupyter_gpudask"
THREADS, PROCESSES, CORES = "plain Dask, threads", "plain Dask, processes", "plain Dask on the cores"

HEAD = """\
# Scoreboard

The newest measurement of each workload on GPUs, from the files in `benchmarks/results/`, which also record the
command, the machine and the versions. All sides of a row ran one after the other on one machine. Seconds are medians
without the first run, with the fastest and the slowest of three or more runs in brackets. In **bold** rows this package
is slower. [Performance](performance.md) explains the numbers.
"""
PDSH = """
## Dataframes: PDS-H, 22 queries, scale 10

The seconds are the sum of the fastest run of each query. An answer is right if it is that of Polars on the
CPU.

| | Seconds | Right | Measured on |
| --- | --- | --- | --- |"""
FIRST_RUNS = {
    "SciPy: median filter": "Median filter, 5 × 5, of 8,000 × 8,000 numbers",
    "SciPy: Gaussian filter": "Gaussian filter, sigma 4, of 16,000 × 16,000 numbers",
    "scikit-learn: predict of a random forest": "Predictions of a random forest, which run on the CPU",
}
NAMES = {
    "ours": "`%%gpudask`, `dask.dataframe`",
    "by-hand": "By hand: `LocalCUDACluster`, Dask's backend `cudf`",
    "polars-cells": "`%%gpudask`, Polars",
    "dask-engine": "By hand: `DaskEngine` of cudf-polars",
    "cudf-polars": "cudf-polars, one process",
    "polars": "Polars on the CPU, streaming",
}
SPEED = """
## Arrays and dataframes, beside a cluster set up by hand

`benchmarks/speed.py`. By hand is a `LocalCUDACluster` with a memory pool and Dask's backends set.

| Workload | By hand | `%%gpudask` | Times as fast | Measured on |
| --- | --- | --- | --- | --- |"""
FALLBACK = """
## Cells that run on the CPU, beside plain Dask

`benchmarks/fallback.py`: what CuPy and cuDF lack, in a cell, and the same cell in Dask's threads (its default)
or processes, on all cores.

| Workload | Threads | Processes | `%%gpudask` | Times as fast as the better | Measured on |
| --- | --- | --- | --- | --- | --- |"""
FILES = """
## Arrays in files, beside plain Dask

`benchmarks/files.py`: Zarr, netCDF and TIFF files in the page cache, with the cores that the process may use.

| Workload | Plain Dask | `%%gpudask` | Times as fast | Measured on |
| --- | --- | --- | --- | --- |"""
GPUS = """
## One GPU and two

`benchmarks/two_gpus.py`.

| Workload | One GPU | Two GPUs | Gain | Measured on |
| --- | --- | --- | --- | --- |"""


def measurements() -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the contents of each file that was measured on GPUs, the newest first."""
    for path in sorted(RESULTS.glob("*.json"), reverse=True):
        content = json.loads(path.read_text())
        if content.get("gpus"):
            yield path.name, content


def rows(*sides: str) -> dict[str, tuple[dict[str, Any], str]]:
    """The newest entry of each workload that has numbers for all of these sides, and where it was measured."""
    found: dict[str, tuple[dict[str, Any], str]] = {}
    for name, content in measurements():
        entries = content.get("rows")
        for workload, entry in entries.items() if isinstance(entries, dict) else ():
            runs = entry.get("runs", {}) if isinstance(entry, dict) else {}
            if all(isinstance(runs.get(side), list) for side in sides):
                found.setdefault(_ON_CPU.sub("", workload), (entry, where(name, content)))
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def where(name: str, content: dict[str, Any]) -> str:
    """A link to the file, by the GPU and the date."""
    gpu = content["gpus"][0].split()[1]
    return f"[{gpu}, {content['date']}](../benchmarks/results/{name})"


def seconds(entry: dict[str, Any], side: str) -> str:
    """The median of a side, with the fastest and the slowest run."""
    runs = entry["runs"][side][1:]
    spread = f" ({min(runs):.2f} to {max(runs):.2f})" if len(runs) > 2 else ""
    return f"{entry['seconds'][side]:.2f}{spread}"


def table(sides: tuple[str, ...]) -> Iterator[str]:
    """The rows of the workloads with these sides, the last of which is compared with the best of the others."""
    for workload, (entry, place) in rows(*sides).items():
        *others, ours = (entry["seconds"][side] for side in sides)
        ratio = min(others) / ours
        cells = [workload, *(seconds(entry, side) for side in sides), f"{ratio:.2f}"]
        yield "| " + " | ".join(f"**{cell}**" if ratio < 0.995 else cell for cell in cells) + f" | {place} |"


def pdsh() -> Iterator[str]:
    """The newest total of each side of PDS-H."""
    found: dict[str, str] = {}
    for name, content in measurements():
        for side, total in content.get("table", {}).items() if content.get("scale") == 10 else ():
            text = f"{total['seconds']:.1f}" + ("" if total["queries"] == 22 else f" for {total['queries']}")
            found.setdefault(
                side, f"| {NAMES.get(side)} | {text} | {total.get('right', 'not compared')} | {where(name, content)} |"
            )
    yield from (found[side] for side in NAMES if side in found)


def first_runs() -> str:
    """The times of README.md: the CPU's, the first run's and the next ones' on a GPU, from one recording."""
    lines = ["| | CPU | GPU, first run | GPU, next runs |", "| --- | --- | --- | --- |"]
    for workload, text in FIRST_RUNS.items():
        entry, _ = rows(THREADS, PROCESSES, OURS)[workload]
        cpu, ours = min(entry["seconds"][side] for side in (THREADS, PROCESSES)), entry["seconds"][OURS]
        lines.append(f"| {text} | {cpu:.2f} | {entry['runs'][OURS][0]:.2f} | {ours:.2f} |")
    return "\n".join(lines)


def page() -> str:
    """The text of the page."""
    parts = [HEAD, PDSH.strip(), *pdsh(), SPEED, *table((HAND, OURS)), FALLBACK]
    files = list(table((CORES, OURS)))
    parts += [*table((THREADS, PROCESSES, OURS)), *([FILES, *files] if files else [])]
    return "\n".join([*parts, GPUS, *table(("1", "2"))]) + "\n"
