"""A kernel that joins a cluster which somebody else started, with pretend GPUs: it is used, and left as it was."""

import os
import re

import pytest
from distributed import Client, Event
from helpers import FAKE_GPUS, Kernel, fake_gpu_environment, wait_until
from others import OthersCluster, snapshot
from servers import Server, kernel_of

from jupyter_gpudask.client.connect import connect_joined

pytestmark = pytest.mark.cluster

CELL = "%%gpudask --dataframe pandas"
LIMIT = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A scheduler that cannot import CuPy, and two workers with a GPU each."""
    cluster = OthersCluster(tmp_path_factory.mktemp("others"))
    try:
        for index in "01":
            environment = fake_gpu_environment(cupy=True, CUDA_VISIBLE_DEVICES=index)
            cluster.add_worker(f"gpu-{index}", environment=environment)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def other(cluster):
    """Another user of the cluster."""
    with Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture(scope="module")
def before(other):
    return snapshot(other)


@pytest.fixture(scope="module")
def kernel(before):  # noqa: ARG001 - taken before the kernel connects
    kernel = Kernel(fake_gpu_environment(cupy=True, FAKE_GPUS="2"))
    try:
        kernel.ok("%load_ext jupyter_gpudask\nimport cupy, dask.array as da, distributed, os, time")
        yield kernel
    finally:
        kernel.shutdown()


@pytest.fixture
def joined(kernel, cluster):
    """The kernel, connected; it stays so for the next test unless this one disconnects it."""
    kernel.ok("session = get_ipython().magics_manager.registry['GpuDaskMagics'].session")
    if kernel.ok("session.cluster is None").value == "True":
        reply = kernel.run(f"connected = %gpudask connect {cluster.address}\nconnected")
        is_connected = f"{reply.value}".startswith(f"Connected to 2 GPU workers at {cluster.address}")
        assert is_connected, f"{reply}\n{cluster.logs()}"
    kernel.ok("client = session.cluster.client")
    return kernel


def test_a_cell_computes_on_cupy_without_a_scheduler_that_has_it(joined, other):
    reply = joined.ok(f"{CELL}\nx = da.ones((40, 40), chunks=10)\ntype(x._meta), float(x.sum().compute())")
    assert reply.value == "(cupy.ndarray, 1600.0)"
    assert re.match(r"CuPy and pandas on 2 GPU workers at tcp://127\.0\.0\.1:\d+ · .* · \d+ tasks", reply.displayed[-1])
    assert joined.ok("type(da.ones(3).compute())").value == "numpy.ndarray"
    assert not any(other.run_on_scheduler(lambda: [name for name in __import__("sys").modules if name == "cupy"]))
    # The dashboard is one that a browser may be unable to open.
    assert other.dashboard_link
    assert joined.ok("client.dashboard_link is None").value == "True"
    assert joined.ok("shown = client._repr_html_(); 'GiB' in shown, 'href' in shown").value == "(True, False)"


def test_status_groups_by_host_and_tells_own_tasks_from_those_of_others(joined, other):
    gate = Event("gate", client=other)
    waiting = other.map(lambda n, gate=gate: gate.wait() and n, range(3))
    joined.ok("mine = client.submit(lambda: distributed.Event('gate').wait())")
    try:
        processing = lambda: sum(map(len, other.processing().values()))  # noqa: E731
        wait_until(lambda: processing() == 4)
        shown = joined.ok("state = %gpudask status\nprint(state)").printed
        tasks = r"Tasks: (1 running, 0|0 running, 1) waiting\.\nUnfinished tasks of others: 3\."
        assert re.search(tasks, shown)
        joined.ok(f"{CELL}\nyours = client.submit(len, [mine])")
        later = "later = %gpudask status\nlater.state.tasks_unfinished, later.state.work.tasks"
        assert joined.ok(later).value == "(2, 1)"
        heads, first, second, *_ = shown.splitlines()
        assert heads.split()[:3] == ["host", "worker", "busy"]
        assert first.split()[:5] == ["127.0.0.1", "GPU", "0", "37", "%"]
        assert second.split()[:4] == ["GPU", "1", "37", "%"]  # the host is given once
        counts = "[(worker.executing + worker.waiting, worker.others) for worker in state.state.workers]"
        own, others = zip(*eval(joined.ok(counts).value), strict=True)  # noqa: S307
        assert (sum(own), sum(others)) == (1, 3)
        assert joined.ok("{worker.device_memory_total for worker in state.state.workers}").value == str({140 * 2**30})
    finally:
        gate.set()
    assert other.gather(waiting) == [0, 1, 2]
    joined.ok("yours.result(); del yours")
    gate.clear()


def test_commands_that_need_no_supervisor_work(joined):
    joined.ok("client.run(lambda dask_worker: __import__('logging').getLogger('distributed.worker').error('a mark'))")
    logs = joined.ok("logs = %gpudask logs\nlogs.logs").value
    assert all(f"'{name}'" in logs for name in ("Scheduler", "GPU 0", "GPU 1"))
    assert logs.count("a mark") == 2
    assert "127.0.0.1 GPU 0" in joined.ok("freed = %gpudask free\nfreed.freed").value
    versions = joined.ok("report = %gpudask doctor\n[f for f in report.findings if f.subject == 'versions']").value
    assert "The kernel and 2 workers have the same versions." in versions
    assert joined.ok("again = %gpudask start\nagain.client is client").value == "True"


def test_what_needs_a_cluster_of_ones_own_is_refused(joined, cluster):
    for code, sentence in {
        "%gpudask scale 1": "Its workers are started and stopped there.",
        "%gpudask restart": "It cannot be restarted from here.",
        "%gpudask stop": "It is not stopped from here.",
        "%%gpudask --report out.html\n1": "--report would measure the tasks of all its users.",
        "%%gpudask --profile\n1": "--profile would measure the tasks of all its users.",
        "%gpudask start --gpus 1": "Type in the notebook: %gpudask disconnect",
        "%gpudask connect tcp://127.0.0.1:1": "Type in the notebook: %gpudask disconnect",
    }.items():
        reply = joined.run(code)
        assert reply.error == "UsageError"
        assert cluster.address in reply.error_value
        assert sentence in reply.error_value


def test_an_interrupt_cancels_own_tasks_only_and_restarts_no_worker(joined, other):
    gate = Event("interrupted", client=other)
    shared = other.submit(gate.wait, key="shared")
    wait_until(lambda: sum(map(len, other.processing().values())) == 1)
    pids = other.run(os.getpid)
    joined.ok("from distributed import Future\nsame = Future('shared', client=client)")
    joined.ok("def forever():\n    while True: time.sleep(0.01)")
    message = joined.client.execute(f"{CELL}\nclient.submit(forever).result()")
    wait_until(lambda: sum(map(len, other.processing().values())) == 2)
    joined.interrupt()
    wait_until(lambda: not other.processing() or sum(map(len, other.processing().values())) == 1)
    reply = joined.client.get_shell_msg(timeout=30)
    assert reply["parent_header"]["msg_id"] == message
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    work = joined.ok("get_ipython().magics_manager.registry['GpuDaskMagics'].session.state().work").value
    assert "tasks=1, blocks=1, done=0" in work
    assert shared.status == "pending"
    gate.set()
    assert shared.result(timeout=30) is True
    assert other.run(os.getpid) == pids
    assert joined.ok(f"{CELL}\nfloat(da.ones(4).sum().compute())").value == "4.0"


def test_a_worker_that_is_killed_comes_back_and_what_it_held_is_computed_again(joined, other):
    joined.ok(f"{CELL}\nkept = da.ones((40, 40), chunks=10).persist()\ndistributed.wait(kept)")
    first = next(iter(other.run(os.getpid)))
    with pytest.raises(Exception):  # noqa: B017, PT011 - the worker ends while it is asked
        other.run(os._exit, 1, workers=[first])
    assert joined.ok(f"{CELL}\nfloat(kept.sum().compute())").value == "1600.0"
    other.wait_for_workers(2, timeout=60)


def test_disconnect_leaves_the_cluster_as_it_was_and_others_go_on(joined, other, cluster, before):
    joined.ok(f"{CELL}\nheld = da.ones((4, 4), chunks=2).persist()\ndistributed.wait(held)")
    joined.ok("number = client.submit(abs, -1)\nnumber.result()")
    result = other.submit(sum, (1, 2))
    second = connect_joined(cluster.address, None, 30)
    try:
        during = snapshot(other)
        assert [len([name for name in during[0][0] if "joined" in name])] == [2]
        shown = joined.ok("%gpudask disconnect").value
        assert shown == f"Disconnected from {cluster.address}."
        assert len([name for name in snapshot(other)[0][0] if "joined" in name]) == 1
        assert second.run(lambda dask_worker: "gpudask-patches" in dask_worker.plugins).popitem()[1]
    finally:
        second.close()  # without leaving, as a process that is killed
    result.result()
    result.release()
    del result
    wait_until(lambda: snapshot(other)[0] == before[0])
    after = snapshot(other)[1]
    assert sorted(map(str, after.values())) == sorted(map(str, before[1].values()))
    reply = joined.run("number.result()")
    assert reply.error == "ResultsLostError"
    assert f"This kernel was disconnected from {cluster.address}." in reply.error_value
    again = joined.ok(f"%gpudask connect --scheduler-file {cluster.file}").value
    assert again.startswith(f"Connected to 2 GPU workers at {cluster.address}")


def test_workers_that_cannot_run_a_cell_are_refused_before_the_first_task(joined, other, cluster, tmp_path):
    """One has no jupyter_gpudask, one another CuPy, and one no GPU."""
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text("__version__ = '13.0.0'\nclass ndarray: pass")
    device = {"CUDA_VISIBLE_DEVICES": "0"}
    another = fake_gpu_environment(**device, FAKE_GPU_PACKAGES="")
    another["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{another['PYTHONPATH']}"
    without = fake_gpu_environment(**device) | {"PYTHONPATH": str(FAKE_GPUS.parent / "without_package")}
    no_gpu = fake_gpu_environment(CUDA_VISIBLE_DEVICES="", FAKE_GPU_PACKAGES="")
    for name, environment, sentence in (
        ("another", another, r"The kernel has cupy 14.2.0, and the worker tcp://\S+ has cupy 13.0.0."),
        ("no-gpu", no_gpu, r"A GPU cell needs a GPU on every worker, and the worker tcp://\S+ has none\."),
        ("without", without, r"The worker tcp://\S+ does not respond, or its environment has no"),
    ):
        worker = cluster.add_worker(name, environment=environment)
        try:
            other.wait_for_workers(3, timeout=60)
            pids = other.run(os.getpid)
            tasks = len(other.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks)))
            reply = joined.run(f"{CELL}\nda.ones(3).compute()")
            assert re.search(sentence, reply.error_value)
            assert len(other.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))) == tasks
            if name == "without":
                reply = joined.run("da.ones(30, chunks=1).sum().compute()")
                assert reply.error == "BackendUnavailableError"
                assert re.match(r"The environment of the worker tcp://\S+ has no jupyter_gpudask", reply.error_value)
            else:
                cell = "%%gpudask --array numpy --dataframe pandas\nint(da.ones(3).sum().compute())"
                assert joined.ok(cell).value == "3"
            assert other.run(os.getpid) == pids
            assert other.submit(sum, (1, 2)).result(timeout=30) == 3
        finally:
            worker.terminate()
            wait_until(lambda: len(other.scheduler_info()["workers"]) == 2, 60)
    assert joined.ok("int(da.ones(30, chunks=1).sum().compute())").value == "30"


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path, environment=fake_gpu_environment(cupy=True))
    yield server
    server.stop()


def test_the_panel_shows_a_joined_cluster_and_changes_nothing(server, cluster):
    with kernel_of(server) as kernel:
        connect = f"connected = %gpudask connect {cluster.address}\nconnected.client.wait_for_workers(2, timeout=60)"
        kernel.ok(connect)

        def workers():
            shown = server.cluster(kernel)
            return shown["state"]["workers"] if shown and shown["state"] else []

        wait_until(lambda: len(workers()) == 2 and all(worker["utilization"] for worker in workers()), LIMIT)
        shown = server.cluster(kernel)
        assert (shown["status"], shown["engine"], shown["joined"]) == ("ready", "cuda", cluster.address)
        assert (shown["pid"], shown["gpus"], shown["dashboard"]) == (None, [], f"gpudask/dashboard/{kernel.id}/")
        assert [each["kernel_id"] for each in server.fetch("clusters").body["clusters"]] == [kernel.id]
        assert [(worker["host"], worker["gpu_index"], worker["utilization"]) for worker in workers()] == [
            ("127.0.0.1", 0, 37),
            ("127.0.0.1", 1, 37),
        ]
        mark = "import logging; logging.getLogger('distributed.worker').error('a mark')"
        kernel.ok(f"connected.client.run(lambda: exec({mark!r}))")
        logs = server.fetch(f"clusters/{kernel.id}/logs").body["logs"]
        assert logs.keys() == {"supervisor", "gpu-0", "gpu-1"}
        assert "a mark" in logs["gpu-1"]

        refused = server.fetch("clusters", "POST", {"kernel_id": kernel.id})
        assert (refused.status, refused.body["kind"]) == (409, "ClusterExistsError")
        assert refused.body["message"] == f"This kernel is connected to {cluster.address}."
        # One sentence for the browser, for a request, and for the notebook.
        assert "dashboard" not in shown["limits"]
        for action, body, command in (
            ("stop", None, "%gpudask stop"),
            ("scale", {"workers": 1}, "%gpudask scale 1"),
            ("adapt", {"minimum": 1, "maximum": 2}, "%gpudask adapt 1 2"),
            ("restart", {}, "%gpudask restart"),
            ("keep", {}, "%gpudask keep"),
            ("release", {}, None),
        ):
            sentence = shown["limits"][action]
            assert sentence.startswith(f"This kernel is connected to {cluster.address}, which somebody else started. ")
            path, method = ("", "DELETE") if action == "stop" else (f"/{action}", "POST")
            refused = server.fetch(f"clusters/{kernel.id}{path}", method, body)
            assert (refused.status, refused.body["kind"], refused.body["message"]) == (409, "NotOwnedError", sentence)
            if command is not None:
                assert sentence in kernel.run(command).error_value
        browser = server.socket("stream")
        try:
            wait_until(lambda: f'"{kernel.id}":{{"gpu-0":' in browser.recv(), LIMIT)  # a sample of the history
        finally:
            browser.close()

        kernel.ok("%gpudask disconnect")
        wait_until(lambda: server.cluster(kernel) is None, LIMIT)
        kernel.ok("%gpudask start --cpu 1")
        own = server.cluster(kernel)
        assert (own["joined"], own["engine"]) == ("", "cpu")
        kernel.ok("%gpudask stop")
        kernel.ok(connect)
        wait_until(lambda: server.cluster(kernel), LIMIT)
    wait_until(lambda: server.fetch("clusters").body["clusters"] == [], LIMIT)  # with the kernel


def test_a_scheduler_that_goes_away_in_a_cell_is_one_sentence_and_nothing_takes_its_place(joined, cluster):
    lost = f"The connection to the scheduler at {cluster.address} was lost; the results of this kernel there are lost."
    code = f"import threading\nthreading.Timer(0.5, os.kill, ({cluster.scheduler.pid}, 9)).start()\n"
    reply = joined.run(f"{CELL}\n{code}client.submit(time.sleep, 300).result()", timeout=60)
    assert reply.error == "ResultsLostError"
    assert lost in reply.error_value
    for code in ("%%gpudask\n1", "%gpudask status", "%gpudask restart"):
        reply = joined.run(code)
        assert (reply.error, lost in reply.error_value) == ("UsageError", True)
    reply = joined.run(f"%gpudask connect {cluster.address}")
    assert f"{cluster.address} cannot be reached: " in reply.error_value
