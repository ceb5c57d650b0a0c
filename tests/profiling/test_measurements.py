"""A profile is made of what the scheduler and its workers recorded."""

import sys
import threading
import types
from dataclasses import asdict

import numpy as np
import pytest
from dask._task_spec import List, Task

from jupyter_gpudask.graph.program import as_one_task
from jupyter_gpudask.profiling.measurements import Operation, SchedulerRecord, WorkerRecord, WorkerUse, combine
from jupyter_gpudask.profiling.recording import GpuClock, SchedulerProfilingPlugin, WorkerProfilingPlugin


def record(**operations):
    workers = {"tcp://a": WorkerUse("a", seconds=8), "tcp://b": WorkerUse("b", seconds=2)}
    return SchedulerRecord(operations, workers, active=10.0)


def test_the_time_of_fused_tasks_is_divided_among_their_steps():
    whole = Operation(tasks=4, sized=4, nbytes=32, seconds=10, waiting=1)
    steps = {"random": Operation(tasks=100, sized=100, nbytes=8000, seconds=6), "sum": Operation(seconds=2)}
    worker = WorkerRecord({"sum": steps}, {"sum": {"result": 1, "sum": 3}}, 5, 6)
    assert WorkerRecord.from_dict(asdict(worker)) == worker, "it survives its way to the scheduler"
    cell = combine(12, record(sum=whole), {"tcp://a": worker}, on_gpus=False)
    assert cell.operations["random"].seconds == pytest.approx(7.5)
    assert cell.operations["random"].block_size == 80
    assert cell.operations["sum"] == Operation(tasks=4, sized=4, nbytes=32, seconds=2.5, waiting=1)
    assert cell.seconds == pytest.approx(10)
    without = combine(12, record(sum=whole), {}, on_gpus=False)
    assert (without.operations, without.silent) == ({"sum": whole}, 2)


def test_steps_of_tasks_that_did_not_finish_are_included_and_a_gpu_is_busy_while_it_computes():
    steps = {"load": {"load": Operation(seconds=3, gpu_seconds=6)}}
    cell = combine(12, record(), {"tcp://a": WorkerRecord(steps)}, on_gpus=True)
    assert cell.operations["load"].seconds == 3
    assert [worker.busy(cell.active, on_gpus=True) for worker in cell.workers] == pytest.approx([0.6, 0.2])


class Event:
    def __init__(self):
        self.done = False

    def record(self):
        self.at = next(Event.times)


def test_the_gpu_is_not_waited_for_and_events_are_used_again(monkeypatch):
    Event.times = iter(range(100))
    cuda = types.SimpleNamespace(Event=Event, get_elapsed_time=lambda a, b: 1000 * (b.at - a.at))
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    times = []
    clock = GpuClock(lambda *step: times.append(step))
    events = [clock.record() for _ in range(3)]
    clock.measure("sum", 2, [{"random": 0.1}, {"sum": 0.1}], events)
    assert times == []
    clock.finish(0)
    assert times == []
    threading.Timer(0.01, lambda: [setattr(event, "done", True) for event in events]).start()
    clock.finish(60)
    assert times == [("sum", "random", 1), ("sum", "sum", 1)]
    assert {id(clock.record()) for _ in range(3)} == set(map(id, events))


@pytest.fixture
def gpu_time(monkeypatch):
    """CUDA events of a GPU that is always done, by the time that it needed until each."""
    reached = []

    class DoneEvent:
        done = True

        def record(self):
            reached.append(self)
            self.at = now[0]

    now = [0.0]
    cuda = types.SimpleNamespace(Event=DoneEvent, get_elapsed_time=lambda a, b: 1000 * (b.at - a.at))
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    return types.SimpleNamespace(now=now, events=reached)


@pytest.fixture
def worker_plugin():
    plugin = WorkerProfilingPlugin(on_gpus=True)
    plugin.setup(types.SimpleNamespace(scheduler_delay=0.0, data={}, handlers={}, plugins={}))
    return plugin


def work_of(gpu_time, seconds):
    def work(_):
        gpu_time.now[0] += seconds
        return np.zeros(1)

    return work


def run_task(plugin, gpu_time, seconds, blocks=40):
    """Run a task that adds blocks, of which each takes the GPU that long."""
    tasks = [Task(("random", n), work_of(gpu_time, seconds), n) for n in range(blocks)]
    whole = Task("sum", sum, List([each.ref() for each in tasks]))
    task = as_one_task("sum", {each.key: each for each in [*tasks, whole]})
    assert plugin.run(lambda run: run({}), task) == [0]


