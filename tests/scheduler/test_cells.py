"""Cancelled tasks are interrupted; no worker is left stuck, whatever its task does."""

import asyncio
import time
from pathlib import Path
from unittest import mock

import pytest
from helpers import RunningCluster, wait_until

from jupyter_gpudask.client import calls
from jupyter_gpudask.client.calls import announce_cancellation, cancel_unfinished

pytestmark = pytest.mark.cluster

PATIENCE = 50.0
"""Seconds within which a busy machine responds, and shorter than the tasks that are interrupted."""


def at_depth(depth, kind, seconds, started=None, go=None):
    """Work for so many seconds, so many calls deep, in Python or in compiled code.

    It waits until there is the file `go`, and then makes the file `started`.
    """
    import time
    from pathlib import Path

    if depth:
        return at_depth(depth - 1, kind, seconds, started, go)
    while go is not None and not Path(go).exists():
        time.sleep(0.02)
    if started is not None:
        Path(started).touch()
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
        sum(range(int(seconds * 1e8)))  # one call that does not release Python's lock
    return kind


class Worker(RunningCluster):
    """A cluster of one worker, by default with one thread, and a client of it."""

    def __init__(self, threads=1):
        super().__init__({"engine": "cpu", "workers": 1, "threads": threads})

    def log(self):
        return self.run(self.process.worker_log("0", 10_000))

    def pid(self):
        return self.state().workers[0].pid

    def interrupt(self, submit, after=0.0, limit=PATIENCE):
        """What is stuck when what `submit` submits is interrupted after some seconds.

        Tasks have `limit` seconds to stop. The client waits for the scheduler's response however long it takes.
        """
        self.client.submit(at_depth, 0, "", 0, pure=False).result(timeout=PATIENCE)  # imports this file
        before = set(self.client.futures)
        futures = submit()
        time.sleep(after)
        with mock.patch.multiple(calls, _STOP_TIMEOUT=limit, _RESPONSE_TIMEOUT=2 * PATIENCE):
            stuck = cancel_unfinished(self.client, before)
        del futures
        return stuck

    def works(self):
        return self.client.submit(sum, (1, 2), pure=False).result(timeout=PATIENCE) == 3


def set_response_margin(seconds):
    """In the supervisor: how much longer than the limit a response of a worker may take."""
    from jupyter_gpudask.scheduler import cells

    cells._RESPONSE_MARGIN = seconds


def executing(dask_scheduler):
    return any(worker.executing for worker in dask_scheduler.workers.values())


def is_silent(dask_scheduler):
    """Whether no heartbeat came for several times the interval."""
    import time

    return all(time.time() - worker.last_seen > 2 for worker in dask_scheduler.workers.values())


@pytest.fixture(scope="module")
def module_worker():
    with Worker() as worker:
        yield worker


@pytest.fixture
def worker(module_worker):
    """A worker whose supervisor waits for its responses: one on a busy machine is not taken for unresponsive."""
    module_worker.client.run_on_scheduler(set_response_margin, PATIENCE)
    return module_worker


@pytest.mark.parametrize(
    ("kind", "depth"),
    [*(("python", depth) for depth in (0, 25, 60, 400)), *(("sleep", depth) for depth in (0, 400)), ("numpy", 25)],
)
def test_a_worker_computes_on_after_interrupts_at_any_depth(worker, kind, depth):
    pid = worker.pid()
    for tenth in range(3):
        stuck = worker.interrupt(
            lambda length=0.2 + tenth / 10: worker.client.submit(at_depth, depth, kind, length, pure=False), 0.1
        )
        assert stuck == []
        assert worker.works()
    assert worker.pid() == pid
    assert "KeyError" not in worker.log()


def test_a_task_that_ends_while_it_is_interrupted_is_no_trouble(worker):
    def submit():
        return worker.client.map(at_depth, [25] * 40, kind="sleep", seconds=0.004, pure=False)

    for number in range(0, 30, 5):
        assert worker.interrupt(submit, 0.03 + number / 1000) == []
    assert worker.works()
    assert "KeyError" not in worker.log()
    assert "Exception in worker" not in worker.log()


def test_a_task_that_was_interrupted_can_be_submitted_again_at_once(worker):
    for _ in range(3):
        assert worker.interrupt(lambda: worker.client.submit(at_depth, 0, "python", 1, key="again"), 0.1) == []
    future = worker.client.submit(at_depth, 0, "sleep", 0, key="again")
    assert future.result(timeout=PATIENCE) == "sleep"


