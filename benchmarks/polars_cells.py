"""Polars in `%%gpudask` cells on GPUs: what a cell shows, ports, memory, and interrupts.

    python benchmarks/polars_cells.py [--only missing,costs] [--interrupts 100] [--start "--gpus 2"]

Prints a line for each observation; nothing is asserted, and a part that fails does not stop the others. ``ROWS`` of the
environment is the number of rows in each of 8 files.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import io
import json
import os
import random
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
import traceback
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import header

if TYPE_CHECKING:
    from collections.abc import Iterator

_DATA = Path(tempfile.gettempdir()) / "polars-cells"
_ROWS, _FILES = int(os.environ.get("ROWS", "20000000")), 8
_LATE, _INTERVAL = 0.5, 0.5
_LONG = {
    "groupby": "for i in range(1000): scan.group_by('a').agg(pl.col('k').sum() + i).select(pl.len()).collect()",
    "join": """
for i in range(1000):
    part = scan.filter(pl.col('a') % 3 != i % 3)
    part.join(scan, on='a').group_by('k').agg(pl.col('k_right').sum()).collect()
""",
    "sort": """
for i in range(1000):
    scan.with_columns(b=(pl.col('a') * 7 + i) % 1_000_003).sort('b', 'a').head(1000).collect()
""",
    "concat": "pl.concat([scan.select((pl.col('a') * i % 1_000_003).unique().len()) for i in range(3, 400)]).collect()",
    "sink": "for i in range(1000): scan.sort('a').sink_parquet(f'{data}.sunk{i}')",
}


@contextmanager
def part(name: str) -> Iterator[None]:
    print(f"== {name}", flush=True)
    began = time.perf_counter()
    try:
        yield
    except BaseException:  # noqa: BLE001
        traceback.print_exc(limit=-6)
    print(f"   ({time.perf_counter() - began:.1f} s)", flush=True)


def listening(_: Any = None) -> list[str]:
    """The sockets on which this process listens."""
    import psutil

    connections = psutil.Process().net_connections("inet")
    return [f"{each.laddr.ip}:{each.laddr.port}" for each in connections if each.status == "LISTEN"]


def reachable(_: Any = None) -> list[str]:
    """Those of the sockets that accept a connection, tried in this process."""
    addresses = [address.rpartition(":") for address in listening()]
    found = []
    for host, _, port in addresses:
        try:
            socket.create_connection((host, int(port)), timeout=0.5).close()  # 0.0.0.0 is this machine
            found.append(f"{host}:{port}")
        except OSError:
            pass
    return found


def allocators() -> list[str]:
    """The allocators of this process, from the outermost inwards."""
    import rmm

    resource, names = rmm.mr.get_current_device_resource(), []
    while resource is not None:
        names.append(type(resource).__name__)
        resource = getattr(resource, "upstream_mr", None)
    return names


def used_memory() -> str:
    """The memory of this process's GPU that is in use."""
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    return f"{(total - free) / 2**30:.2f} GiB"


def metric_times(dask_worker: Any) -> list[float]:
    """Milliseconds to read the energy, as in cells of a second and more, and the peak."""
    from jupyter_gpudask.worker.memory import read_energy, take_peak

    times = []
    for read in (lambda: read_energy(str(dask_worker.name)), take_peak):
        began = time.perf_counter()
        for _ in range(10):
            read()
        times.append(round((time.perf_counter() - began) * 100, 2))
    return times


def stacks(dask_worker: Any) -> list[str]:
    """The unmet requests for memory, and the innermost frames of each thread that runs Polars' engine."""
    from rapidsmpf.memory.buffer import MemoryType

    names = {thread.ident: thread.name for thread in threading.enumerate()}
    contexts = [each.ctx for name, each in vars(dask_worker).items() if name.startswith("_cudf_polars_mp_context_")]
    shown = [f"{context.memory(MemoryType.DEVICE).size()} requests" for context in contexts if context is not None]
    for ident, frame in sys._current_frames().items():
        name = names.get(ident, "?")
        if any(each in name for each in ("polars", "rapidsmpf", "dask-executor", "?")):
            calls = [f"{each.name}:{each.lineno}" for each in traceback.extract_stack(frame)[-6:]]
            loops = [
                each.f_locals["self"] for each, _ in traceback.walk_stack(frame) if each.f_code.co_name == "run_forever"
            ]
            ready = [f"{len(loop._ready)} ready, {len(asyncio.all_tasks(loop))} tasks" for loop in loops]
            shown.append(" ".join([f"{name}: {' > '.join(calls)}", *ready]))
    return shown


