"""Scaling of workers on other hosts: which are closed, and that what they hold is moved before, not computed again."""

import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from distributed import Client, Nanny, wait

from jupyter_gpudask.errors import ScaleError
from jupyter_gpudask.machine.plan import Plan
from jupyter_gpudask.supervisor import scaling
from jupyter_gpudask.supervisor.scaling import Scaling
from jupyter_gpudask.supervisor.ssh import HostsCluster

pytestmark = pytest.mark.cluster

HOSTS = ("a", "b", "c")


class Pair:
    """The two workers of one host."""

    def __init__(self, address, name, **options):
        self._workers = [Nanny(address, name=f"{name}{suffix}", **options) for suffix in ("-0", "-1")]

    def __await__(self):
        return self.start().__await__()

    async def start(self):
        await asyncio.gather(*self._workers)
        return self

    @property
    def status(self):
        return self._workers[0].status

    async def close(self):
        await asyncio.gather(*(worker.close() for worker in self._workers))


class Value:
    """What a worker holds: `size` in bytes, and the seconds that it takes to be moved."""

    def __init__(self, size, seconds):
        self.size, self.seconds = size, seconds

    def __sizeof__(self):
        return self.size

    def __getstate__(self):
        time.sleep(self.seconds)
        return self.__dict__


def compute(size, seconds, folder):
    (Path(folder) / f"{size}-{time.monotonic_ns()}").touch()
    return Value(size, seconds)


@asynccontextmanager
async def running(per_host=1):
    """A cluster of three hosts, its scaling, and a client."""
    options = {"nthreads": 1, "host": "127.0.0.1", "dashboard": False}
    spec = {name: {"cls": Nanny, "options": options} for name in HOSTS}
    if per_host > 1:
        spec = {name: {"cls": Pair, "options": options, "group": ["-0", "-1"]} for name in HOSTS}
    scheduler = {"host": "127.0.0.1", "port": 0, "dashboard": False}
    async with (
        HostsCluster(spec, per_host, 3 * per_host, scheduler, security=None) as cluster,
        Client(cluster, asynchronous=True) as client,
    ):
        await client.wait_for_workers(3 * per_host, timeout=60)
        yield cluster, Scaling(cluster, Plan("cpu", workers=3 * per_host), None, None), client


async def results_on_each_worker(cluster, client, folder, *, seconds=0.0):
    """Let each worker hold a result; that whose name comes first holds least."""
    workers = sorted(cluster.scheduler.workers.values(), key=lambda worker: worker.name)
    held = [
        client.submit(compute, 10000 * number, seconds, str(folder), workers=[worker.address], allow_other_workers=True)
        for number, worker in enumerate(workers, start=1)
    ]
    await wait(held)
    return held


async def become(cluster, *expected):
    async with asyncio.timeout(60):
        while sorted(worker.name for worker in cluster.scheduler.workers.values()) != list(expected):
            await asyncio.sleep(0.05)


def test_a_worker_closes_after_its_results_were_moved_however_long_that_takes_and_no_other(monkeypatch, tmp_path):
    monkeypatch.setattr(scaling, "_ANSWER_LIMIT", 0.3)

    async def run():
        async with running() as (cluster, scaled, client):
            held = await results_on_each_worker(cluster, client, tmp_path, seconds=2)
            await scaled.scale(2)
            assert (scaled.leaving, len(cluster.scheduler.workers)) == (1, 3)
            for again in (scaled.scale(3), scaled.adapt(1, 2)):
                with pytest.raises(ScaleError, match="is still moving results off the workers"):
                    await again
            await become(cluster, "b", "c")
            assert [value.size for value in await client.gather(held)] == [10000, 20000, 30000]
            assert len(list(tmp_path.iterdir())) == 3
            monkeypatch.setattr(scaling, "_ANSWER_LIMIT", 8)
            await scaled.scale(3)
            assert scaled.leaving == 0
            await become(cluster, "a", "b", "c")

    asyncio.run(run())


def test_a_host_with_several_workers_closes_with_all_of_them_after_their_results_were_moved(tmp_path):
    async def run():
        async with running(per_host=2) as (cluster, scaled, client):
            held = await results_on_each_worker(cluster, client, tmp_path)
            await scaled.scale(3)
            await become(cluster, "b-0", "b-1", "c-0", "c-1")
            assert [value.size for value in await client.gather(held)] == [10000 * number for number in range(1, 7)]
            assert len(list(tmp_path.iterdir())) == 6

    asyncio.run(run())
