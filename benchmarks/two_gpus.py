"""What a second GPU gains, workload by workload, and where the time goes.

python benchmarks/two_gpus.py --engine cuda --out benchmarks/results/NAME.json
python benchmarks/two_gpus.py --engine cuda --gpus 1,4 --only "a @ a.T;rechunk"

Each number of GPUs runs in a process of its own; on the CPU it is the number of workers. Each workload runs once to
warm up, and then ``--repeat`` times; the table has the median, and of the last run

- the gigabytes that workers have received from each other, and the seconds that tasks have waited for them, of all
  workers together; they compute meanwhile;
- the number of tasks that have run;
- the seconds before the first task began: the graph is made;
- the seconds in which a worker ran tasks, as a part of the rest. A task ends when its kernels are launched, so the GPU
  can be busy for longer.

What the numbers of GPUs return must agree.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from distributed.diagnostics.task_stream import TaskStreamPlugin
from harness import Process, chosen, header, parser, private_environment, publish

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    Work = Callable[[bool], Any]

ROWS: dict[str, Work] = {}
PLUGIN = "benchmark-task-stream"


def row(name: str) -> Callable[[Work], Work]:
    """A workload, whose function is given whether it runs on GPUs, where it is larger, and returns a number."""

    def add(function: Work) -> Work:
        ROWS[name] = function
        return function

    return add


def _random(large: bool, shape: tuple[int, ...], chunks: tuple[int, ...], part: int = 20) -> Any:
    """Random numbers; without GPUs each length is divided by `part`, as far as the blocks stay as many."""
    if not large:
        shape, chunks = (tuple(max(1, size // part) for size in sizes) for sizes in (shape, chunks))
    return da.random.RandomState(1).random_sample(shape, chunks=chunks)


@row("mean and deviation")
def moments(large: bool) -> Any:
    x = _random(large, (200_000, 200_000), (10_000, 10_000), 50)
    return x.mean() + x.std()


@row("x + x.T")
def transposed(large: bool) -> Any:
    x = _random(large, (40_000, 40_000), (2_000, 2_000))
    return (x + x.T)[1:, 1:].mean(axis=0).sum()


@row("x + x.T, kept")
def kept(large: bool) -> Any:
    x = _random(large, (40_000, 40_000), (2_500, 2_500))
    return (x + x.T).persist().max()


@row("rechunk from columns to rows")
def rechunked(large: bool) -> Any:
    x = _random(large, (40_000, 40_000), (40_000, 1_000))
    return x.rechunk((x.chunks[1][0], -1)).std(axis=1).sum()


@row("vorticity: pad, rechunk, factors of two dimensions")
def vorticity(large: bool) -> Any:
    size = 4_000 if large else 200
    u, v = (_random(large, (4_000, 4_000, 120), (4_000, 4_000, 20)) for _ in range(2))
    u, v = u.rechunk((size, size, 1)), v.rechunk((size, size, 1))
    dx, dy = (da.random.RandomState(seed).random_sample((size, size), chunks=size) + 1 for seed in (2, 3))
    right = da.pad(v, ((0, 0), (0, 1), (0, 0)), mode="wrap").rechunk((size, size + 1, 1))
    above = da.pad(u, ((0, 1), (0, 0), (0, 0)), mode="wrap").rechunk((size + 1, size, 1))
    rotation = (right[:, 1:] - right[:, :-1]) / dx[:, :, None] - (above[1:] - above[:-1]) / dy[:, :, None]
    return (rotation**2).mean()


@row("means of 31 groups")
def groups(large: bool) -> Any:
    x = _random(large, (3_650, 1_000, 1_000), (50, 1_000, 1_000), 10)
    days = np.arange(len(x)) % 31
    return da.stack([x[np.flatnonzero(days == day)].mean(axis=0) for day in range(31)]).std()


@row("overlap, and a slice of 10,000 blocks")
def overlap(large: bool) -> Any:
    x = _random(large, (100_000, 100_000), (1_000, 1_000), 10)
    return x.map_overlap(_smooth, depth=1, boundary="reflect", dtype=float)[: len(x) // 20].mean()


def _smooth(block: Any) -> Any:
    return (block + block.sum(axis=0)) / 2


@row("a @ a.T")
def product(large: bool) -> Any:
    a = _random(large, (24_000, 24_000), (4_000, 4_000))
    return (a @ a.T).mean()


@row("nearest of 64 centres")
def nearest(large: bool) -> Any:
    points = _random(large, (20_000_000, 16), (500_000, 16), 1 if large else 100)
    points = points.rechunk({1: -1})
    centres = points[:64].persist()
    distances = (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)
    return distances.argmin(axis=1).mean()


@row("standardized columns")
def standardized(large: bool) -> Any:
    x = _random(large, (80_000, 80_000), (5_000, 5_000))
    return ((x - x.mean(axis=0)) / x.std(axis=0)).max()


@row("singular values")
def singular_values(large: bool) -> Any:
    x = _random(large, (2_000_000, 1_000), (20_000, 1_000))
    return da.linalg.svd(x)[1].sum()


@row("Fourier transforms along rows, and down columns")
def fourier(large: bool) -> Any:
    x = _random(large, (32_768, 32_768), (1_024, 32_768), 32)
    rows = da.fft.fft(x, axis=1)
    return abs(da.fft.fft(rows.rechunk((-1, x.chunks[0][0])), axis=0)).max()


@row("cumulative sum")
def cumulative(large: bool) -> Any:
    return _random(large, (40_000, 40_000), (4_000, 4_000)).cumsum(axis=0).max()


@row("histogram and percentiles")
def percentiles(large: bool) -> Any:
    x = _random(large, (2_000_000_000,), (20_000_000,), 500)
    counts, _ = da.histogram(x, bins=100, range=(0, 1))
    return counts.max() + da.percentile(x, [1, 50, 99]).sum()


def measure(count: int, engine: str, repeat: int, names: Sequence[str]) -> Iterator[Any]:
    """Run workloads on so many GPUs: the name of each, its seconds, what it returned, and the measurements."""
    import jupyter_gpudask

    options: dict[str, Any] = {} if engine == "cuda" else {"workers": count, "threads": 1}
    with jupyter_gpudask.gpu(engine=engine, **options) as client:
        client.register_plugin(_Stream(), name=PLUGIN)
        for name in names:
            try:
                runs = []
                for _ in range(repeat + 1):
                    client.run_on_scheduler(_clear)
                    client.run(_received)
                    began = time.time()
                    value = float(ROWS[name](engine == "cuda").compute())
                    runs.append(time.time() - began)
                used = client.run_on_scheduler(_use, began=began, seconds=runs[-1])
                used["GB received"] = round(sum(client.run(_received).values()) / 1e9, 3)
                yield name, runs, value, used
            except Exception as error:  # noqa: BLE001 - reported in the table
                yield name, f"{type(error).__name__}: {error}", None, {}


class _Stream(TaskStreamPlugin):
    """Keeps what tasks have done, in the scheduler."""

    def __init__(self) -> None:
        """It is not in a scheduler yet."""

    def start(self, scheduler: Any) -> None:
        super().__init__(scheduler, maxlen=100_000)


def _clear(dask_scheduler: Any) -> None:
    dask_scheduler.plugins[PLUGIN].buffer.clear()


def _received(dask_worker: Any) -> int:
    """Bytes that a worker has received from others since the last call."""
    log = dask_worker.transfer_incoming_log
    received = sum(entry["total"] for entry in log)
    log.clear()
    return int(received)


def _use(dask_scheduler: Any, began: float, seconds: float) -> dict[str, float]:
    """See the head of this file."""
    tasks = list(dask_scheduler.plugins[PLUGIN].buffer)
    steps = [(task["worker"], step) for task in tasks for step in task["startstops"]]
    computed = [(step["start"], step["stop"]) for _, step in steps if step["action"] == "compute"]
    waited = [step["stop"] - step["start"] for _, step in steps if step["action"] == "transfer"]
    first = min((start for start, _ in computed), default=began) - began
    busy = sum(stop - start for start, stop in computed) / max(1, len(dask_scheduler.workers))
    return {
        "tasks": len(tasks),
        "before first task": round(first, 3),
        "busy": round(busy / max(1e-9, seconds - first), 2),
        "waited": round(sum(waited), 2),
    }


def compare(names: Sequence[str], options: argparse.Namespace, counts: Sequence[int], folder: Path) -> dict[str, Any]:
    """For each workload its runs, medians, values and measurements, by the number of GPUs, and the gain."""
    table: dict[str, Any] = {name: {"runs": {}, "seconds": {}, "values": {}, "use": {}} for name in names}
    for count in counts:
        place = folder / str(count)
        place.mkdir()
        gpus = count if options.engine == "cuda" else None
        variables = private_environment(place, gpus)
        process = Process(measure, variables, count=count, engine=options.engine, repeat=options.repeat, names=names)
        for name, runs, value, use in process:
            print(f"{count}: {name}: {runs} {use}", file=sys.stderr, flush=True)
            entry = table[name]
            entry["runs"][count], entry["values"][count], entry["use"][count] = runs, value, use
            if isinstance(runs, list):
                entry["seconds"][count] = statistics.median(runs[1:] or runs)
        process.end()
    for entry in table.values():
        values = [value for value in entry["values"].values() if value is not None]
        entry["agrees"] = bool(values) and all(math.isclose(value, values[0], rel_tol=1e-6) for value in values)
        if entry["seconds"].keys() >= {counts[0], counts[-1]}:
            entry["gain"] = round(entry["seconds"][counts[0]] / entry["seconds"][counts[-1]], 2)
    return table


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--gpus", default="1,2", help="the numbers of GPUs to compare, with commas between")
    made.add_argument("--repeat", type=int, default=2)
    options = made.parse_args()
    counts = [int(count) for count in options.gpus.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        table = compare(chosen(ROWS, options.only), options, counts, Path(folder))
    for name, entry in table.items():
        seconds = ", ".join(f"{count}: {found:.3f}" for count, found in entry["seconds"].items())
        use = entry["use"].get(counts[-1], {})
        print(f"{name:52} {entry.get('gain', ''):>6}  {'' if entry['agrees'] else 'DIFFERS  '}{seconds}  {use}")
    gains = [entry["gain"] for entry in table.values() if "gain" in entry]
    mean = round(statistics.geometric_mean(gains), 2) if gains else None
    publish(header() | {"geometric mean of the gains": mean, "rows": table}, options.out, hide="rows")


if __name__ == "__main__":
    main()
