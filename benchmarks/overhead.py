"""What a feature costs where it has nothing to do: work with and without it, in turns on one cluster.

python benchmarks/overhead.py fallback --out benchmarks/results/NAME.json
python benchmarks/overhead.py profile --engine cpu
python benchmarks/overhead.py intervals --engine cpu
FAKE_GPUS=1 PYTHONPATH=tests/fake_gpus:tests/fake_cupy python benchmarks/overhead.py fallback --small

``fallback``: the fallback to the host if nothing falls back. ``profile``: `%%gpudask --profile`; the start and the end
of the recording count. ``intervals``: the intervals of Dask's streams between scheduler, worker and client, and ours.

The settings take turns in random order: what a computation leaves behind slows down the next one, in some rows by a
fifth. The ratio is that of the means without the first pair; its standard error says how far it can be trusted. The
ratio of the processor time of all processes says more where the machine is busy. The last command runs on a machine
without a GPU, with a stand-in for CuPy: on a CPU cluster of this package there is nothing to fall back.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil
from harness import OURS, chosen, cluster, header, parser, publish
from workloads import ROWS, Seconds, arrays, frames  # noqa: F401 - the modules add their rows

import jupyter_gpudask

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

NAMES = (
    "mean",
    "2,500 tiny tasks: da.ones((2500, 10), chunks=(1, 10)).sum()",
    "(x + x.T)[1:, 1:].mean(axis=0).sum() in 400 blocks",
    "2,500 blocks of 1 MB persisted, five element-wise steps each",
    "Parquet: mean by group",
    "Parquet: merge",
)
FEWEST = 2


def independent(count: int, _: bool) -> None:
    """Tasks that do nothing and need nothing."""
    from distributed import default_client, wait

    wait(default_client().map(abs, range(count), pure=False))


def chain(_: bool) -> None:
    """300 tasks that need each other."""
    from distributed import default_client

    value = 1
    for _number in range(300):
        value = default_client().submit(abs, value, pure=False)
    value.result()  # type: ignore[attr-defined]


def computations(_: bool) -> None:
    """50 computations of two blocks, one after the other."""
    import dask.array as da

    for _number in range(50):
        da.ones(4, chunks=2).sum().compute()


def large_blocks(_: bool) -> Any:
    """100 tasks of some milliseconds each."""
    import dask
    import dask.array as da

    x = da.random.random((100, 1_000_000), chunks=(1, 1_000_000))
    with dask.config.set({"optimization.fuse.active": False}):
        return x.sum().compute()


OF_ROWS = {name: ROWS[name].sides[OURS] for name in NAMES}
WORK: dict[str, dict[str, Callable[[bool], Any]]] = {
    "fallback": OF_ROWS,
    "profile": OF_ROWS | {"a sum of 100 blocks of 8 MB, each drawn and reduced in a task of its own": large_blocks},
    "intervals": {
        "1,000 tasks": partial(independent, 1_000),
        "5,000 tasks": partial(independent, 5_000),
        "a chain of 300 tasks": chain,
        "50 computations": computations,
    },
}


@contextmanager
def profiled(client: Any, on_gpus: bool) -> Iterator[None]:
    """Record a profile, as a cell with ``--profile`` does."""
    from jupyter_gpudask.profiling.recording import Recording

    recording = Recording(client, on_gpus=on_gpus)
    recording.start()
    yield
    if recording.stop() is None:
        raise RuntimeError("Another recording was started meanwhile.")


@contextmanager
def intervals(client: Any, to_workers: float, to_clients: float, of_worker: float, of_client: float) -> Iterator[None]:
    """Set the intervals of the streams, in seconds."""

    def set_scheduler(dask_scheduler: Any) -> None:
        for streams, seconds in ((dask_scheduler.stream_comms, to_workers), (dask_scheduler.client_comms, to_clients)):
            for stream in streams.values():
                stream.interval = seconds

    def set_worker(dask_worker: Any) -> None:
        dask_worker.batched_stream.interval = of_worker

    client.scheduler_comm.interval = of_client
    client.run(set_worker)
    client.run_on_scheduler(set_scheduler)
    yield


def settings(feature: str, client: Any, options: argparse.Namespace) -> dict[str, tuple[Any, Any]]:
    """Without and with the feature: contexts around the work whose time does not count, and whose time counts."""
    if feature == "fallback":
        switch = {"array": "cupy", "dataframe": "pandas" if options.small else "cudf", "engine": "cuda"}
        without, with_it = (partial(jupyter_gpudask.gpu, fallback=fallback, **switch) for fallback in ("error", "host"))
        return {"without": (without, nullcontext), "with": (with_it, nullcontext)}
    if feature == "profile":
        profile = partial(profiled, client, options.engine == "cuda")
        return {"without": (nullcontext, nullcontext), "with": (nullcontext, profile)}
    from jupyter_gpudask.worker.send_interval import INTERVAL

    dasks, ours = partial(intervals, client, 0.005, 0.002, 0.002, 0.01), partial(intervals, client, *[INTERVAL] * 4)
    return {"Dask's": (dasks, nullcontext), "jupyter_gpudask's": (ours, nullcontext)}


def measure(work: Any, contexts: dict[str, tuple[Any, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """The seconds with each setting, in turns, and the ratio of the second to the first."""
    seconds: dict[str, list[float]] = {setting: [] for setting in contexts}
    processor: dict[str, list[float]] = {setting: [] for setting in contexts}
    started = time.perf_counter()
    for number in range(options.pairs + 1):
        if number > FEWEST and time.perf_counter() - started > options.seconds:
            break
        for setting in random.sample(list(contexts), 2):
            around, counted = contexts[setting]
            with around():
                began, used = time.perf_counter(), processor_seconds()
                with counted():
                    result = work(options.engine == "cuda" and not options.small)
                elapsed = time.perf_counter() - began
                processor[setting].append(round(processor_seconds() - used, 2))
            seconds[setting].append(result.value if isinstance(result, Seconds) else elapsed)
    without, with_it = (found[1:] for found in seconds.values())
    used, used_with_it = (sum(found[1:]) for found in processor.values())
    return {"seconds": seconds, "processor seconds": processor} | ratios(without, with_it, used, used_with_it)


def processor_seconds() -> float:
    """Used so far by this process and those that it has started."""
    me = psutil.Process()
    times = [each.cpu_times() for each in [me, *me.children(recursive=True)]]
    return sum(each.user + each.system for each in times)


def ratios(without: Sequence[float], with_it: Sequence[float], used: float, used_with_it: float) -> dict[str, float]:
    """The ratio of the means, its standard error, and the ratio of the processor seconds."""
    ratio = statistics.mean(with_it) / statistics.mean(without)
    relative = [statistics.stdev(each) / statistics.mean(each) / math.sqrt(len(each)) for each in (without, with_it)]
    values = {"ratio": ratio, "standard error": ratio * math.hypot(*relative)}
    values["ratio of processor seconds"] = used_with_it / used if used else math.nan
    return {name: round(value, 3) for name, value in values.items()}


def main() -> None:
    made = parser(__doc__, engine="cuda")
    made.add_argument("feature", choices=WORK)
    made.add_argument("--small", action="store_true", help="smaller data, and dataframes with pandas")
    made.add_argument("--pairs", type=int, default=40)
    made.add_argument("--seconds", type=float, default=60, help="no pair of a row begins after so many")
    options = made.parse_args()
    work, rows = WORK[options.feature], {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("SPEED_DATA", folder)
        # The fallback's setting is that of a cell, which starts the cluster too.
        its_cluster = nullcontext() if options.feature == "fallback" else cluster(OURS, options.engine)
        with its_cluster as client:
            contexts = settings(options.feature, client, options)
            for name in chosen(work, options.only):
                rows[name] = measure(work[name], contexts, options)
                print(f"{rows[name]['ratio']:6.3f} ± {rows[name]['standard error']:.3f} {name}", file=sys.stderr)
    publish(header() | {"feature": options.feature, "rows": rows}, options.out, hide="rows")


if __name__ == "__main__":
    main()