@pytest.mark.parametrize(("seconds", "is_short"), [(0.00005, True), (0.01, False)])
def test_short_steps_share_their_events_and_long_ones_do_not(gpu_time, worker_plugin, seconds, is_short):
    for _ in range(2):
        run_task(worker_plugin, gpu_time, seconds)
    assert len(gpu_time.events) == 2 * (40 + 2)
    run_task(worker_plugin, gpu_time, seconds)
    assert (len(gpu_time.events) < 2 * (40 + 2) + 20) == is_short
    steps = worker_plugin._record.steps["sum"]
    assert sum(step.gpu_seconds for step in steps.values()) == pytest.approx(3 * 40 * seconds)
    assert is_short or steps["random"].gpu_seconds == pytest.approx(3 * 40 * seconds)
    assert steps["random"].tasks == 3 * 40


def test_steps_of_a_task_that_fails_are_measured_on_the_gpu(gpu_time, worker_plugin):
    def fail(_):
        raise ValueError("no such file")

    first = Task("random-1", work_of(gpu_time, 2.0), 1)
    task = as_one_task("load-1", {"random-1": first, "load-1": Task("load-1", fail, first.ref())})
    with pytest.raises(ValueError, match="no such file"):
        worker_plugin.run(lambda run: run({}), task)
    assert worker_plugin._record.steps["load"]["random"].gpu_seconds == pytest.approx(2.0)


def test_threads_that_read_the_clock_at_once_read_no_event_that_the_gpu_has_not_reached(monkeypatch):
    class Reached:
        asked = False

        @property
        def done(self):
            if not self.asked:
                self.asked = True
                clock.finish(0)  # what another thread may do at this moment
            return True

    class NotReached:
        done = False

    def elapsed(_, end):
        assert end.done, "cudaErrorNotReady"
        return 1000

    cuda = types.SimpleNamespace(get_elapsed_time=elapsed)
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    times = []
    clock = GpuClock(lambda *step: times.append(step))
    clock._pending.append(("a", 1, [{"a": 0.1}], [Reached(), Reached()]))
    clock._pending.append(("b", 1, [{"b": 0.1}], [NotReached(), NotReached()]))
    clock.finish(0)
    assert times == [("a", "a", 1)]


def task_message(start, stop, *others):
    compute = {"action": "compute", "start": start, "stop": stop}
    return {"worker": "tcp://a", "startstops": [compute, *others], "thread": 1, "nbytes": 8}


@pytest.fixture
def plugin(monkeypatch):
    """A plugin of a scheduler with one worker, whose clock the test sets."""
    clock = [0.0]
    monkeypatch.setattr("jupyter_gpudask.profiling.recording.wall_time", lambda: clock[0])
    worker = types.SimpleNamespace(name="0", nthreads=2)
    plugin = SchedulerProfilingPlugin(types.SimpleNamespace(workers={"tcp://a": worker}, tasks={}), "client")
    plugin.set_time = lambda now: clock.__setitem__(0, now)
    return plugin


def test_a_thread_waits_while_there_are_unfinished_tasks(plugin):
    plugin.set_time(10)
    for key in ("sum-1", "sum-2"):
        plugin.transition(key, "released", "processing")
    plugin.transition("sum-1", "processing", "memory", **task_message(11, 12))
    plugin.set_time(15)
    plugin.transition("sum-2", "processing", "memory", **task_message(14, 15))
    plugin.set_time(100)  # the kernel computes
    plugin.transition("sum-3", "released", "processing")
    plugin.set_time(102)
    plugin.transition("sum-3", "processing", "memory", **task_message(100.5, 102))
    record = plugin.record()
    assert record.operations["sum"].waiting == pytest.approx(1 + 2 + 0.5)
    assert record.operations["sum"].seconds == pytest.approx(3.5)
    assert record.active == pytest.approx(5 + 2)
    assert record.workers["tcp://a"].threads == 2
    assert record.unfinished == 0


def test_transfers_and_spilling_are_no_waiting(plugin):
    plugin.set_time(0)
    plugin.transition("sum-1", "released", "processing")
    spilling = {"action": "disk-write", "start": 4, "stop": 4.5}
    transfer = {"action": "transfer", "start": 0.5, "stop": 2.5, "source": "tcp://b"}
    plugin.transition("sum-1", "processing", "memory", **task_message(3, 4, spilling, transfer))
    operation = plugin.record().operations["sum"]
    assert (operation.between_workers, operation.spilling, operation.seconds) == (2, 0.5, 1)


def test_tasks_that_fail_and_tasks_that_go_on_are_known(plugin):
    for key in ("sum-1", "sum-2", "sum-3"):
        plugin.transition(key, "released", "processing")
    plugin.transition("sum-1", "processing", "erred", **task_message(0, 4))
    plugin.transition("sum-2", "processing", "erred", cause="sum-1")
    plugin.set_time(6)
    record = plugin.record()
    assert record.operations["sum"].tasks == 1
    assert (record.unfinished, record.active) == (1, 6)
