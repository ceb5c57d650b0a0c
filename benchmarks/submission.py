"""What it costs the kernel to submit a graph: seconds of CPU and bytes, beside a plain scheduler, worker and client.

python benchmarks/submission.py --out benchmarks/results/NAME.json
python benchmarks/submission.py --engine cpu
python benchmarks/submission.py --engine cuda --backends cupy,cudf

The first line needs a GPU, or the pretended ones of tests/fake_gpus on PYTHONPATH, and --backends cupy,pandas then runs
on tests/fake_cupy. A graph counts as submitted when it has been written to the connection with the scheduler: what the
kernel does later, such as heartbeats, it does without a submission, too. How long the scheduler then needs to take it
is reported apart. What is computed then is cancelled.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from dask.utils import parse_bytes
from distributed import Client
from distributed.utils import nbytes
from report import header, publish

import jupyter_gpudask

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = {number: str(number) for number in range(2000)}


def make_array(tasks: int) -> da.Array:
    return (da.ones(tasks, chunks=1) + 1).sum(split_every=tasks)


def make_frame(tasks: int) -> Any:
    def part(number: int) -> pd.DataFrame:
        return pd.DataFrame({"a": [number]})

    frame = dd.from_map(part, range(tasks // 4), meta=pd.DataFrame({"a": [1]}))
    if dask.config.get("dataframe.backend", "pandas") == "cudf":
        frame = frame.to_backend("cudf")
    return frame.a.sum(split_every=tasks)


def make_function(tasks: int) -> da.Array:
    def look_up(block: Any, table: dict[int, str] = TABLE) -> Any:
        return block + len(table)

    return da.ones(tasks, chunks=1).map_blocks(look_up, dtype=float).sum(split_every=tasks)


GRAPHS = {"array": make_array, "dataframe": make_frame, "function with a dict of 2,000": make_function}


@contextmanager
def ours(engine: str, array: str, dataframe: str) -> Iterator[Client]:
    """The client of a GPU cell, with what every cell does: the fallback, host results, the optimization of graphs."""
    options = {"engine": "cpu", "workers": 1, "threads": 1} if engine == "cpu" else {"gpus": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it runs on the CPU
        with jupyter_gpudask.gpu(array=array, dataframe=dataframe, **options) as client:
            yield client


@contextmanager
def plain() -> Iterator[Client]:
    with tempfile.TemporaryDirectory() as folder:
        place = ["--scheduler-file", f"{folder}/scheduler.json"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
        programs = [
            [sys.executable, "-m", "dask", "scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0", *place],
            [sys.executable, "-m", "dask", "worker", "--nthreads", "1", "--dashboard-address", "127.0.0.1:0", *place],
        ]
        running = [subprocess.Popen(line, env=environment, stderr=subprocess.DEVNULL) for line in programs]
        try:
            while not Path(place[1]).exists():
                time.sleep(0.1)
            with Client(scheduler_file=place[1]) as client:
                client.wait_for_workers(1)
                yield client
        finally:
            for process in running:
                process.terminate()
                process.wait()


def submit(client: Client, collection: Any) -> dict[str, Any]:
    """Seconds of CPU of this process, bytes of the graph, and how many tasks the scheduler made of it, and when."""
    written, taken, tasks, sent = threading.Event(), threading.Event(), [], []

    def on_event(event: tuple[float, Any]) -> None:
        if event[1].get("action") == "update-graph":
            tasks.append(event[1]["metrics"]["tasks"])
            taken.set()

    def count(message: dict[str, Any]) -> None:
        if message.get("op") == "update-graph":
            sent.append(sum(map(nbytes, message["expr_ser"].frames)))
        send(message)

    async def write(messages: list[dict[str, Any]], *args: Any, **kwargs: Any) -> Any:
        result = await write_to_comm(messages, *args, **kwargs)
        if any(message.get("op") == "update-graph" for message in messages):
            written.set()
        return result

    client.subscribe_topic(client.id, on_event)
    comm = client.scheduler_comm.comm
    write_to_comm, comm.write = comm.write, write
    send, client._send_to_scheduler = client._send_to_scheduler, count
    began, cpu = time.perf_counter(), time.process_time()
    future = client.compute(collection)
    written.wait()
    cpu = time.process_time() - cpu
    taken.wait()
    seconds = time.perf_counter() - began
    client._send_to_scheduler, comm.write = send, write_to_comm
    future.cancel()
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        time.sleep(0.1)
    return {"tasks": tasks[0], "cpu_seconds": round(cpu, 4), "bytes": sent[0], "taken_after": round(seconds, 2)}


def measure(client: Client, sizes: list[int]) -> dict[str, Any]:
    submit(client, make_array(100))  # what is imported at first
    submit(client, make_frame(100))
    rows: dict[str, Any] = {name: [] for name in GRAPHS}
    for name, make in GRAPHS.items():
        for size in sizes:
            tries = [submit(client, make(size)) for _ in range(max(2, min(15, 60_000 // size)))]
            rows[name].append(min(tries, key=lambda row: row["cpu_seconds"]))
            print(name, rows[name][-1], flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--backends", default="numpy,pandas", help="of the arrays, and of the dataframes")
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    sizes = [int(parse_bytes(size)) for size in arguments.sizes.split(",")]
    array, frame = arguments.backends.split(",")
    dask.config.set({"array.backend": array, "dataframe.backend": frame})
    report = {
        **header(),
        "engine": arguments.engine,
    }
    with plain() as client:
        report["plain"] = measure(client, sizes)
    with ours(arguments.engine, array, frame) as client:
        report["ours"] = measure(client, sizes)
    for name in GRAPHS:
        for before, now in zip(report["plain"][name], report["ours"][name], strict=True):
            seconds = now["cpu_seconds"] / max(before["cpu_seconds"], 1e-4)
            print(f"{name}, {now['tasks']} tasks: CPU x {seconds:.2f}, bytes x {now['bytes'] / before['bytes']:.2f}")
    publish(report, arguments.out)
