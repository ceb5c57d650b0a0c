"""The main job on real GPUs, from a notebook on a real kernel, with NVML as the witness.

    python benchmarks/main_job.py --out benchmarks/results/NAME.json [--protocol ucx --pool 0.5]

Start, an SVD, a sum of 10^10 normals, a group-by and a merge of 10 million rows, an interrupt, a restart of the
kernel, and stop. After each step NVML says who has a CUDA context: the workers and the kernel, never the supervisor.
At the end nothing may be left. Start, sum and group-by are also run by hand, on a plain LocalCUDACluster, before and
after: the first fills the caches of the machine for both, the second is what the ratio is of.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import psutil
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from report import header, publish

from jupyter_gpudask.machine.gpus import list_gpus

CELLS = {
    "start": """
        %load_ext jupyter_gpudask
        started = %gpudask start {options}
        client = started.client
    """,
    "who": """
        import json, os
        _session = get_ipython().magics_manager.registry["GpuDaskMagics"].session
        _state = _session.state()
        print(json.dumps({{"kernel": os.getpid(), "supervisor": _session.cluster.process.pid,
                          "workers": [worker.pid for worker in _state.workers], "state": _state.model_dump()}}))
    """,
    "svd": """
        %%gpudask
        import dask.array as da
        x = da.random.random((10000, 1000), chunks=(1000, 1000))
        u, s, v = da.linalg.svd(x)
        import cupy, dask
        assert type(u._meta) is type(s._meta) is type(v._meta) is cupy.ndarray
        u1, s1, v1, x1 = dask.compute(u, s, v, x)
        assert type(u1) is type(s1) is type(v1) is type(x1) is cupy.ndarray
        assert float(abs(u1 * s1 @ v1 - x1).max()) < 1e-8
    """,
    "blocks": """
        %%gpudask
        kept = x.persist()
        from distributed import wait
        wait(kept)
        modules = client.run(lambda dask_worker: sorted({{type(value).__module__ for key, value
                             in dask_worker.data.items() if hasattr(value, "shape")}}))
        assert {{name for names in modules.values() for name in names}} == {{"cupy"}}, modules
        del kept
    """,
    "sum": """
        %%gpudask
        import dask.array as da
        x = da.random.normal(size=(100000, 100000), chunks=(10000, 10000))
        total = (x + 1)[::2, ::2].sum()
        assert type(total._meta).__module__ == "cupy"
        total = float(total.compute())
        assert abs(total - 2.5e9) < 6 * 5e4, total
    """,
    "sum_again": """
        %%gpudask
        x = da.random.normal(size=(100000, 100000), chunks=(10000, 10000))
        total = float((x + 1)[::2, ::2].sum().compute())
        assert abs(total - 2.5e9) < 6 * 5e4, total
    """,
    "pandas": """
        import pandas as pd, pathlib
        folder = pathlib.Path("/tmp/main_job")
        left = pd.concat(pd.read_parquet(file) for file in sorted(folder.glob("left-*.parquet")))
        right = pd.read_parquet(folder / "right.parquet")
        rows = len(left)
    """,
    "groupby": """
        %%gpudask
        import cudf, dask.dataframe as dd
        frame = dd.read_parquet(str(folder / "left-*.parquet"))
        means = frame.groupby("key").value.mean().compute()
        assert type(means) is cudf.Series
    """,
    "groupby_again": """
        %%gpudask
        means = dd.read_parquet(str(folder / "left-*.parquet")).groupby("key").value.mean().compute()
    """,
    "check_groupby": """
        expected = left.groupby("key").value.mean()
        pd.testing.assert_series_equal(means.to_pandas().sort_index(), expected, check_index_type=False)
    """,
    "merge": """
        %%gpudask
        other = dd.read_parquet(str(folder / "right.parquet"))
        merged = frame.merge(other, on="key")
        product = float((merged.value * merged.weight).sum().compute())
        length = len(merged)
    """,
    "check_merge": """
        expected = left.merge(right, on="key")
        assert length == len(expected) == rows
        products = expected.value * expected.weight
        assert abs(product - products.sum()) < 1e-6 * abs(products).sum()
    """,
    "backends": """
        import dask.config
        assert dask.config.get("array.backend") == "numpy", dask.config.get("array.backend")
        assert dask.config.get("dataframe.backend") == "pandas", dask.config.get("dataframe.backend")
        import dask.array as da, numpy
        assert type(da.ones(3).compute()) is numpy.ndarray
    """,
    "long": """
        %%gpudask
        import time
        def dawdle(number):
            end = time.time() + 120
            while time.time() < end:
                time.sleep(0.05)
        futures = client.map(dawdle, range(64))
        client.gather(futures)
    """,
    "after_interrupt": """
        %%gpudask
        import dask.array as da
        assert float(da.ones((20000, 20000)).sum().compute()) == 4e8
    """,
    "stop": "%gpudask stop",
}

DATA = Path("/tmp/main_job")  # noqa: S108 - named in the cells

WORK = (
    "svd",
    "blocks",
    "sum",
    "sum_again",
    "pandas",
    "groupby",
    "groupby_again",
    "check_groupby",
    "merge",
    "check_merge",
    "backends",
)

BY_HAND = """
import time, json
if __name__ == "__main__":
    t0 = time.perf_counter()
    from dask_cuda import LocalCUDACluster
    from distributed import Client
    import dask, dask.array as da
    cluster = LocalCUDACluster(dashboard_address="127.0.0.1:0", pre_import="cudf,cupy")
    client = Client(cluster)
    client.wait_for_workers(len(cluster.worker_spec))
    start = time.perf_counter() - t0
    sums = []
    for _ in range(2):
        t0 = time.perf_counter()
        with dask.config.set({"array.backend": "cupy"}):
            x = da.random.normal(size=(100000, 100000), chunks=(10000, 10000))
            total = float((x + 1)[::2, ::2].sum().compute())
        assert abs(total - 2.5e9) < 6 * 5e4, total
        sums.append(time.perf_counter() - t0)
    import sys
    groupbys = []
    for _ in range(2):
        t0 = time.perf_counter()
        with dask.config.set({"dataframe.backend": "cudf"}):
            import dask.dataframe as dd
            frame = dd.read_parquet(sys.argv[1] + "/left-*.parquet")
            frame.groupby("key").value.mean().compute()
        groupbys.append(time.perf_counter() - t0)
    client.close(); cluster.close()
    print(json.dumps({"start": start, "sum": sums[0], "sum_again": sums[1],
                      "groupby": groupbys[0], "groupby_again": groupbys[1]}))