@pytest.mark.parametrize(
    "kind", ["reported", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("sleep", "locked"))]
)
def test_a_worker_whose_task_does_not_stop_is_restarted_and_what_it_held_is_computed_again(worker, kind, tmp_path):
    pid = worker.pid()
    kept = worker.client.submit(sum, (3, 4), pure=False)
    [scattered] = worker.client.scatter([b"scattered"], hash=False)
    assert kept.result(timeout=PATIENCE) == 7
    started, go = tmp_path / "started", tmp_path / "go"

    def submit():
        future = worker.client.submit(at_depth, 8, kind, 2 * PATIENCE, str(started), str(go), pure=False)
        if kind == "reported":  # the scheduler knows that it executes
            wait_until(lambda: worker.client.run_on_scheduler(executing), PATIENCE)
        go.touch()
        wait_until(started.exists, PATIENCE)
        if kind != "sleep":
            wait_until(lambda: worker.client.run_on_scheduler(is_silent), PATIENCE)
            worker.client.run_on_scheduler(set_response_margin, 0.2)
        return future

    [what] = worker.interrupt(submit, limit=1.2)
    assert what.name == "0"
    assert what.tasks[0].startswith("at_depth-")
    assert what.outcome == ("restarted" if kind == "sleep" else "silent")
    assert what.recomputed == 1
    assert what.lost == (scattered.key,)
    assert worker.works()
    assert kept.result(timeout=PATIENCE) == 7
    assert worker.pid() != pid
    assert scattered.status != "finished"


def test_a_worker_that_runs_what_is_wanted_is_not_restarted(tmp_path):
    started, go, wanted_started = (str(tmp_path / name) for name in ("started", "go", "wanted"))
    with Worker(threads=2) as worker:
        worker.client.run_on_scheduler(set_response_margin, PATIENCE)
        pid = worker.pid()
        wanted = worker.client.submit(at_depth, 0, "python", 0, wanted_started, go, pure=False)

        def submit():
            future = worker.client.submit(at_depth, 0, "sleep", 2 * PATIENCE, started, pure=False)
            wait_until(Path(started).exists, PATIENCE)
            return future

        wait_until(lambda: worker.client.run_on_scheduler(executing), PATIENCE)
        assert [what.outcome for what in worker.interrupt(submit, limit=1.2)] == ["busy"]
        Path(go).touch()
        assert wanted.result(timeout=PATIENCE) == "python"
        assert worker.works()
        assert worker.pid() == pid


def never_respond():
    """In the supervisor: the next interrupt gets no response."""
    from jupyter_gpudask.scheduler import cells

    original = cells.stop_released_tasks

    async def wait(*_, **__):
        cells.stop_released_tasks = original
        await asyncio.Event().wait()

    cells.stop_released_tasks = wait


def test_an_interrupt_ends_although_the_scheduler_does_not_respond(worker):
    future = worker.client.submit(at_depth, 0, "python", 1, pure=False)
    worker.client.run_on_scheduler(never_respond)
    assert cancel_unfinished(worker.client, set()) == []
    assert future.status == "cancelled"
    del future
    assert worker.works()


def read_slowly(dask_scheduler):
    """In the supervisor: the next graph is read for longer than an interrupt waits."""
    original = dask_scheduler.stream_handlers["update-graph"]

    async def read(**message):
        dask_scheduler.stream_handlers["update-graph"] = original
        await asyncio.sleep(3)
        await original(**message)

    dask_scheduler.stream_handlers["update-graph"] = read


def test_a_graph_that_the_scheduler_still_reads_is_cancelled_afterwards(worker):
    def submit():
        worker.client.run_on_scheduler(read_slowly)
        return worker.client.submit(at_depth, 0, "python", 2 * PATIENCE, pure=False)

    assert worker.interrupt(submit) == []
    assert worker.works()


def test_what_is_cancelled_does_not_count_as_done(worker):
    futures = worker.client.map(at_depth, [0] * 9, kind="sleep", seconds=2, pure=False)
    cancelled = announce_cancellation(worker.client, set())
    del futures  # as `compute` does before the cell ends
    wait_until(lambda: not worker.state().tasks_unfinished, PATIENCE)
    work = worker.state().work
    assert (work.tasks, work.done) == (9, 9 - cancelled)
    assert cancelled > 5
    assert worker.works()
    assert worker.state().work.done == 1


@pytest.mark.parametrize("kind", ["python", "sleep"])
def test_a_cluster_that_is_emptied_computes_on_whatever_it_ran(worker, kind, tmp_path):
    for number in range(2):
        started = tmp_path / str(number)
        worker.client.submit(at_depth, 400, kind, 2 * PATIENCE, str(started), pure=False)
        wait_until(started.exists, PATIENCE)
        worker.run(worker.process.reset())
        assert worker.works()
    assert "KeyError" not in worker.log()


def test_tasks_between_results_of_a_cell_that_nobody_wants_do_not_end_the_connection(worker):
    def submit():
        kept = worker.client.submit(at_depth, 0, "python", 2 * PATIENCE, pure=False)
        graph = {"between": (str.upper, kept.key), "last": (str.lower, "between")}
        from dask.delayed import Delayed

        graph[kept.key] = kept
        return kept, worker.client.compute(Delayed("last", graph), optimize_graph=False)

    scheduler = worker.client.scheduler
    assert worker.interrupt(submit, 0.3) == []
    assert worker.works()
    assert worker.client.scheduler is scheduler
    wait_until(lambda: worker.state().tasks_unfinished == 0, PATIENCE)
