"""What is said of results that are gone with their cluster: one sentence, at the user's line."""

import re

import pytest
from helpers import kernel_with_cupy

pytestmark = pytest.mark.cluster

MAKE = """
x = da.ones(4, chunks=2).persist()
frame = dd.from_pandas(pd.DataFrame({"a": range(4)}), npartitions=2).persist()
future = client.submit(abs, -1, pure=False)
value = dask.delayed(abs)(-2).persist()
wait([x, frame, future, value])
"""
STOPPED = r"The cluster was stopped at \d\d:\d\d; its results are lost\."
KILLED = r"The cluster's main process was killed by SIGKILL; its results are lost\."
START = "%gpudask start, and run the cells again that made the results"


@pytest.fixture
def kernel(with_cluster):
    with_cluster.ok("session = get_ipython().magics_manager.registry['GpuDaskMagics'].session")
    with_cluster.ok("import dask.array as da, dask.dataframe as dd, pandas as pd\nfrom distributed import wait")
    return with_cluster


def assert_one_sentence(reply, pattern, line):
    assert reply.error == "ResultsLostError", (reply.error, reply.error_value)
    assert re.match(pattern, reply.error_value), reply.error_value
    plain = re.sub(r"\x1b\[[\d;]*m", "", reply.traceback)
    assert f"line {line}\n" in plain
    assert not re.search(r"File |hidden", plain), plain


def test_what_the_user_cancelled_is_dasks_own_error_and_ours_is_caught_as_that(kernel):
    reply = kernel.run("future = client.submit(time.sleep, 30)\nfuture.cancel()\nfuture.result()")
    assert reply.error == "FutureCancelledError"
    assert "jupyter_gpudask/" not in re.sub(r"\x1b\[[\d;]*m", "", reply.traceback)
    reply = kernel.ok(
        "from distributed.client import CancelledError\nthreading.Timer(0.7, session.stop).start()\n"
        "try: wait(dask.delayed(time.sleep)(30).persist())\nexcept CancelledError as error: print(error)"
    )
    assert re.match(STOPPED, reply.printed)


def test_a_stop_while_a_cell_waits_is_said(kernel):
    reply = kernel.run("%%gpudask\nthreading.Timer(0.7, session.stop).start()\nclient.submit(time.sleep, 30).result()")
    assert_one_sentence(reply, STOPPED, 3)
    assert START in reply.error_value


def test_a_supervisor_that_is_killed_while_a_cell_waits_is_said_and_the_cell_computes_nowhere_else(kernel):
    kill = f"threading.Timer(0.7, os.kill, ({kernel.supervisor()}, 9)).start()"
    lost = "try: client.submit(time.sleep, 30).result()\nexcept Exception as error: print(type(error).__name__, error)"
    reply = kernel.run(f"%%gpudask\n{kill}\n{lost}\nda.ones(2).sum().compute()")
    assert re.match(f"ResultsLostError {KILLED}", reply.printed)
    assert_one_sentence(reply, KILLED, 5)
    assert START in reply.error_value
    assert kernel.ok("dask.delayed(abs)(-2).compute(), dask.config.get('scheduler', None)").value == "(2, None)"


def test_whatever_a_cell_computes_after_the_end_of_its_cluster_says_so_and_what_was_kept_is_named(kernel):
    kernel.ok(MAKE)
    uses = ["x.sum().compute()", "dask.persist(da.ones(2))", "client.submit(abs, -1)", "client.compute(da.ones(2))"]
    cell = "%%gpudask\nget_ipython().run_line_magic('gpudask', 'stop')\nsaid = []\n"
    for use in uses[1:]:
        cell += f"try: {use}\nexcept Exception as error: said.append(f'{{type(error).__name__}}: {{error}}')\n"
    assert_one_sentence(kernel.run(cell + uses[0]), STOPPED, 10)
    said = kernel.ok("print(*said, sep='\\n')").printed
    assert len(re.findall(f"^ResultsLostError: {STOPPED}", said, re.MULTILINE)) == 3
    assert kernel.ok("dask.delayed(abs)(-2).compute(), dask.config.get('scheduler', None)").value == "(2, None)"
    assert_one_sentence(kernel.run("first = 1\nfuture.result()"), STOPPED, 2)
    kernel.ok("%gpudask start --cpu 1 --threads 2")
    for expression, names in {
        "x.sum().compute()": "x needs",
        "dask.compute(x + 1, frame.a.sum())": "x and frame need",
        "value.compute()": "value needs",
        "(lambda: [inner for inner in [x]])()[0].mean().compute()": "(This|x) needs",
        "session.cluster.client.compute(frame).result()": "frame needs",
    }.items():
        for head in ("first = 1", "%%gpudask"):
            reply = kernel.run(f"{head}\nearlier = 1\n{expression}")
            assert_one_sentence(reply, f"{names} results that are no longer on the workers. {STOPPED}|This needs", 3)
            assert "Run the cells again" in reply.error_value
    assert_one_sentence(kernel.run("first = 1\nfuture.result()"), STOPPED, 2)


def test_a_plain_cell_without_a_cluster_says_what_a_gpu_cell_has_lost():
    with kernel_with_cupy(1) as kernel:
        kernel.ok("%%gpudask\nx = da.ones(4, chunks=2).persist()")
        kernel.ok("%gpudask stop")
        reply = kernel.run("first = 1\nx.sum().compute()")
    assert_one_sentence(reply, f"This needs results that are no longer on the workers. {STOPPED}", 2)


def test_a_cell_may_go_on_with_another_cluster_or_in_the_kernel(kernel):
    again = "get_ipython().run_line_magic('gpudask', 'start --cpu 1 --threads 2')\nclient = session.cluster.client"
    cell = f"session.stop()\nhere = da.ones(2).sum().compute(scheduler='sync')\n{again}"
    cell += "\nhere, dask.delayed(os.getpid)().compute() == os.getpid()"
    assert kernel.ok(f"%%gpudask\n{cell}").value == "(np.float64(2.0), False)"


def test_results_of_another_client_that_still_runs_are_not_called_lost(kernel):
    kernel.ok(
        "from distributed import Client\n"
        "other = Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=':0')\n"
        "theirs = other.persist(da.arange(6, chunks=2))\nwait(theirs)"
    )
    reply = kernel.run("%%gpudask\ntheirs.sum().compute()")
    assert_one_sentence(reply, "theirs needs results that another client has on its own cluster", 2)
    assert kernel.ok("int(other.compute(theirs.sum()).result())").value == "15"
    kernel.ok("other.close()")
