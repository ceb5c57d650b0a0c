"""What the intervals of Dask's streams cost: the same work with Dask's own and with `jupyter_gpudask`'s, in turn.

python benchmarks/send_interval.py --workers 2 --out benchmarks/results/NAME.json
python benchmarks/send_interval.py --engine cuda

A stream between scheduler, worker and client sends messages at most once in an interval. One cluster runs all; the
intervals change between the runs. Each entry has the medians of the seconds of a run, and of the CPU seconds of the
scheduler and of the workers in it.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from report import header, publish

if TYPE_CHECKING:
    from collections.abc import Callable

DASK, OURS = "Dask's", "jupyter_gpudask's"


def independent(count: int) -> Callable[[], Any]:
    """Tasks that do nothing and need nothing."""

    def run() -> None:
        from distributed import default_client, wait

        wait(default_client().map(abs, range(count), pure=False))

    return run


def chain() -> None:
    """300 tasks that need each other."""
    from distributed import default_client

    value = 1
    for _ in range(300):
        value = default_client().submit(abs, value, pure=False)
    value.result()  # type: ignore[attr-defined]


def element_wise() -> None:
    """1,000 blocks of 1 MB, each kept."""
    import dask.array as da
    from distributed import wait

    x = da.ones((125_000, 1000), chunks=(125, 1000))
    wait((((x + 1) * 2 - 3) ** 2 / 4).persist())


def computations() -> None:
    """50 computations of two blocks, one after the other."""
    import dask.array as da

    for _ in range(50):
        da.ones(4, chunks=2).sum().compute()


WORK = {
    "1,000 tasks": independent(1_000),
    "5,000 tasks": independent(5_000),
    "a chain of 300 tasks": chain,
    "1,000 blocks of 1 MB persisted": element_wise,
    "50 computations": computations,
}


def set_scheduler(to_workers: float, to_clients: float, dask_scheduler: Any) -> float:
    """Set the intervals in seconds; the CPU seconds of the scheduler's process."""
    for streams, seconds in ((dask_scheduler.stream_comms, to_workers), (dask_scheduler.client_comms, to_clients)):
        for stream in streams.values():
            stream.interval = seconds
    return time.process_time()


def set_worker(seconds: float, dask_worker: Any) -> float:
    """Set the interval in seconds; the CPU seconds of the worker's process."""
    dask_worker.batched_stream.interval = seconds
    return time.process_time()


def run(work: Callable[[], None], side: str) -> tuple[float, float, float]:
    """The seconds of one run, and the CPU seconds of scheduler and workers in it."""
    from distributed import default_client

    from jupyter_gpudask.worker.send_interval import INTERVAL

    client: Any = default_client()
    to_workers, to_clients, of_worker, of_client = (0.005, 0.002, 0.002, 0.01) if side == DASK else [INTERVAL] * 4

    def set_all() -> tuple[float, float]:
        client.scheduler_comm.interval = of_client
        used = sum(client.run(set_worker, of_worker).values())
        return client.run_on_scheduler(set_scheduler, to_workers, to_clients), used

    before = set_all()
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    after = set_all()
    return seconds, after[0] - before[0], after[1] - before[1]


def compare(work: Callable[[], None], repeat: int) -> dict[str, Any]:
    """The medians of both sides, which take turns."""
    found: dict[str, list[tuple[float, float, float]]] = {DASK: [], OURS: []}
    run(work, OURS)
    for number in range(repeat):
        for side in sorted(found, reverse=bool(number % 2)):
            found[side].append(run(work, side))
    names = ("seconds", "CPU seconds of the scheduler", "CPU seconds of the workers")
    medians = {
        side: {
            name: round(statistics.median(each), 3) for name, each in zip(names, zip(*runs, strict=True), strict=True)
        }
        for side, runs in found.items()
    }
    return medians | {"ratio": round(medians[DASK]["seconds"] / medians[OURS]["seconds"], 2)}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All work on one cluster."""
    import jupyter_gpudask

    warnings.filterwarnings("ignore", message=".*CPU stand-in")
    chosen = {"workers": options.workers, "threads": 1} if options.engine == "cpu" else {}
    table = {}
    with jupyter_gpudask.gpu(engine=options.engine, **chosen):
        for name, work in WORK.items():
            table[name] = compare(work, options.repeat)
            print(name, table[name], flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="of a cluster without GPUs, of one thread each")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    publish(header() | {"rows": measure(options)}, options.out, hide="rows")


if __name__ == "__main__":
    main()
