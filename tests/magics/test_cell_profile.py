"""``%%gpudask --profile``: what each operation of a cell cost, in a real kernel with a real cluster."""

import re

import pytest

pytestmark = pytest.mark.cluster

GPU_CELL = "%%gpudask --dataframe pandas --profile"


@pytest.fixture
def kernel(with_cluster):
    with_cluster.ok("import dask.array as da, dask.dataframe as dd, pandas as pd")
    return with_cluster


def notes(reply):
    (text,) = [text for text in reply.displayed if text.startswith("operation ")]
    return text


def rows(reply):
    """The rows of the profile, by operation, each with its cells by the heads of the columns."""
    head, *lines = notes(reply).splitlines()
    heads = re.split(r"  +", head)
    found = {}
    for line in lines:
        cells = re.split(r"  +", line)
        if len(cells) != len(heads):
            break
        found[cells[0]] = dict(zip(heads, cells, strict=True))
    return found


def plugins(kernel):
    """The plugins of profiles that the scheduler and its workers have."""
    kernel.ok("""
def on_scheduler(dask_scheduler):
    return [name for name in (*dask_scheduler.plugins, *dask_scheduler.worker_plugins) if name == "gpudask-profile"]
def on_worker(dask_worker):
    return [name for name in dask_worker.plugins if name == "gpudask-profile"]
""")
    return kernel.ok("client.run_on_scheduler(on_scheduler) + sum(client.run(on_worker).values(), [])").value


def test_only_a_cell_that_asks_for_it_and_has_tasks_is_profiled(kernel):
    reply = kernel.ok("%%gpudask\nda.ones(40, chunks=4).sum().compute()")
    assert not [text for text in reply.displayed if text.startswith("operation ")]
    assert plugins(kernel) == "[]"
    loaded = "[name for name in __import__('sys').modules if 'gpudask.profiling.recording' in name]"
    assert kernel.ok(loaded).value == "[]"
    assert kernel.ok(f"client.run_on_scheduler(lambda: {loaded})").value == "[]"
    assert kernel.ok(f"sum(client.run(lambda: {loaded}).values(), [])").value == "[]"
    reply = kernel.ok("%%gpudask --profile\n1 + 1")
    assert reply.displayed == ["There is nothing to profile: no task of the cell has finished on the cluster."]


def test_each_operation_has_a_row_also_where_dask_fuses_them(kernel):
    reply = kernel.ok("%%gpudask --profile\nfloat(da.ones((2500, 10), chunks=(1, 10)).sum().compute())")
    assert reply.value == "25000.0"
    assert "sum: " not in notes(reply)
    found = rows(reply)
    assert (found["ones"]["blocks"], found["ones"]["block size"]) == ("2,500", "80 B")
    assert {"sum"} <= found.keys()
    assert 'ones: 2,500 blocks of 80 B; chunks="auto" would make 1, with less work for Dask.' in notes(reply)
    assert "worker 0 busy " in notes(reply)
    (html,) = [html for html in reply.html if "<table" in html]
    assert "chunks=&quot;auto&quot; would make 1" in html


def test_several_computations_futures_delayed_functions_and_frames_are_included(kernel):
    cell = """
from distributed import wait
kept = (da.ones((40, 40), chunks=10) + 1).persist()
wait(kept)
(kept - 1).max().compute()
client.submit(pow, 2, 3).result()
dask.delayed(abs)(-4).compute()
dd.from_pandas(pd.DataFrame({"a": range(8)}), npartitions=2).a.sum().compute()
"""
    found = rows(kernel.ok(f"%%gpudask --profile{cell}None"))
    assert {"ones", "add", "sub", "max", "pow", "abs"} <= found.keys()
    assert found["add"]["blocks"] == "16"
    assert found["pow"]["blocks"] == "1"


def test_after_an_error_the_profile_shows_what_ran(kernel):
    reply = kernel.run("%%gpudask --profile\nclient.submit(pow, 2, 5).result()\n1 / 0")
    assert reply.error == "ZeroDivisionError"
    assert rows(reply)["pow"]["blocks"] == "1"
    failing = (
        "def fail(block): raise ValueError('no block')\nda.ones(4, chunks=1).map_blocks(fail, dtype=float).compute()"
    )
    reply = kernel.run(f"%%gpudask --profile\n{failing}")
    assert (reply.error, reply.error_value) == ("ValueError", "no block")
    plain = re.sub(r"\x1b\[[\d;]*m", "", reply.traceback)
    assert "jupyter_gpudask" not in plain
    assert plugins(kernel) == "[]"


def test_after_an_interrupt_the_profile_shows_what_ran(kernel):
    cell = """
client.submit(pow, 2, 6).result()
def nap(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
running = client.submit(nap, 600)
while not client.processing() or not any(client.processing().values()):
    time.sleep(0.01)
threading.Timer(0.2, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
running.result()
"""
    reply = kernel.run(f"%%gpudask --profile{cell}")
    assert reply.error == "KeyboardInterrupt"
    assert rows(reply)["pow"]["blocks"] == "1"
    assert notes(reply).splitlines()[-1].endswith("the tasks that it cancelled are not in this profile.")
    assert plugins(kernel) == "[]"


def test_on_gpus_time_and_moves_are_those_of_each_gpu(cupy_kernel):
    cupy_kernel.ok("host = da.from_array(np.ones((400, 400)), chunks=100)")
    reply = cupy_kernel.ok(f"{GPU_CELL} --move host\ntype((host + 1).sum(axis=0).compute())")
    assert reply.value == "cupy.ndarray"
    found = rows(reply)
    moved = [row for row in found.values() if row.get("host ↔ GPU", "–") != "–"]
    assert [row["blocks"] for row in moved] == ["16"]
    assert all(row["GPU time"] for row in found.values())
    assert moved[0]["host ↔ GPU"].endswith("1.2 MiB")
    drawn = "da.random.multinomial(9, [0.5, 0.5], size=64, chunks=16)"
    found = rows(cupy_kernel.ok(f"{GPU_CELL}\n{drawn}.sum().compute()"))
    assert found["multinomial"]["host ↔ GPU"].endswith("1.0 KiB")
    assert not any(row["host ↔ GPU"].startswith("–,") for row in found.values())  # a size without a time
    assert "GPU 0 busy " in notes(reply)
    assert "GPU 1 busy " in notes(reply)


def test_workers_are_sorted_whichever_of_them_was_the_first_with_a_task(cupy_kernel):
    cupy_kernel.ok("found = client.scheduler_info()['workers']")
    cupy_kernel.ok("last = max(found, key=lambda each: found[each]['name'])")
    reply = cupy_kernel.ok(f"{GPU_CELL}\nclient.submit(sum, [1, 2], workers=[last]).result()")
    assert re.search(r"GPU 0 busy .* GPU 1 busy ", notes(reply))
