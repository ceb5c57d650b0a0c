"""A stand-in for cudf-polars, which cannot run a query without a GPU: its engine runs them in the workers, on the CPU.

It has the interface of cudf-polars 26.10 as far as the package uses it. What it lacks is a choice: Python functions, as
in the real one, and ``ewm_mean``.
"""

import asyncio
import os
import time
from pathlib import Path

import polars as pl
from rapidsmpf.memory.buffer import MemoryType
from rapidsmpf.streaming.core.actor import run_actor_network


def execute_with_cudf(plan, duration_since_start, *, config):  # noqa: ARG001 - as the real one
    found = []

    def visit(node):
        plan.set_node(node)
        try:
            current = plan.view_current_node()
            for each in getattr(current, "expr", None) or []:
                plan.view_expression(each.node)
        except NotImplementedError as error:
            found.append(error)
        for below in plan.get_inputs():
            visit(below)

    if "plan" in config.running[-1].collect_schema().names():
        time.sleep(20)
    root = plan.get_node()
    visit(root)
    plan.set_node(root)
    if found:
        error = NotImplementedError(f"Query execution with GPU not possible: unsupported operations.\n{found}", found)
        if config.config["raise_on_fail"]:
            raise error
        return
    lf = config.running.pop()
    plan.set_udf(lambda *_: config.evaluate(lf))


async def compute_chunks():
    for _ in range(100):
        await asyncio.to_thread(time.sleep, 0.2)


async def end_slowly():
    try:
        await asyncio.sleep(20)
    finally:
        await asyncio.sleep(5)


async def run_out_of_memory():
    raise RuntimeError("CUDA error at: cuda_async_view_memory_resource.cpp:43: cudaErrorMemoryAllocation out of memory")


def evaluate(serialized, uid, dask_worker=None):
    """What each rank computes: the whole query, of which the first one gives the answer."""
    import io

    context = getattr(dask_worker, f"_cudf_polars_mp_context_{uid}")
    rank = context.rank
    context.statistics.add_stat("shuffle-payload-send", 2**20)
    context.statistics.add_stat("copy-device-to-pinned_host-bytes", 2**21)
    lf = pl.LazyFrame.deserialize(io.BytesIO(serialized))
    columns = lf.collect_schema().names()
    if "slowly" in columns:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            time.sleep(0.01)
    memory = context.ctx.memory(MemoryType.DEVICE)
    actors = {
        "chunks": [compute_chunks, compute_chunks],
        "memory": [memory.reserve_or_wait] * 5,
        "lingers": [compute_chunks, end_slowly],
        "grouped": [compute_chunks, run_out_of_memory],
    }
    for name in actors.keys() & columns:
        run_actor_network([actor() for actor in actors[name]])
    if "large" in columns:
        raise MemoryError("std::bad_alloc: out_of_memory: CUDA error at: mm.hpp:171: cudaErrorMemoryAllocation")
    if "locked" in columns:
        sum(range(10**9))  # one call that holds the GIL
    if "stuck" in columns:
        time.sleep(20)
    if "killed" in columns and rank == 0 and not Path(os.environ["FAKE_KILLED"]).exists():
        Path(os.environ["FAKE_KILLED"]).touch()
        os._exit(1)
    frame = lf.with_columns(pid=pl.lit(os.getpid())).collect() if "pid" in columns else lf.collect()
    return rank, frame if rank == 0 else frame.clear()
