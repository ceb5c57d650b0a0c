"""What it costs the kernel to submit a graph: seconds of CPU and bytes, beside a plain scheduler, worker and client.

python benchmarks/submission.py --out benchmarks/results/NAME.json
python benchmarks/submission.py --engine cpu
python benchmarks/submission.py --engine cuda --backends cupy,cudf

The first line needs a GPU, or the pretended ones of tests/fake_gpus on PYTHONPATH, and --backends cupy,pandas then runs
on tests/fake_cupy. Each side is a process of its own, and they take turns, so that a machine that is slow for a while
is slow for both; of each graph the least seconds of all tries count. A graph counts as submitted when it has been
written to the connection with the scheduler: what the kernel does later, such as heartbeats, it does without a
submission, too. How long the scheduler then needs to take it is reported apart. What is computed then is cancelled.
"""

from __future__ import annotations

import argparse
import json
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

MARK = "submission: "
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
    return {"tasks": tasks[0], "cpu_seconds": round(cpu, 4), "bytes": sent[0], "taken_after": round(seconds, 3)}


def serve(side: str, engine: str, array: str, dataframe: str) -> None:
    """Be one side: submit the graphs that are asked for, a line of JSON each, until the input ends."""
    dask.config.set({"array.backend": array, "dataframe.backend": dataframe})
    with plain() if side == "plain" else ours(engine, array, dataframe) as client:
        submit(client, make_array(100))  # what is imported at first
        submit(client, make_frame(100))
        print(MARK, flush=True)
        for line in sys.stdin:
            name, size = json.loads(line)
            print(MARK + json.dumps(submit(client, GRAPHS[name](size))), flush=True)


class Side:
    """A process that submits graphs."""

    def __init__(self, name: str, arguments: argparse.Namespace) -> None:
        options = ["--side", name, "--engine", arguments.engine, "--backends", arguments.backends]
        self._process = subprocess.Popen(
            [sys.executable, __file__, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def submit(self, name: str, size: int) -> dict[str, Any]:
        self._process.stdin.write(json.dumps([name, size]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._answer())

    def _answer(self) -> str:
        for line in self._process.stdout:
            if line.startswith(MARK):
                return line.removeprefix(MARK)
        raise SystemExit(f"The process of a side ended with status {self._process.wait()}.")

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def measure(sides: dict[str, Side], sizes: list[int]) -> Iterator[dict[str, Any]]:
    """The best try of each graph so far, by side, by the graph's name, after each graph."""
    rows: dict[str, Any] = {side: {name: [] for name in GRAPHS} for side in sides}
    for name in GRAPHS:
        for size in sizes:
            rounds = range(max(2, min(15, 60_000 // size)))
            tries = [{side: process.submit(name, size) for side, process in sides.items()} for _ in rounds]
            for side in sides:
                least = {key: min(each[side][key] for each in tries) for key in tries[0][side]}
                rows[side][name].append(least)
            before, now = (rows[side][name][-1] for side in ("plain", "ours"))
            seconds = now["cpu_seconds"] / max(before["cpu_seconds"], 1e-4)
            times = f"{before['cpu_seconds'] * 1e3:.1f} and {now['cpu_seconds'] * 1e3:.1f} ms"
            sent, taken = (now[key] / before[key] for key in ("bytes", "taken_after"))
            print(
                f"{name}, {now['tasks']} tasks: CPU x {seconds:.2f} ({times}), bytes x {sent:.2f}, taken x {taken:.2f}"
            )
            yield rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--backends", default="numpy,pandas", help="of the arrays, and of the dataframes")
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--side", choices=["plain", "ours"], help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.side:
        serve(arguments.side, arguments.engine, *arguments.backends.split(","))
        sys.exit()
    facts = {**header(), "engine": arguments.engine}
    sides = {name: Side(name, arguments) for name in ("plain", "ours")}
    try:
        for rows in measure(sides, [int(parse_bytes(size)) for size in arguments.sizes.split(",")]):
            if arguments.out:  # so that a run that is ended leaves what it has measured
                arguments.out.write_text(json.dumps({**facts, **rows}, indent=1) + "\n")
    finally:
        for side in sides.values():
            side.close()
    publish({**facts, **rows}, arguments.out)
