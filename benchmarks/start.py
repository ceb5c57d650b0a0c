"""Where the time of `%gpudask start` goes.

    python benchmarks/start.py --out benchmarks/results/NAME.json

Times a start step by step as the kernel sees it, three times over, with and without a supervisor that waits for it,
beside the imports that it waits for, each in a fresh process, and, on a GPU, beside a LocalCUDACluster by hand.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from report import header, publish

IMPORTS = ("distributed", "dask_cuda", "cupy", "cudf", "dask_cudf", "pynvml", "jupyter_gpudask.supervisor.supervisor")

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
import asyncio, json, sys, threading, time
if __name__ == "__main__":
    began = time.perf_counter()
    marks = {}
    mark = lambda name: marks.setdefault(name, round(time.perf_counter() - began, 2))
    from jupyter_gpudask.launcher.cluster_process import ClusterProcess
    from jupyter_gpudask.protocol import ClusterSpec
    mark("launcher imported")
    from jupyter_gpudask.session.background_imports import BackgroundImports
    from jupyter_gpudask.launcher.cluster_process import start_supervisor
    spec = ClusterSpec()
    standby = None
    async def prepare():
        global began, standby
        if "standby" in sys.argv:  # a server with c.GpuDask.standby has done this when the kernel was started
            standby = await start_supervisor(sys.executable, None, "--standby")
            await asyncio.sleep(10)
            began, _ = time.perf_counter(), marks.clear()
        return BackgroundImports(spec)
    async def main():
        imports = await prepare()
        threading.Thread(target=lambda: (imports._thread.join(), mark("kernel prepared")), daemon=True).start()
        def progress(step):
            imports.on_progress(step)
            mark("plan made" if not step.ready else f"worker {step.ready} up")
        cluster = await ClusterProcess.start(spec, standby=standby, on_progress=progress)
        mark("cluster ready")
        await asyncio.to_thread(imports._thread.join)
        from jupyter_gpudask.client.connect import connect
        client = await asyncio.to_thread(connect, cluster.ready)
        mark("client connected")
        await asyncio.to_thread(client.close)
        await cluster.close()
    asyncio.run(main())
    print(json.dumps(marks))
"""


def seconds_of_import(name: str) -> float:
    script = f"import time; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)"
    return round(float(subprocess.check_output([sys.executable, "-P", "-c", script], text=True).splitlines()[-1]), 2)


def run(script: str, *arguments: str) -> str:
    file = Path("/tmp/start_benchmark.py")  # noqa: S108 - spawned workers import it again, so it must be a file
    file.write_text(script)
    # Elsewhere than in a checkout, whose folder of the package would be imported instead of what is installed.
    done = subprocess.run(
        [sys.executable, str(file), *arguments], text=True, capture_output=True, check=False, cwd=file.parent
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.splitlines()[-1]


def main() -> dict[str, object]:
    facts = header()
    gpus = facts["gpus"]
    run(START)  # fills the caches of the machine
    rounds = [
        (float(run(BY_HAND)) if gpus else None, json.loads(run(START)), json.loads(run(START, "standby")))
        for _ in range(3)
    ]
    return {
        **facts,
        "by_hand": [round(by_hand, 2) for by_hand, _, _ in rounds if by_hand is not None],
        "ours": [marks for _, marks, _ in rounds],
        "ours_with_standby": [marks for _, _, marks in rounds],
        "imports": {name: seconds_of_import(name) for name in (IMPORTS if gpus else IMPORTS_OF_CPU)},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    publish(main(), arguments.out)
