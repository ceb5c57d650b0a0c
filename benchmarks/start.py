"""Where the time of `%gpudask start` goes.

    python benchmarks/start.py --out benchmarks/results/NAME.json

Times a start step by step as the kernel sees it, three times over, beside the imports that it waits for, each in a
fresh process, and, on a GPU, beside a LocalCUDACluster by hand.

    python benchmarks/start.py --methods spawn,forkserver --rounds 6 --out benchmarks/results/NAME.json

compares the values of Dask's setting distributed.worker.multiprocessing-method instead, in turns, up to the first
result of an array and of a dataframe.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from report import header, publish

IMPORTS = ("distributed", "dask_cuda", "cupy", "cudf", "dask_cudf", "pynvml", "jupyter_gpudask.supervisor.supervisor")

METHOD = "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"

IMPORTS_OF_CPU = ("distributed", "jupyter_gpudask.supervisor.supervisor")

BY_HAND = """
import time
if __name__ == "__main__":
    began = time.perf_counter()
    from dask_cuda import LocalCUDACluster
    from distributed import Client
    cluster = LocalCUDACluster(dashboard_address="127.0.0.1:0", pre_import="cudf,cupy")
    client = Client(cluster)
    client.wait_for_workers(len(cluster.worker_spec))
    seconds = time.perf_counter() - began
    client.close(); cluster.close()
    print(seconds)
"""

START = """
import asyncio, json, os, sys, threading, time
import resource
if __name__ == "__main__":
    began = time.perf_counter()
    marks = {}
    mark = lambda name: marks.setdefault(name, round(time.perf_counter() - began, 2))
    from jupyter_gpudask.launcher.cluster_process import ClusterProcess
    from jupyter_gpudask.protocol import ClusterSpec
    mark("launcher imported")
    from jupyter_gpudask.session.background_imports import BackgroundImports
    spec = ClusterSpec.parse(json.loads(os.environ.get("START_OPTIONS", "{}")))
    def first_results():
        import dask
        gpu = cluster_engine == "cuda"
        with dask.config.set({"array.backend": "cupy", "dataframe.backend": "cudf"} if gpu else {}):
            import dask.array as da
            assert float(da.ones((1000, 1000), chunks=500).sum().compute()) == 1e6
            mark("first array computed")
            import dask.dataframe as dd
            frame = dd.from_dict({"a": list(range(100))}, npartitions=2)
            assert int(frame.a.sum().compute()) == 4950
            mark("first dataframe computed")
    async def main():
        imports = BackgroundImports(spec)
        threading.Thread(target=lambda: (imports._thread.join(), mark("kernel prepared")), daemon=True).start()
        def progress(step):
            imports.on_progress(step)
            mark("plan made" if not step.ready else f"worker {step.ready} up")
        cluster = await ClusterProcess.start(spec, on_progress=progress)
        mark("cluster ready")
        await asyncio.to_thread(imports._thread.join)
        from jupyter_gpudask.client.connect import connect
        client = await asyncio.to_thread(connect, cluster.ready)
        mark("client connected")
        if "results" in sys.argv:
            global cluster_engine
            cluster_engine = cluster.ready.engine
            await asyncio.to_thread(first_results)
        parents = set((await asyncio.to_thread(client.run, os.getppid)).values())
        marks["workers forked"] = cluster.pid not in parents
        await asyncio.to_thread(client.close)
        await cluster.close()
    asyncio.run(main())
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    marks["processor seconds"] = round(sum(each.ru_utime + each.ru_stime for each in used), 2)
    print(json.dumps(marks))
"""


def seconds_of_import(name: str) -> float:
    script = f"import time; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)"
    return round(float(subprocess.check_output([sys.executable, "-P", "-c", script], text=True).splitlines()[-1]), 2)


def run(script: str, *arguments: str, **variables: str) -> str:
    file = Path("/tmp/start_benchmark.py")  # noqa: S108 - spawned workers import it again, so it must be a file
    file.write_text(script)
    # Elsewhere than in a checkout, whose folder of the package would be imported instead of what is installed.
    done = subprocess.run(
        [sys.executable, str(file), *arguments],
        text=True,
        capture_output=True,
        check=False,
        cwd=file.parent,
        env={**os.environ, **variables},
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.splitlines()[-1]


def main() -> dict[str, object]:
    facts = header()
    gpus = facts["gpus"]
    run(START)  # fills the caches of the machine
    rounds = [(float(run(BY_HAND)) if gpus else None, json.loads(run(START))) for _ in range(3)]
    return {
        **facts,
        "by_hand": [round(by_hand, 2) for by_hand, _ in rounds if by_hand is not None],
        "ours": [marks for _, marks in rounds],
        "imports": {name: seconds_of_import(name) for name in (IMPORTS if gpus else IMPORTS_OF_CPU)},
    }


def compare(methods: list[str], rounds: int, options: str) -> dict[str, object]:
    """Starts with each way in which Dask starts workers, in turns; medians, and every run with the load before it."""
    facts = header()
    run(START, START_OPTIONS=options)
    runs: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
    for _ in range(rounds):
        for method in methods:
            load = os.getloadavg()[0]
            marks = json.loads(run(START, "results", **{METHOD: method, "START_OPTIONS": options}))
            runs[method].append(marks | {"load": round(load, 2)})
    medians = {
        # Workers that come up at the same moment are one step.
        method: {
            name: round(median(marks[name] for marks in each), 2)
            for name in each[0]
            if all(name in marks for marks in each)
        }
        for method, each in runs.items()
    }
    return {**facts, "options": json.loads(options), "medians": medians, "runs": runs}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--methods", help="ways to start workers, with commas: spawn, forkserver")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--options", default="{}", help='options of the cluster as JSON, such as {"gpus": 1}')
    arguments = parser.parse_args()
    if arguments.methods:
        publish(compare(arguments.methods.split(","), arguments.rounds, arguments.options), arguments.out)
    else:
        publish(main(), arguments.out)
