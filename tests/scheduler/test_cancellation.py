"""Cancelled tasks are interrupted; no worker is left stuck, whatever its task does."""

import asyncio
import sys
import time

import pytest
from distributed import Semaphore, get_worker
from helpers import wait_until

from jupyter_gpudask.client.cancellation import cancel_unfinished
from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.launcher.cluster_process import ClusterProcess
from jupyter_gpudask.protocol import ClusterSpec

pytestmark = pytest.mark.cluster

LIMIT = 2.0


def at_depth(depth, kind, seconds):
    """Work for so many seconds, so many calls deep, in Python or in compiled code."""
    import time

    if depth:
        return at_depth(depth - 1, kind, seconds)
    end = time.time() + seconds
    if kind == "python":
        while time.time() < end:
            pass
    elif kind == "sleep":
        time.sleep(seconds)
    elif kind == "numpy":
        import numpy as np

        square = np.ones((300, 300))
        while time.time() < end:
            square = square @ square / 300
    elif kind in ("locked", "reported"):
        if kind == "reported":  # the scheduler knows that it executes
            worker = get_worker()
            asyncio.run_coroutine_threadsafe(worker.heartbeat(), worker.loop.asyncio_loop).result()
        sum(range(int(seconds * 1e8)))  # one call that does not release Python's lock
    return kind


