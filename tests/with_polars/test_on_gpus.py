"""Polars in `%%gpudask` cells with cudf-polars: `pytest -m gpu` on a machine with GPUs."""

import importlib.util
import re
import threading
import time

import pytest
from helpers import Kernel

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.machine.gpus import list_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.cluster]


def has_cudf_polars():
    try:
        return bool(list_gpus()) and importlib.util.find_spec("cudf_polars") is not None
    except GpuUnavailableError:
        return False


if not has_cudf_polars():
    pytest.skip("needs a GPU and cudf-polars", allow_module_level=True)

FILES = """
import os, numpy as np, polars as pl, dask.array as da
for number in range(4):
    values = np.random.default_rng(number).integers(0, 2**40, 4_000_000)
    pl.DataFrame({{'a': values, 'k': values % 1000}}).write_parquet('{folder}/%d.parquet' % number)
scan = pl.scan_parquet('{folder}/*.parquet')
"""
COUNT = "scan.select(pl.len()).collect().item()"
LONG = (
    "pl.concat([scan.select((pl.col('a') * i % 1_000_003).unique().len()) for i in range(3, 400)]).collect()",
    "for i in range(1000): scan.join(scan, on='a').group_by('k').agg(pl.col('k_right').sum() + i).collect()",
)
LARGE = """
left = pl.LazyFrame({f'a{n}': pl.int_range(40_000, eager=True) for n in range(12)})
right = pl.LazyFrame({f'b{n}': pl.int_range(40_000, eager=True) for n in range(12)})
left.join(right, how='cross').select(pl.sum_horizontal(pl.all()).sum()).collect()
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A kernel with a cluster on all GPUs, and a query of files."""
    kernel = Kernel()
    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start\nclient = started.client", timeout=120)
    kernel.ok(FILES.format(folder=tmp_path_factory.mktemp("files")), timeout=60)
    kernel.ok(f"%%gpudask\n{COUNT}", timeout=60)
    yield kernel
    kernel.shutdown()


def test_between_queries_the_engine_keeps_nothing_and_free_ends_it(kernel):
    kernel.ok("%%gpudask\nscan.group_by('a').len().select(pl.len()).collect()")
    assert "Polars' engine keeps no device memory." in kernel.ok("held = %gpudask held\nheld").value
    kernel.ok("%gpudask free")
    assert "Polars" not in kernel.ok("held = %gpudask held\nheld").value
    assert kernel.ok(f"%%gpudask\n{COUNT}", timeout=60).value == "16000000"


@pytest.mark.parametrize("query", LONG, ids=["concat", "joins"])
def test_an_interrupt_ends_a_query_and_keeps_the_workers_and_their_results(kernel, query):
    kernel.ok("%%gpudask\nkept = da.ones(10**6, chunks=10**5).persist()\nfrom distributed import wait; wait(kept)")
    pids = kernel.ok("sorted(client.run(os.getpid).values())").value
    for delay in (0.4, 0.8, 1.2):
        threading.Timer(delay, kernel.interrupt).start()
        began = time.monotonic()
        assert kernel.run(f"%%gpudask\n{query}").error == "KeyboardInterrupt"
        assert time.monotonic() - began < delay + 2
        assert kernel.ok(f"%%gpudask\n{COUNT}", timeout=60).value == "16000000"
    assert kernel.ok("sorted(client.run(os.getpid).values())").value == pids
    assert kernel.ok("%%gpudask\nfloat(kept.sum().compute())").value == "1000000.0"


def test_a_query_without_enough_memory_says_what_else_is_in_it_and_the_next_one_works(kernel):
    kernel.ok("%%gpudask\nkept = da.ones(2**20, chunks=2**20).persist()\nfrom distributed import wait; wait(kept)")
    refused = kernel.run(f"%%gpudask\n{LARGE}", timeout=60)
    assert " MiB of results of Dask" in "".join(refused.traceback)
    assert kernel.ok(f"%%gpudask\n{COUNT}", timeout=60).value == "16000000"


def test_while_a_query_runs_the_state_has_its_memory_and_the_peak_afterwards_is_of_one_engine(kernel):
    kernel.ok(
        "session = get_ipython().magics_manager.registry['GpuDaskMagics'].session\nimport threading\nseen = []\n"
        "def look():\n"
        "    while not ended.wait(0.1): seen.append(max(each.pool_used for each in session.state().workers))"
    )
    query = "for _ in range(60): scan.group_by('a').len().select(pl.len()).collect()"
    watching = "ended = threading.Event()\nthreading.Thread(target=look).start()"
    kernel.ok(f"%%gpudask\n{watching}\ntry:\n    {query}\nfinally: ended.set()", timeout=60)
    assert int(kernel.ok("max(seen)").value) > 2**26
    kernel.ok("%gpudask free")
    kernel.ok(f"%%gpudask\n{COUNT}", timeout=60)
    chain = (
        "def chain(dask_worker):\n    names = [name for name in vars(dask_worker) if 'cudf_polars' in name]\n"
        "    return [type(getattr(dask_worker, name).base_mr).__name__ for name in names]\n"
        "{name for names in client.run(chain).values() for name in names}"
    )
    assert kernel.ok(chain).value == "{'StatisticsResourceAdaptor'}"


def test_a_profile_has_the_bytes_that_were_read(kernel):
    profiled = kernel.ok("%%gpudask --profile\nscan.select(pl.col('a').sum()).collect().item()")
    assert any(re.match(r"Queries of Polars: GPU .* read from files", shown) for shown in profiled.displayed)
