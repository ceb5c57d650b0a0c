"""Delayed functions, futures and resources, as on Dask's GPU page: in a `%%gpudask` cell they run unchanged."""

import pytest
from helpers import Kernel, fake_gpu_environment

pytestmark = pytest.mark.cluster

CELL = "%%gpudask --dataframe pandas"


@pytest.fixture(scope="module", params=["gpus", "stand-in"])
def kernel(request):
    kernel = Kernel(fake_gpu_environment(cupy=True, FAKE_GPUS="2" if request.param == "gpus" else "0"))
    kernel.ok("%load_ext jupyter_gpudask\nimport dask, threading\nimport dask.array as da, numpy as np")
    kernel.ok("started = %gpudask start --threads 3\nclient = started.client")
    yield kernel
    kernel.shutdown()


def assert_one_sentence(reply, error, sentence):
    assert (reply.error, reply.traceback.count("Traceback"), reply.printed) == (error, 1, "")
    assert sentence in reply.error_value


def test_what_cannot_be_sent_to_the_workers_is_named_in_one_sentence(kernel):
    sentence = "sent to the workers: cannot pickle '_thread.lock' object. Create locks, files and"
    kernel.ok("lock = threading.Lock()")
    for code in (
        "dask.delayed(lambda lock=lock: 1)().compute()",
        "client.submit(lambda lock=lock: 1)",
        "da.ones(4, chunks=2).map_blocks(lambda block, lock=lock: block, dtype=float).compute()",
    ):
        for cell in (f"{CELL}\n{code}", code):
            assert_one_sentence(kernel.run(cell), "PicklingError", sentence)
    assert_one_sentence(kernel.run("client.scatter(lock)"), "PicklingError", "cannot pickle '_thread.lock' object")


@pytest.mark.parametrize(
    ("kind", "made"), [("generator", "(i for i in range(3))"), ("lock", "threading.Lock()")], ids=["generator", "lock"]
)
def test_a_result_that_cannot_be_sent_is_named_in_one_sentence(kernel, kind, made):
    kernel.ok(f"make = lambda: {made}")
    for code in (
        "dask.delayed(make)().compute()",
        "client.gather([client.submit(abs, 1), client.submit(make, pure=False)])",
        "client.run(make)",
    ):
        sentence = f"A result of type {kind} cannot be sent from its worker: cannot pickle"
        for cell in (f"{CELL}\n{code}", code):
            assert_one_sentence(kernel.run(cell), "ResultPicklingError", sentence)
    logs = kernel.ok("%gpudask logs --lines 1000").html[0]
    assert "Failed to serialize: cannot pickle" in logs
    assert "distributed/protocol" not in logs


def test_a_task_that_needs_a_result_that_another_worker_cannot_send_fails_and_the_next_does_not(kernel):
    if kernel.ok("len(client.ncores())").value == "1":
        pytest.skip("there is one worker")
    cell = (
        "client.submit(lambda *made: len(made), *client.map(lambda _: {}, range(6), pure=False), pure=False).result()"
    )
    for _ in range(2):
        assert_one_sentence(kernel.run(cell.format("threading.Lock()")), "ResultPicklingError", "type lock cannot be")
        assert kernel.ok(cell.format("1")).value == "6"


def test_they_give_what_they_give_in_any_cell(kernel):
    for code, value in {
        "dask.delayed(sum)([1, 2, dask.delayed(abs)(-3)]).compute()": "6",
        "client.submit(sum, [1, 2, 3]).result()": "6",
        "sum(client.gather(client.map(abs, [-1, -2]) + [client.submit(abs, -3)]))": "6",
        "type(client.submit(np.ones, 3).result()).__module__": "'numpy'",
        "type(dask.delayed(np.ones)(3).compute()).__module__": "'numpy'",
        "import dask.bag as db\ndb.from_sequence([1, 2, 3], npartitions=2).map(abs).sum().compute()": "6",
        "x = client.scatter(np.arange(4))\nclient.submit(np.sum, x).result().item()": "6",
        "client.compute(client.submit(abs, -3)).result()": "3",
        "f = client.submit(abs, -3)\nclient.gather(client.compute([f, dask.delayed(f), 2]))": "[3, 3, 2]",
        "f = client.submit(lambda: 1 / 0)\ntype(f.exception()).__name__": "'ZeroDivisionError'",
    }.items():
        assert kernel.ok(f"{CELL}\n{code}").value == value
        assert kernel.ok(code).value == value


BUSY = """
def busy(number, most=[0]):
    import threading, time
    import distributed
    worker = distributed.get_worker()
    with worker._gpudask_lock if hasattr(worker, "_gpudask_lock") else threading.Lock():
        worker._gpudask_now = getattr(worker, "_gpudask_now", 0) + 1
        now = worker._gpudask_now
    time.sleep(0.2)
    worker._gpudask_now -= 1
    return now
def prepare(dask_worker):
    import threading
    dask_worker._gpudask_lock, dask_worker._gpudask_now = threading.Lock(), 0
client.run(prepare)
workers = len(client.nthreads())
"""


def test_what_asks_for_a_gpu_runs_one_at_a_time_on_each_and_nothing_else_does(kernel):
    kernel.ok(BUSY)
    count = "range(6 * workers)"
    with_gpu = f"client.map(busy, {count}, resources={{'GPU': 1}}, pure=False)"
    assert kernel.ok(f"{CELL}\nmax(client.gather({with_gpu}))").value == "1"
    assert kernel.ok(f"{CELL}\nmax(client.gather(client.map(busy, {count}, pure=False)))").value == "3"
    kernel.ok(f"tasks = lambda: [dask.delayed(busy, pure=False)(n) for n in {count}]")
    annotated = "with dask.annotate(resources={'GPU': 1}):\n    asking = tasks()"
    cell = f"{annotated}\nmax(dask.compute(*asking, optimize_graph=False))"
    assert kernel.ok(f"{CELL}\n{cell}").value == "1"
