"""Bytes per second and round-trip time between two workers, by the protocol with which they communicate.

python benchmarks/transports.py --out benchmarks/results/NAME.json
python benchmarks/transports.py --engine cuda --out benchmarks/results/NAME.json

On the CPU NumPy arrays pass over Unix sockets, plain TCP, and TCP with TLS. The second line needs two GPUs: CuPy arrays
pass over Unix sockets with and without page-locked shared memory, and by UCX if distributed-ucxx is installed. One
worker reads the same array of the other again and again, as Dask does before a task; what it has read it checks. The
clusters of all protocols run one after the other, in each round.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dask.utils import parse_bytes
from distributed import Client, LocalCluster, Security
from report import header, publish

from jupyter_gpudask.comm import device_memory
from jupyter_gpudask.comm.addresses import host_of

if TYPE_CHECKING:
    from collections.abc import Iterator

CPU = ("unix", "tcp", "tls")
GPU = ("unix", "unix without shared memory", "ucx")
REPEATS, ECHOES = 9, 500


@contextmanager
def connect(name: str, engine: str) -> Iterator[Client]:
    """The client of a cluster with two workers that communicate by the protocol `name`."""
    options: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "threads_per_worker": 1, "n_workers": 2}
    if engine == "cuda":
        from dask_cuda import LocalCUDACluster as Cluster

        options |= {"CUDA_VISIBLE_DEVICES": [0, 1], "rmm_pool_size": 0.5}
    else:
        Cluster = LocalCluster  # noqa: N806 - a class
    with tempfile.TemporaryDirectory() as folder:
        options |= {
            "tls": {"protocol": "tls", "host": "127.0.0.1", "security": Security.temporary()},
            "tcp": {"protocol": "tcp", "host": "127.0.0.1"},
            "ucx": {"protocol": "ucx"},
        }.get(name, {"protocol": "unix", "host": host_of(Path(folder))})
        with Cluster(**options) as cluster, Client(cluster) as client:
            if name == "unix":
                client.run(device_memory.enable)
            yield client


def make(size: int, engine: str) -> Any:
    import importlib

    library = importlib.import_module("cupy" if engine == "cuda" else "numpy")
    return library.random.default_rng(0).integers(0, 2**60, size // 8)


async def read(key: str, other: str, total: int, repeats: int, dask_worker: Any) -> list[float]:
    """The seconds of each time that this worker reads an array of another."""
    import time

    from distributed.worker import get_data_from_worker

    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        response = await get_data_from_worker(dask_worker.rpc, [key], other, who=dask_worker.address)
        array = response["data"][key]
        if hasattr(array, "device") and hasattr(array.device, "synchronize"):
            array.device.synchronize()
        seconds.append(time.perf_counter() - began)
        assert int(array.sum()) == total
        del array, response
    return seconds


async def echo(other: str, repeats: int, dask_worker: Any) -> list[float]:
    """The seconds of each exchange of two small messages with another worker."""
    import time

    remote = dask_worker.rpc(other)
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        await remote.echo(data=b"x")
        seconds.append(time.perf_counter() - began)
    return seconds


def measure(client: Client, sizes: list[int], engine: str) -> dict[str, Any]:
    """Seconds of the exchanges, and of the transfers by their bytes."""
    here, there = sorted(client.scheduler_info(n_workers=-1)["workers"])
    client.run(echo, there, 20, workers=[here])  # opens the connection
    found: dict[str, Any] = {"exchanges": client.run(echo, there, ECHOES, workers=[here])[here]}
    for size in sizes:
        future = client.submit(make, size, engine, workers=[there], pure=False)
        total = client.submit(lambda array: int(array.sum()), future, workers=[there]).result()
        client.run(read, future.key, there, total, 2, workers=[here])
        found[str(size)] = client.run(read, future.key, there, total, REPEATS, workers=[here])[here]
    return found


def summarize(rounds: list[dict[str, Any]], sizes: list[int]) -> dict[str, Any]:
    """The median and the best over all rounds."""
    found = {}
    for name, choose in (("median", statistics.median), ("best", min)):
        chosen = {key: choose([seconds for each in rounds for seconds in each[key]]) for key in rounds[0]}
        found[name] = {
            "round_trip_microseconds": round(chosen["exchanges"] * 1e6),
            "gigabytes_per_second": {str(size): round(size / chosen[str(size)] / 1e9, 3) for size in sizes},
        }
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--sizes", help="bytes of the arrays, such as 1MB,100MB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="protocols to measure, with semicolons")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    default = "1MB,100MB,1GB" if arguments.engine == "cuda" else "1MB,10MB,100MB"
    sizes = [int(parse_bytes(size)) // 8 * 8 for size in (arguments.sizes or default).split(",")]
    names = arguments.only.split(";") if arguments.only else GPU if arguments.engine == "cuda" else CPU
    if importlib.util.find_spec("distributed_ucxx") is None:
        names = [name for name in names if name != "ucx"]
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(arguments.rounds):
        for name in names:
            with connect(name, arguments.engine) as client:
                rounds[name].append(measure(client, sizes, arguments.engine))
            print(name, summarize(rounds[name], sizes), flush=True)
    results = {name: summarize(each, sizes) for name, each in rounds.items()}
    publish({**header(), "engine": arguments.engine, "rounds": arguments.rounds, "results": results}, arguments.out)
