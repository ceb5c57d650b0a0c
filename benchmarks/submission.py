"""What it costs the kernel to submit a graph: seconds of CPU and bytes, beside a cluster of plain Dask.

python benchmarks/submission.py --engine cpu
python benchmarks/submission.py --engine cuda --backends cupy,cudf --out benchmarks/results/NAME.json

Pretended GPUs do, too: PYTHONPATH=tests/fake_gpus:tests/fake_cupy, with --backends cupy,pandas. Each side is a process
of its own, and they take turns, so that a machine that is slow for a while is slow for both; of each graph the least
seconds of all tries count. A graph counts as submitted when it has been written to the connection with the scheduler:
what the kernel does later, such as heartbeats, it does without a submission, too. How long the scheduler then needs to
take it is reported apart. What is computed then is cancelled.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import Process, header, parser, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributed import Client

SIDES = ("plain", "ours")
TABLE = {number: str(number) for number in range(2000)}


def make_array(tasks: int) -> Any:
    import dask.array as da

    return (da.ones(tasks, chunks=1) + 1).sum(split_every=tasks)


def make_frame(tasks: int) -> Any:
    import dask
    import dask.dataframe as dd
    import pandas as pd

    def part(number: int) -> pd.DataFrame:
        return pd.DataFrame({"a": [number]})

    frame = dd.from_map(part, range(tasks // 4), meta=pd.DataFrame({"a": [1]}))
    if dask.config.get("dataframe.backend", "pandas") == "cudf":
        frame = frame.to_backend("cudf")
    return frame.a.sum(split_every=tasks)


def make_function(tasks: int) -> Any:
    import dask.array as da

    def look_up(block: Any, table: dict[int, str] = TABLE) -> Any:
        return block + len(table)

    return da.ones(tasks, chunks=1).map_blocks(look_up, dtype=float).sum(split_every=tasks)


GRAPHS = {"array": make_array, "dataframe": make_frame, "function with a dict of 2,000": make_function}


@contextmanager
def client_of(side: str, engine: str, array: str, dataframe: str) -> Iterator[Client]:
    """The client of a cell, with what every cell does; or of a scheduler and a worker of plain Dask."""
    import dask
    from distributed import Client

    warnings.simplefilter("ignore")  # that it runs on the CPU
    dask.config.set({"array.backend": array, "dataframe.backend": dataframe})
    if side == "plain":
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            place = ["--dashboard-address", "127.0.0.1:0", "--scheduler-file", f"{folder}/scheduler.json"]
            for program in (["scheduler", "--port", "0"], ["worker", "--nthreads", "1"]):
                line = [sys.executable, "-P", "-m", "dask", *program, *place]
                stack.callback(subprocess.Popen(line, stderr=subprocess.DEVNULL).terminate)
            while not Path(place[-1]).exists():
                time.sleep(0.1)
            client = stack.enter_context(Client(scheduler_file=place[-1]))
            client.wait_for_workers(1)
            yield client
        return
    import jupyter_gpudask

    options = {"engine": "cpu", "workers": 1, "threads": 1} if engine == "cpu" else {"gpus": 1}
    with jupyter_gpudask.gpu(array=array, dataframe=dataframe, **options) as client:
        yield client


def submit(client: Client, collection: Any) -> dict[str, Any]:
    """Seconds of CPU of this thread and process, bytes of the graph, and how many tasks the scheduler made of it."""
    from distributed.utils import nbytes

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


def serve(side: str, engine: str, backends: str) -> Iterator[Any]:
    """Be one side: submit the graphs that are asked for, until the input ends."""
    with client_of(side, engine, *backends.split(",")) as client:
        submit(client, make_array(100))  # what is imported at first
        submit(client, make_frame(100))
        yield None
        for line in sys.stdin:
            name, size = json.loads(line)
            yield submit(client, GRAPHS[name](size))


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--backends", default="numpy,pandas", help="of the arrays, and of the dataframes")
    made.add_argument("--sizes", default="1000,10000,100000")
    options = made.parse_args()
    sides = {name: Process(serve, {}, side=name, engine=options.engine, backends=options.backends) for name in SIDES}
    rows: dict[str, Any] = {side: {name: [] for name in GRAPHS} for side in sides}
    for process in sides.values():
        next(process)
    for name in GRAPHS:
        for size in map(int, options.sizes.split(",")):
            rounds = range(max(2, min(15, 60_000 // size)))
            tries = [{side: process.ask([name, size]) for side, process in sides.items()} for _ in rounds]
            for side in sides:
                rows[side][name].append({key: min(each[side][key] for each in tries) for key in tries[0][side]})
            plain, ours = (rows[side][name][-1] for side in SIDES)
            ratios = {key: round(ours[key] / max(plain[key], 1e-4), 2) for key in ours}
            print(f"{name}, {ours['tasks']} tasks: ours over plain {ratios}", flush=True)
            if options.out:  # so that a run that is ended leaves what it has measured
                options.out.write_text(json.dumps(header() | rows, indent=1) + "\n")
    for process in sides.values():
        process.end()
    publish(header() | {"engine": options.engine} | rows, options.out)


if __name__ == "__main__":
    main()
