"""Plugins come and go while a worker sends a heartbeat, which an error would end together with the worker."""

import asyncio

from distributed import Scheduler, Worker
from distributed.core import Status

from jupyter_gpudask.worker.joined import DEVICE, JOINED_METRICS_PLUGIN, JoinedMetricsPlugin
from jupyter_gpudask.worker.preload import METRICS


class SlowMetric:
    """A metric that is not read at once, as Dask's of RMM.

    Attributes
    ----------
    reading
        How many heartbeats wait for it.
    """

    def __init__(self):
        self.reading = 0
        self._waiting = asyncio.Event()
        self._ready = asyncio.Event()

    async def __call__(self, worker):
        self.reading += 1
        self._waiting.set()
        await self._ready.wait()
        self.reading -= 1

    async def is_being_read(self):
        await asyncio.wait_for(self._waiting.wait(), 60)
        self._waiting.clear()

    def answer(self):
        self._ready.set()
        self._ready = asyncio.Event()


async def change_plugins_in_heartbeats():
    """What the scheduler knows of a worker's metrics before, with and after the plugin."""
    found = []
    async with (
        Scheduler(port=0, dashboard=False, protocol="inproc") as scheduler,
        Worker(scheduler.address, nthreads=1) as worker,
    ):
        worker.periodic_callbacks["heartbeat"].stop()  # this function sends those
        # Only now, because the worker registers with its metrics, and not the first, so that others follow it.
        slow = SlowMetric()
        worker.metrics = {"slow": slow, "last": lambda _: 1}

        async def heartbeat(*changes):
            beat = asyncio.create_task(worker.heartbeat())
            await slow.is_being_read()
            for change in changes:
                await asyncio.wait_for(change(), 60)
                assert slow.reading == 1, "two heartbeats at a time share their counts, which Dask asserts against"
            slow.answer()
            await beat
            assert worker.status == Status.running
            found.append({DEVICE, METRICS} & set(scheduler.workers[worker.address].metrics))

        async def add():
            assert (await worker.plugin_add(plugin=JoinedMetricsPlugin(), name=JOINED_METRICS_PLUGIN))["status"] == "OK"

        async def remove():
            assert (await worker.plugin_remove(JOINED_METRICS_PLUGIN))["status"] == "OK"

        await heartbeat(add)
        await heartbeat()
        await heartbeat(remove)
        await heartbeat(add, remove)
        await heartbeat()
        assert list(worker.metrics) == ["slow", "last"]
    return found


def test_a_worker_survives_plugins_that_come_and_go_in_its_heartbeat():
    both = {DEVICE, METRICS}
    assert asyncio.run(change_plugins_in_heartbeats()) == [set(), both, both, set(), set()]