class Notebook:
    """A shell with a cluster, whose errors are lines."""

    def __init__(self, start: str) -> None:
        from IPython.core.interactiveshell import InteractiveShell

        self.shell = InteractiveShell.instance()
        self.shell._showtraceback = lambda kind, error, _: print(f"   {kind.__name__}: {error}"[:300], flush=True)
        self.shell.run_line_magic("load_ext", "jupyter_gpudask")
        self.shell.run_cell(f"import polars as pl\nstarted = %gpudask start {start}\nclient = started.client")

    def cell(self, code: str) -> Any:
        began = time.perf_counter()
        result = self.shell.run_cell(code)
        print(f"   -> {time.perf_counter() - began:.2f} s", flush=True)
        return result

    def on_workers(self, function: Any) -> list[Any]:
        return list(self.shell.user_ns["client"].run(function).values())

    def memory(self) -> None:
        print("   allocators", *self.on_workers(allocators)[0], "memory", self.on_workers(used_memory), flush=True)


def try_missing(notebook: Notebook) -> None:
    frame = "pl.LazyFrame({'a': [1, 2, 3]}).select"
    function = "pl.col('a').map_elements(lambda x: x + 1, return_dtype=pl.Int64)"
    notebook.cell(f"%%gpudask\n{frame}({function}).collect()['a'].to_list()")
    notebook.cell(f"%%gpudask\n{frame}(pl.col('a').ewm_mean(com=1)).collect()['a'].to_list()")
    notebook.cell(f"%%gpudask --strict\n{frame}(pl.col('a').ewm_mean(com=1)).collect()")
    notebook.cell("%gpudask fallbacks")


def write_files(notebook: Notebook) -> None:
    import numpy as np
    import polars as pl

    _DATA.mkdir(exist_ok=True)
    for number in range(_FILES):
        values = np.random.default_rng(number).integers(0, 2**40, _ROWS)
        pl.DataFrame({"a": values, "k": values % 1000}).write_parquet(_DATA / f"{number}.parquet")
    notebook.shell.user_ns["data"] = str(_DATA)
    notebook.shell.user_ns["scan"] = pl.scan_parquet(f"{_DATA}/*.parquet")


def try_files(notebook: Notebook) -> None:
    """Files, `collect_all`, sinks, and Dask beside them."""
    notebook.cell("%%gpudask\nscan.group_by('k').agg(pl.len()).sort('k').collect().sum().row(0)")
    notebook.cell(
        "%%gpudask\n[f.item() for f in pl.collect_all([scan.select(pl.col('a').max()), scan.select(pl.len())])]"
    )
    notebook.cell("%%gpudask\nscan.filter(pl.col('k') < 2).sink_parquet(f'{data}.out.parquet')")
    count = "pl.scan_parquet(f'{data}.out.parquet').select(pl.len()).collect().item()"
    notebook.cell(f"import os; os.path.isdir(f'{{data}}.out.parquet'), {count}")
    notebook.cell("%%gpudask\nimport dask.array as da\nfloat(da.ones((20_000, 20_000), chunks=5_000).sum().compute())")
    notebook.cell("%%gpudask\nscan.select(pl.col('a').max()).collect().item(), float(da.ones(10**8).mean().compute())")
    notebook.memory()
    notebook.cell("%gpudask free")
    notebook.memory()


def try_interrupts(notebook: Notebook, number: int, end: float) -> dict[str, Any]:
    """Interrupt queries until the time `end`; the seconds to their ends and of the next queries."""
    notebook.cell("%%gpudask\nimport dask.array as da\nkept = da.ones(10**7, chunks=10**7).persist()")
    pids = notebook.on_workers(os.getpid)
    tries: list[dict[str, Any]] = []
    for turn in range(2 * number):
        if len(tries) == number or time.monotonic() > end:
            break
        shape = list(_LONG)[turn % len(_LONG)]
        try:
            tried = _interrupt(notebook, _LONG[shape])
        except RuntimeError as error:
            print("  ", shape, error, flush=True)
            continue
        finally:
            for sunk in _DATA.parent.glob(f"{_DATA.name}.sunk*"):
                shutil.rmtree(sunk) if sunk.is_dir() else sunk.unlink()
        now, late = notebook.on_workers(os.getpid), tried.pop("late")
        restarted, pids = now != pids, now
        tries.append({"query": shape, **tried, "restarted": restarted, "memory": notebook.on_workers(used_memory)})
        if restarted or tried["end"] > 2 or tried["next"] > 1 or not tried["right"]:
            print("  ", tries[-1], *late, sep="\n      ", flush=True)
    notebook.cell("%%gpudask\nfloat(kept.sum().compute())")
    summary = {"all": _summary(tries)} | {
        shape: _summary([each for each in tries if each["query"] == shape]) for shape in _LONG
    }
    for shape, found in summary.items():
        print("  ", shape, found, flush=True)
    return {**summary, "each": tries}