"""


def write_data() -> None:
    """Ten million rows with 100,000 keys in eight files, and a table of the keys."""
    rng, rows = np.random.default_rng(0), 10_000_000
    DATA.mkdir(exist_ok=True)
    left = pd.DataFrame({"key": rng.integers(0, 100_000, rows), "value": rng.normal(size=rows)})
    for number, part in enumerate(np.array_split(np.arange(rows), 8)):
        left.iloc[part].to_parquet(DATA / f"left-{number}.parquet")
    right = pd.DataFrame({"key": np.arange(100_000), "weight": rng.normal(size=100_000)})
    right.to_parquet(DATA / "right.parquet")


def dedent(source: str, options: str) -> str:
    lines = source.format(options=options).strip("\n").splitlines()
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[indent:] for line in lines)


class Notebook:
    """A notebook that is written and executed cell by cell, on a kernel of this interpreter."""

    def __init__(self, options: str) -> None:
        self.options = options
        self.client = NotebookClient(nbformat.v4.new_notebook(), timeout=300, kernel_name="python3")
        self.seconds: dict[str, float] = {}

    async def run(self, name: str) -> str:
        cell = nbformat.v4.new_code_cell(dedent(CELLS[name], self.options))
        self.client.nb.cells.append(cell)
        began = time.perf_counter()
        await self.client.async_execute_cell(cell, len(self.client.nb.cells) - 1)
        self.seconds[name] = round(time.perf_counter() - began, 3)
        return "".join(output.text for output in cell.outputs if output.output_type == "stream")

    async def who(self) -> dict[str, Any]:
        return json.loads(await self.run("who"))


def contexts() -> dict[int, int]:
    """Pids with a CUDA context, and the device memory of each, as NVML tells."""
    held: dict[int, int] = {}
    for gpu in list_gpus():
        for process in gpu.processes:
            held[process.pid] = held.get(process.pid, 0) + (process.memory or 0)
    return held


def memory_used() -> list[int]:
    return [gpu.memory_used or 0 for gpu in list_gpus()]


def session_pids(session: int) -> list[int]:
    """Processes of the supervisor's session."""
    pids = []
    for process in psutil.process_iter(["status"]):
        try:
            if psutil.os.getsid(process.pid) == session and process.info["status"] != psutil.STATUS_ZOMBIE:
                pids.append(process.pid)
        except OSError:
            continue
    return pids


