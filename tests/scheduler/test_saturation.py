"""Workers get more short tasks with small results at a time, and not more of others."""

import time

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster, wait

from jupyter_gpudask.scheduler.settings import DEFAULT_SATURATION, SaturationPlugin

MEMORY = 200_000_000


def block(name, number):  # noqa: ARG001 - so that tasks differ
    """The result of a task: small, or of a third of what the results of all tasks of a thread may take."""
    if name == "slow":
        time.sleep(0.05)
    return np.ones(MEMORY // 300 if name == "large" else 10, "u1")


class Recorder(SaturationPlugin):
    """Keeps how many tasks a worker has had at most, and the saturations."""

    def transition(self, key, start, finish, *args, **message):
        if finish == "processing":
            self.most = max(self.most, *(len(worker.processing) for worker in self._scheduler.workers.values()))
        super().transition(key, start, finish, *args, **message)
        self.seen.add(self._scheduler.WORKER_SATURATION)


@pytest.fixture(scope="module")
def measured():
    """A function that computes a graph of layers with so many tasks; the most tasks of a worker, and saturations."""
    settings = {"distributed.scheduler.validate": True, "distributed.scheduler.work-stealing": False}
    settings |= {
        f"distributed.worker.memory.{limit}": False for limit in ("target", "spill", "pause")
    }  # of this process
    local = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with (
        dask.config.set(settings),
        LocalCluster(memory_limit=MEMORY, **local) as cluster,
        Client(cluster) as client,
    ):
        plugin = Recorder(cluster.scheduler)
        client.sync(add, plugin, cluster.scheduler)

        def measure(**layers):
            plugin.most, plugin.seen = 0, set()
            graph = {(name, n): (block, name, n) for name, count in layers.items() for n in range(count)}
            wait(client.get(graph, list(graph), sync=False))
            return plugin.most, plugin.seen

        yield measure


async def add(plugin, scheduler):
    scheduler.add_plugin(plugin)


def test_a_worker_gets_more_short_tasks_with_small_results(measured):
    most, seen = measured(small=200)
    assert most > 4
    assert max(seen) > 4


@pytest.mark.parametrize(("name", "most"), [("slow", 2), ("large", 4)])
def test_it_gets_no_more_long_tasks_or_large_results(measured, name, most):
    measured(small=100)  # what was learned there says nothing of this graph
    assert measured(**{name: 40})[0] <= most


def test_it_gets_no_more_until_a_task_of_each_layer_has_finished(measured):
    most, seen = measured(small=40, large=40)
    assert seen == {DEFAULT_SATURATION} or max(seen) <= 3
    assert most <= 4