def _summary(tries: list[dict[str, Any]]) -> dict[str, Any]:
    """Of interrupted queries: how many ended so, and the median, the 90th percentile and the maximum of the seconds."""
    found: dict[str, Any] = {"tries": len(tries)}
    found["interrupted"] = sum(each["error"] == "KeyboardInterrupt" for each in tries)
    found["next right"] = sum(each["right"] for each in tries)
    found["restarts"] = sum(each["restarted"] for each in tries)
    for name in ("end", "next"):
        seconds = sorted(each[name] for each in tries) or [0.0]
        found[name] = [statistics.median(seconds), seconds[len(seconds) * 9 // 10], seconds[-1]]
    return found


def _interrupt(notebook: Notebook, query: str) -> dict[str, Any]:
    delay = random.uniform(0.05, 0.75)
    sent: list[float] = []
    late: list[str] = []
    ended = threading.Event()

    def interrupt() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
        wait = _LATE
        while not ended.wait(wait):
            wait = _INTERVAL
            with suppress(Exception):  # the worker has ended
                late.extend([f"after {time.perf_counter() - sent[0]:.1f} s", *notebook.on_workers(stacks)[0]])

    timer = threading.Timer(delay, interrupt)
    timer.start()
    with redirect_stdout(io.StringIO()):
        result = notebook.shell.run_cell(f"%%gpudask\n{query}")
        end = time.perf_counter()
        after = notebook.shell.run_cell("%%gpudask\nscan.select(pl.len()).collect().item()")
    following = time.perf_counter() - end
    ended.set()
    if not sent:
        timer.cancel()
        raise RuntimeError(f"the query has ended: {result.error_in_exec!r}")
    timer.join()
    return {
        "delay": round(delay, 2),
        "error": type(result.error_in_exec).__name__,
        "end": round(end - sent[0], 2),
        "next": round(following, 2),
        "right": after.result == _ROWS * _FILES,
        "late": late,
    }


def try_costs(notebook: Notebook) -> None:
    """Milliseconds of a query in a cell, by the same engine without a cell, and in the parts of a cell."""
    import polars as pl

    from jupyter_gpudask.client import calls
    from jupyter_gpudask.magics.cell_footer import Footer
    from jupyter_gpudask.polars.cluster_engine import ClusterClient, engines
    from jupyter_gpudask.session.session import Session

    seconds: dict[str, list[float]] = {}
    parts = [(Footer, "__enter__"), (Footer, "__exit__"), (Session, "state"), (calls, "start_cell_metrics")]
    for owner, name in [*parts, (ClusterClient, "check"), (ClusterClient, "run")]:
        function = getattr(owner, name)

        @functools.wraps(function)
        def timed(*args: Any, function: Any = function, name: str = name, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                seconds.setdefault(name, []).append(time.perf_counter() - began)

        setattr(owner, name, timed)
    print("   milliseconds of the metrics of a cell in each worker", notebook.on_workers(metric_times), flush=True)
    notebook.cell("%%gpudask\nscan.select(pl.col('k').max()).collect().item()")
    engine = engines._engines[notebook.shell.user_ns["client"]]
    for query in ("pl.LazyFrame({'a': [1]}).select(pl.col('a') + 1)", "scan.select(pl.col('k').max())"):
        lf, repeat = eval(query, {"pl": pl, **notebook.shell.user_ns}), 20  # noqa: S307
        times = []
        for run in (
            lambda query=query: notebook.shell.run_cell(f"%%gpudask\nx = {query}.collect()"),
            lambda lf=lf: lf.collect(engine=engine),
        ):
            with redirect_stdout(io.StringIO()):
                run()
                seconds.clear()
                began = time.perf_counter()
                for _ in range(repeat):
                    run()
            times.append((time.perf_counter() - began) / repeat * 1000)
            if len(times) == 1:
                shown = {name: round(sum(each) / repeat * 1000, 2) for name, each in seconds.items()}
        print(f"   cell {times[0]:.1f} ms, engine {times[1]:.1f} ms, parts {shown}", flush=True)


def try_kill(notebook: Notebook) -> None:
    """Kill the first worker in a query that takes longer; the cell says so, if the query had not ended by then."""
    notebook.cell("%%gpudask\nscan.select(pl.col('k').max()).collect().item()")
    timer = threading.Timer(0.5, os.kill, (notebook.on_workers(os.getpid)[0], signal.SIGKILL))
    timer.start()
    notebook.cell(f"%%gpudask\n{_LONG['concat']}")
    if timer.is_alive():
        timer.cancel()
        print("   ended before the worker was killed", flush=True)


def try_conversions(notebook: Notebook) -> None:
    """Seconds of 10**7 rows from Polars to Dask and back, by way of the kernel and of files."""
    notebook.cell("%%gpudask\nimport dask.dataframe as dd\ndf = scan.head(10**7).collect()")
    notebook.cell("%%gpudask\nddf = dd.from_pandas(df.to_pandas(), npartitions=4).persist()\nlen(ddf)")
    notebook.cell("%%gpudask\npl.from_pandas(ddf.compute()).height")
    notebook.cell(
        "%%gpudask\nscan.head(10**7).sink_parquet(f'{data}.moved.parquet')\n"
        "ddf = dd.read_parquet(f'{data}.moved.parquet').persist()\nlen(ddf)"
    )


def try_memory(notebook: Notebook) -> None:
    """What a query leaves on the GPUs, and that ``free`` releases it."""
    notebook.cell("%%gpudask\nscan.group_by('a').len().select(pl.len()).collect().item()")
    notebook.memory()
    for command in ("held", "free", "held"):
        notebook.cell(f"shown = %gpudask {command}\nprint(shown)")
    notebook.memory()


def try_profile(notebook: Notebook) -> None:
    notebook.cell(
        "%%gpudask --profile\nscan.join(scan.filter(pl.col('k') < 500), on='a').select(pl.len()).collect().item()"
    )


def try_card(notebook: Notebook) -> None:
    """In how many workers the state says that a query runs, twice a second."""
    session, seen = notebook.shell.magics_manager.registry["GpuDaskMagics"].session, []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.5):
            seen.append(sum(worker.polars for worker in session.state().workers))

    looking = threading.Thread(target=look)
    looking.start()
    notebook.cell("%%gpudask\nfor _ in range(5): scan.group_by('a').len().select(pl.len()).collect()")
    ended.set()
    looking.join()
    print("   workers with a query", seen, flush=True)


def try_first_query(notebook: Notebook) -> float:
    """The seconds from the start of this process to the first answer."""
    import psutil

    query = "pl.LazyFrame({'a': [1, 2, 3], 'b': [1, 1, 2]}).group_by('b').agg(pl.col('a').sum()).sort('b').collect()"
    notebook.cell(f"%%gpudask\n{query}.rows()")
    seconds = round(time.time() - psutil.Process().create_time(), 2)
    print(f"   {seconds} s from nothing", flush=True)
    notebook.cell(f"%%gpudask\n{query}.rows()")
    notebook.memory()
    print("   sockets with the engine, and of the kernel", notebook.on_workers(listening), listening())
    print("   those that accept a connection", notebook.on_workers(reachable), flush=True)
    return seconds


def try_restart(notebook: Notebook) -> None:
    notebook.cell("%gpudask restart")
    notebook.cell("%%gpudask\nscan.select(pl.col('k').max()).collect().item()")
    notebook.cell("%gpudask stop")
    print("  ", listening(), flush=True)


PARTS = {
    "missing": try_missing,
    "files": try_files,
    "profile": try_profile,
    "card": try_card,
    "memory": try_memory,
    "conversions": try_conversions,
    "costs": try_costs,
    "kill": try_kill,
    "restart": try_restart,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interrupts", type=int, default=0)
    parser.add_argument(
        "--seconds", type=float, default=200, help="after which, since the start, no query is interrupted any more"
    )
    parser.add_argument("--start", default="", help="options of %%gpudask start")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help="parts")
    parser.add_argument("--out", type=Path, help="file for what the interrupts gave")
    options = parser.parse_args()
    began = time.monotonic()
    result: dict[str, Any] = header()
    with part("start"):
        notebook = Notebook(options.start)
    with part("the first query, and the same again"):
        result["first query"] = try_first_query(notebook)
    write_files(notebook)
    for name, function in PARTS.items():
        if name in options.only:
            with part(name):
                function(notebook)
        if name == "costs" and options.interrupts:
            with part("interrupts"):
                result["interrupts"] = try_interrupts(notebook, options.interrupts, began + options.seconds)
    if options.out:
        options.out.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
