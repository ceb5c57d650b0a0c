"""Where the time of `%gpudask start` goes, and what `%load_ext jupyter_gpudask` takes.

    python benchmarks/start.py --out benchmarks/results/NAME.json
    python benchmarks/start.py --methods spawn,forkserver --rounds 6 --out benchmarks/results/NAME.json

Times a start step by step as the kernel sees it, up to the first result of an array and of a dataframe, each in a fresh
process; `speed.py` has the start beside a cluster made by hand. The second line compares the values of Dask's setting
`distributed.worker.multiprocessing-method`, in turns.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import threading
import time
from typing import TYPE_CHECKING, Any

from harness import Process, header, median, parser, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

METHOD = "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"


def load_extension() -> Iterator[float]:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    began = time.perf_counter()
    shell.run_line_magic("load_ext", "jupyter_gpudask")
    yield time.perf_counter() - began


def start(options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The seconds at which the steps of a start were done."""
    yield asyncio.run(_start(options))


async def _start(options: dict[str, Any]) -> dict[str, Any]:
    began, marks = time.perf_counter(), {}

    def mark(name: str) -> None:
        marks.setdefault(name, round(time.perf_counter() - began, 2))

    from jupyter_gpudask.launcher.cluster_process import ClusterProcess
    from jupyter_gpudask.protocol import ClusterSpec

    mark("launcher imported")
    from jupyter_gpudask.session.background_imports import BackgroundImports

    spec = ClusterSpec.parse(options)
    imports = BackgroundImports(spec)
    threading.Thread(target=lambda: (imports._thread.join(), mark("kernel prepared")), daemon=True).start()

    def progress(step: Any) -> None:
        imports.on_progress(step)
        mark(f"worker {step.ready} up" if step.ready else "plan made")

    process = await ClusterProcess.start(spec, on_progress=progress)
    mark("cluster ready")
    await asyncio.to_thread(imports._thread.join)
    from jupyter_gpudask.client.connect import connect

    client = await asyncio.to_thread(connect, process.ready)
    mark("client connected")
    await asyncio.to_thread(_first_results, process.ready.engine, mark)
    parents = set((await asyncio.to_thread(client.run, os.getppid)).values())
    marks["workers forked"] = process.pid not in parents
    await asyncio.to_thread(client.close)
    await process.close()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return marks | {"processor seconds": round(sum(each.ru_utime + each.ru_stime for each in used), 2)}


def _first_results(engine: str, mark: Any) -> None:
    import dask

    with dask.config.set({"array.backend": "cupy", "dataframe.backend": "cudf"} if engine == "cuda" else {}):
        import dask.array as da

        assert float(da.ones((1000, 1000), chunks=500).sum().compute()) == 1e6
        mark("first array computed")
        import dask.dataframe as dd

        assert int(dd.from_dict({"a": list(range(100))}, npartitions=2).a.sum().compute()) == 4950
        mark("first dataframe computed")


def run(function: Any, variables: dict[str, str] | None = None, **arguments: Any) -> Any:
    process = Process(function, variables or {}, **arguments)
    found = next(process)
    if process.end():
        raise RuntimeError(f"{function.__name__} ended with status {process.process.returncode}.")
    return found


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--methods", default="forkserver", help="ways to start workers, with commas: spawn, forkserver")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--options", type=json.loads, default={}, help='of the cluster as JSON, such as {"gpus": 1}')
    arguments = made.parse_args()
    run(start, options=arguments.options)  # fills the caches of the machine
    runs: dict[str, list[Any]] = {method: [] for method in arguments.methods.split(",")}
    for _ in range(arguments.rounds):
        for method, found in runs.items():
            load = round(os.getloadavg()[0], 2)
            found.append(run(start, {METHOD: method}, options=arguments.options) | {"load": load})
    # Workers that come up at the same moment are one step.
    medians = {
        method: {name: median(each[name] for each in all_) for name in all_[0] if all(name in each for each in all_)}
        for method, all_ in runs.items()
    }
    report = {
        "options": arguments.options,
        "medians": medians,
        "runs": runs,
        "load_ext": median(run(load_extension) for _ in range(10)),
    }
    publish(header() | report, arguments.out)


if __name__ == "__main__":
    main()