class Worker:
    """A cluster of one worker with one thread, and a client of it."""

    def __init__(self, runner, threads=1):
        self.runner = runner
        spec = ClusterSpec(engine="cpu", workers=1, threads=threads)
        self.process = runner.run(ClusterProcess.start(spec, path=sys.path))
        self.client = connect(self.process.ready, set_as_default=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close(1)
        self.runner.run(self.process.close())

    def state(self):
        return self.runner.run(self.process.state())

    def log(self):
        return self.runner.run(self.process.worker_log("0", 10_000))

    def pid(self):
        return self.state().workers[0].pid

    def interrupt(self, submit, after):
        """What is stuck when what `submit` submits is interrupted after some seconds, and how long that takes.

        If `after` is None, it is interrupted when the scheduler knows that it executes.
        """
        self.client.submit(at_depth, 0, "", 0, pure=False).result(timeout=30)  # imports this file
        before = set(self.client.futures)
        futures = submit()
        if after is None:
            wait_until(lambda: self.client.run_on_scheduler(executing), 30)
            after = 0.3
        time.sleep(after)
        began = time.monotonic()
        stuck = cancel_unfinished(self.client, before)
        del futures
        return stuck, time.monotonic() - began

    def works(self, limit=5):
        return self.client.submit(sum, (1, 2), pure=False).result(timeout=limit) == 3


def executing(dask_scheduler):
    return any(worker.executing for worker in dask_scheduler.workers.values())


@pytest.fixture(scope="module")
def worker():
    with asyncio.Runner() as runner, Worker(runner) as worker:
        yield worker


@pytest.mark.parametrize("kind", ["python", "sleep", "numpy"])
@pytest.mark.parametrize("depth", [0, 25, 60, 400])
def test_a_worker_computes_on_after_interrupts_at_any_depth(worker, kind, depth):
    pid = worker.pid()
    for tenth in range(4):
        stuck, seconds = worker.interrupt(
            lambda length=0.2 + tenth / 10: worker.client.submit(at_depth, depth, kind, length, pure=False), 0.1
        )
        assert stuck == []
        assert seconds < LIMIT
        assert worker.works()
    assert worker.pid() == pid
    assert "KeyError" not in worker.log()


def test_a_task_that_ends_while_it_is_interrupted_is_no_trouble(worker):
    def submit():
        return worker.client.map(at_depth, [25] * 40, kind="sleep", seconds=0.004, pure=False)

    for number in range(30):
        stuck, seconds = worker.interrupt(submit, 0.03 + number / 1000)
        assert stuck == []
        assert seconds < LIMIT
    assert worker.works()
    assert "KeyError" not in worker.log()
    assert "Exception in worker" not in worker.log()


def test_a_task_that_was_interrupted_can_be_submitted_again_at_once(worker):
    for _ in range(5):
        future = worker.client.submit(at_depth, 0, "python", 1, key="again")
        before = set(worker.client.futures) - {"again"}
        time.sleep(0.1)
        assert cancel_unfinished(worker.client, before) == []
        del future
    future = worker.client.submit(at_depth, 0, "sleep", 0, key="again")
    assert future.result(timeout=5) == "sleep"


def test_tasks_between_results_of_a_cell_that_nobody_wants_do_not_end_the_connection(worker):
    def submit():
        kept = worker.client.submit(at_depth, 0, "python", 30, pure=False)
        graph = {"between": (str.upper, kept.key), "last": (str.lower, "between")}
        from dask.delayed import Delayed

        graph[kept.key] = kept
        return kept, worker.client.compute(Delayed("last", graph), optimize_graph=False)

    scheduler = worker.client.scheduler
    stuck, _ = worker.interrupt(submit, 0.3)
    assert stuck == []
    assert worker.works()
    assert worker.client.scheduler is scheduler
    assert worker.state().tasks_unfinished == 0


@pytest.mark.parametrize("kind", ["sleep", "locked", "reported"])
def test_a_worker_whose_task_does_not_stop_is_restarted_and_what_it_held_is_computed_again(worker, kind):
    pid = worker.pid()
    kept = worker.client.submit(sum, (3, 4), pure=False)
    [scattered] = worker.client.scatter([b"scattered"], hash=False)
    assert kept.result(timeout=10) == 7
    stuck, seconds = worker.interrupt(
        lambda: worker.client.submit(at_depth, 8, kind, 60, pure=False), None if kind == "reported" else 0.7
    )
    assert seconds < LIMIT
    [what] = stuck
    assert what.name == "0"
    assert what.tasks[0].startswith("at_depth-")
    assert what.outcome == ("restarted" if kind == "sleep" else "silent")
    assert what.recomputed == 1
    assert what.lost == (scattered.key,)
    assert worker.works(limit=30)
    assert kept.result(timeout=10) == 7
    assert worker.pid() != pid
    assert scattered.status != "finished"


def test_a_worker_that_runs_what_is_wanted_is_not_restarted():
    with asyncio.Runner() as runner, Worker(runner, threads=2) as worker:
        wanted = worker.client.submit(at_depth, 0, "sleep", 5, pure=False)
        stuck, _ = worker.interrupt(lambda: worker.client.submit(at_depth, 0, "sleep", 4, pure=False), 0.3)
        assert [what.outcome for what in stuck] == ["busy"]
        assert wanted.result(timeout=10) == "sleep"
        assert worker.works()


@pytest.mark.parametrize("kind", ["python", "sleep"])
def test_a_cluster_that_is_emptied_computes_on_whatever_it_ran(worker, kind):
    for _ in range(2):
        worker.client.submit(at_depth, 400, kind, 60, pure=False)
        time.sleep(0.3)
        began = time.monotonic()
        worker.runner.run(worker.process.reset())
        assert time.monotonic() - began < 4
        assert worker.works(limit=30)
    assert "KeyError" not in worker.log()


def answer_late_once():
    """In the supervisor: the next answer of a worker comes too late."""
    from jupyter_gpudask.scheduler import cancellation as stopping

    original, timeout = stopping._interrupt, stopping.UNRESPONSIVE_TIMEOUT

    async def interrupt(*args):
        stopping._interrupt, stopping.UNRESPONSIVE_TIMEOUT = again, 1.0
        await original(*args)

    async def again(*args):
        stopping._interrupt, stopping.UNRESPONSIVE_TIMEOUT = original, timeout
        return await original(*args)

    stopping._interrupt = interrupt


def test_a_worker_that_answers_late_that_it_is_stuck_is_restarted_too(worker):
    worker.client.run_on_scheduler(answer_late_once)
    worker.client.submit(at_depth, 0, "sleep", 60, pure=False)
    time.sleep(0.3)
    worker.runner.run(worker.process.reset())
    assert worker.works(limit=25)


def test_repeated_resets_leave_no_timers(worker):
    def count():
        import gc

        from distributed.semaphore import SemaphoreExtension
        from tornado.ioloop import PeriodicCallback

        gc.collect()
        objects = gc.get_objects()
        return [sum(isinstance(item, kind) for item in objects) for kind in (SemaphoreExtension, PeriodicCallback)]

    counts = []
    for _ in range(3):
        with Semaphore(2, name="two", scheduler_rpc=worker.client.scheduler, loop=worker.client.loop):
            pass
        worker.runner.run(worker.process.reset())
        counts.append(worker.client.run_on_scheduler(count))
    assert counts[1:] == counts[:-1]