async def seconds_until_gone(session: int, limit: float = 15.0) -> float:
    began = time.perf_counter()
    while session_pids(session) and time.perf_counter() - began < limit:
        await asyncio.sleep(0.05)
    return round(time.perf_counter() - began, 2)


async def main(options: str, *, by_hand: bool) -> dict[str, Any]:
    before = memory_used()
    report: dict[str, Any] = {
        **header(),
        "options": options,
        "memory_before": before,
    }
    write_data()
    if by_hand:
        report["by_hand_cold"] = run_by_hand()
    notebook = Notebook(options)
    async with notebook.client.async_setup_kernel(cwd="/tmp"):  # noqa: S108 - any folder without a package of ours
        await notebook.run("start")
        who = await notebook.who()
        witnesses = {}
        for name in WORK:
            await notebook.run(name)
            held = contexts()
            witnesses[name] = {
                "supervisor": held.get(who["supervisor"], 0),
                "kernel": held.get(who["kernel"], 0),
                "workers": [held.get(pid, 0) for pid in who["workers"]],
            }
        report["contexts"] = witnesses
        report["state"] = (await notebook.who())["state"]
        report["interrupt"] = await interrupt(notebook)
        report["restart"] = await restart(notebook, who["supervisor"])
        who = await notebook.who()
        await notebook.run("stop")
        report["gone_after_stop"] = await seconds_until_gone(who["supervisor"])
        report["contexts_after_stop_besides_kernel"] = [pid for pid in contexts() if pid != who["kernel"]]
    await asyncio.sleep(3)
    report["seconds"] = notebook.seconds
    report["memory_after"] = memory_used()
    report["contexts_after_kernel"] = list(contexts())
    report["processes_left"] = session_pids(who["supervisor"])
    if by_hand:
        report["by_hand"] = run_by_hand()
        report["ratio_of_all"] = round(
            sum(report["by_hand"].values()) / sum(notebook.seconds[name] for name in report["by_hand"]), 2
        )
        report["ratio_by_hand"] = {
            name: round(seconds / notebook.seconds[name], 2) for name, seconds in report["by_hand"].items()
        }
    report["supervisor_has_no_context"] = not any(step["supervisor"] for step in witnesses.values())
    report["nothing_left"] = not report["processes_left"] and not report["contexts_after_kernel"]
    return report


async def interrupt(notebook: Notebook) -> dict[str, Any]:
    """Interrupt a cell of 64 long tasks after two seconds; then the workers must be free, and work."""
    task = asyncio.create_task(notebook.run("long"))
    await asyncio.sleep(2.5)
    began = time.perf_counter()
    await notebook.client.km.interrupt_kernel()
    error = ""
    try:
        await task
    except CellExecutionError as raised:
        error = raised.ename
    stopped = time.perf_counter() - began
    busy = sum(worker["executing"] + worker["waiting"] for worker in (await notebook.who())["state"]["workers"])
    await notebook.run("after_interrupt")
    return {"error": error, "seconds": round(stopped, 2), "tasks_left": busy}


async def restart(notebook: Notebook, supervisor: int) -> dict[str, Any]:
    """Restart the kernel: without a server the cluster goes with it, and a new one starts as the first did."""
    await notebook.client.km.restart_kernel(now=True)
    gone = await seconds_until_gone(supervisor)
    await notebook.client.kc.wait_for_ready(timeout=60)
    first = notebook.seconds["start"]
    await notebook.run("start")
    again, notebook.seconds["start"] = notebook.seconds["start"], first
    await notebook.run("after_interrupt")
    return {"seconds_until_gone": gone, "start": again}


def run_by_hand() -> dict[str, float]:
    script = Path("/tmp/by_hand.py")  # noqa: S108 - spawned workers import it again, so it must be a file
    script.write_text(BY_HAND)
    command = [sys.executable, str(script), str(DATA)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(result.stderr[-3000:])
    return json.loads(result.stdout.splitlines()[-1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-by-hand", action="store_true")
    arguments, rest = parser.parse_known_args()
    result = asyncio.run(main(" ".join(rest), by_hand=not arguments.no_by_hand))
    publish(result, arguments.out)
    sys.exit(0 if result["supervisor_has_no_context"] and result["nothing_left"] else 1)
