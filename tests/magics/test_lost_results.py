"""What is said of results that are gone with their cluster: one sentence, at the user's line."""

import re

import pytest
from helpers import Kernel, fake_gpu_environment

pytestmark = pytest.mark.cluster

MAKE = """
x = da.ones(4, chunks=2).persist()
frame = dd.from_pandas(pd.DataFrame({"a": range(4)}), npartitions=2).persist()
future = client.submit(abs, -1)
value = dask.delayed(abs)(-2).persist()
wait([x, frame, future, value])
"""
STOPPED = r"The cluster was stopped at \d\d:\d\d; its results are lost\."
START = "%gpudask start, and run the cells again that made the results"


@pytest.fixture(scope="module")
def kernel():
    kernel = Kernel(fake_gpu_environment(FAKE_NVML_ERROR="LIBRARY_NOT_FOUND"))
    kernel.ok("%load_ext jupyter_gpudask\nimport dask, os, time, threading, pandas as pd")
    kernel.ok("session = get_ipython().magics_manager.registry['GpuDaskMagics'].session")
    yield kernel
    kernel.shutdown()


@pytest.fixture
def with_cluster(kernel):
    kernel.ok("started = %gpudask start --cpu 1\nclient = started.client")
    kernel.ok("import dask.array as da, dask.dataframe as dd\nfrom distributed import wait")
    return kernel


def assert_one_sentence(reply, pattern, line):
    assert reply.error == "ResultsLostError", (reply.error, reply.error_value)
    assert re.match(pattern, reply.error_value), reply.error_value
    plain = re.sub(r"\x1b\[[\d;]*m", "", reply.traceback)
    assert f"line {line}\n" in plain
    assert not re.search(r"File |hidden", plain), plain


@pytest.mark.parametrize(
    ("head", "wait"),
    [
        ("first = 1", "wait(dask.delayed(time.sleep)(30).persist())"),
        ("%%gpudask", "client.submit(time.sleep, 30).result()"),
    ],
)
def test_a_stop_while_a_cell_waits_is_said(with_cluster, head, wait):
    reply = with_cluster.run(f"{head}\nthreading.Timer(0.7, session.stop).start()\n{wait}")
    assert_one_sentence(reply, STOPPED, 3)
    assert START in reply.error_value


def test_a_supervisor_that_is_killed_while_a_cell_waits_is_said(with_cluster):
    pid = with_cluster.supervisor()
    reply = with_cluster.run(
        f"threading.Timer(0.7, os.kill, ({pid}, 9)).start()\nclient.submit(time.sleep, 30).result()"
    )
    assert_one_sentence(reply, r"The cluster's main process was killed by SIGKILL; its results are lost\.", 2)


def test_what_was_kept_by_a_cluster_that_is_gone_is_named(with_cluster):
    with_cluster.ok(MAKE)
    with_cluster.ok("%gpudask stop")
    assert_one_sentence(with_cluster.run("first = 1\nfuture.result()"), STOPPED, 2)
    with_cluster.ok("%gpudask start --cpu 1")
    for expression, names in {
        "x.sum().compute()": "x needs",
        "dask.compute(x + 1, frame.a.sum())": "x and frame need",
        "value.compute()": "value needs",
        "(lambda: [inner for inner in [x]])()[0].mean().compute()": "(This|x) needs",
        "session.cluster.client.compute(frame).result()": "frame needs",
    }.items():
        for head in ("first = 1", "%%gpudask"):
            reply = with_cluster.run(f"{head}\nearlier = 1\n{expression}")
            assert_one_sentence(reply, f"{names} results that are no longer on the workers. {STOPPED}|This needs", 3)
            assert "Run the cells again" in reply.error_value
    assert_one_sentence(with_cluster.run("first = 1\nfuture.result()"), STOPPED, 2)


def test_what_the_user_cancelled_is_dasks_own_error_and_ours_is_caught_as_that(with_cluster):
    reply = with_cluster.run("future = client.submit(time.sleep, 30)\nfuture.cancel()\nfuture.result()")
    assert reply.error == "FutureCancelledError"
    assert "jupyter_gpudask/" not in re.sub(r"\x1b\[[\d;]*m", "", reply.traceback)
    reply = with_cluster.ok(
        "from distributed.client import CancelledError\nthreading.Timer(0.7, session.stop).start()\n"
        "try: client.submit(time.sleep, 30, pure=False).result()\nexcept CancelledError as error: print(error)"
    )
    assert re.match(STOPPED, reply.printed)


ENDS = {
    "get_ipython().run_line_magic('gpudask', 'stop')": STOPPED,
    "os.kill(supervisor, 9); time.sleep(1.5)": "The cluster's main process was killed by SIGKILL; its results are lost",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_cell_whose_cluster_has_ended_computes_nowhere_else(with_cluster, end):
    with_cluster.ok(f"kept = da.ones(4, chunks=2).persist()\nsupervisor = {with_cluster.supervisor()}")
    ended = f"%%gpudask\nclient = started.client\n{end}"
    reply = with_cluster.run(f"{ended}\nda.ones(2).sum().compute()")
    assert_one_sentence(reply, ENDS[end], 4)
    assert START in reply.error_value
    assert with_cluster.ok("dask.delayed(abs)(-2).compute(), dask.config.get('scheduler', None)").value == "(2, None)"


@pytest.mark.parametrize(
    "use", ["kept.sum().compute()", "dask.persist(da.ones(2))", "client.submit(abs, -1)", "client.compute(da.ones(2))"]
)
def test_whatever_a_cell_computes_after_the_end_of_its_cluster_says_so(with_cluster, use):
    with_cluster.ok("kept = da.ones(4, chunks=2).persist()")
    reply = with_cluster.run(f"%%gpudask\nsession.stop()\n{use}")
    assert_one_sentence(reply, STOPPED, 3)


def test_a_cell_may_go_on_with_another_cluster_or_in_the_kernel(with_cluster):
    again = "get_ipython().run_line_magic('gpudask', 'start --cpu 1')\nclient = session.cluster.client"
    cell = f"session.stop()\nhere = da.ones(2).sum().compute(scheduler='sync')\n{again}"
    cell += "\nhere, dask.delayed(os.getpid)().compute() == os.getpid()"
    assert with_cluster.ok(f"%%gpudask\n{cell}").value == "(np.float64(2.0), False)"


def test_results_of_another_client_that_still_runs_are_not_called_lost(with_cluster):
    with_cluster.ok(
        "from distributed import Client\n"
        "other = Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=':0')\n"
        "theirs = other.persist(da.arange(6, chunks=2))\nwait(theirs)"
    )
    reply = with_cluster.run("%%gpudask\ntheirs.sum().compute()")
    assert_one_sentence(reply, "theirs needs results that another client has on its own cluster", 2)
    assert with_cluster.ok("int(other.compute(theirs.sum()).result())").value == "15"
    with_cluster.ok("other.close()")
