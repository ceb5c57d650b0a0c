"""Scaling, and the lease on the GPUs of a cluster."""

import asyncio
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from distributed import Client, Nanny, wait

from jupyter_gpudask.errors import GpuDaskError, GpuReservedError, ScaleError
from jupyter_gpudask.machine.leases import LeaseFolder
from jupyter_gpudask.machine.plan import Plan
from jupyter_gpudask.protocol.spec import ClusterSpec
from jupyter_gpudask.protocol.state import GpuState
from jupyter_gpudask.protocol.verbs import Start
from jupyter_gpudask.supervisor import scaling
from jupyter_gpudask.supervisor.engines import HostsCluster
from jupyter_gpudask.supervisor.scaling import Scaling, plan_and_lease

pytestmark = pytest.mark.cluster


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
async def running(hosts="abc", per_host=1):
    """A cluster of some hosts, its scaling, and a client."""
    workers = len(hosts) * per_host
    options = {"nthreads": 1, "host": "127.0.0.1", "dashboard": False}
    spec = {name: {"cls": Nanny, "options": options} for name in hosts}
    if per_host > 1:
        spec = {name: {"cls": Pair, "options": options, "group": ["-0", "-1"]} for name in hosts}
    scheduler = {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    async with (
        HostsCluster(spec, per_host, workers, scheduler, security=None) as cluster,
        Client(cluster, asynchronous=True) as client,
    ):
        await client.wait_for_workers(workers, timeout=60)
        yield cluster, Scaling(cluster, Plan("cpu", workers=workers), None, None), client


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


async def test_a_worker_closes_after_its_results_were_moved_however_long_that_takes_and_no_other(monkeypatch, tmp_path):
    monkeypatch.setattr(scaling, "_ANSWER_LIMIT", 0.3)

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


async def test_a_host_with_several_workers_closes_with_all_of_them_after_their_results_were_moved(tmp_path):
    async with running(hosts="ab", per_host=2) as (cluster, scaled, client):
        held = await results_on_each_worker(cluster, client, tmp_path)
        await scaled.scale(1)
        await become(cluster, "b-0", "b-1")
        assert [value.size for value in await client.gather(held)] == [10000 * number for number in range(1, 5)]
        assert len(list(tmp_path.iterdir())) == 4


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The leases on four GPUs."""
    found = [GpuState(index=i, uuid=f"GPU-{i}", name="H200") for i in range(4)]
    monkeypatch.setattr("jupyter_gpudask.machine.gpus.visible_gpus", lambda _=None: found)
    monkeypatch.setattr("jupyter_gpudask.machine.plan._check_packages", lambda: None)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    folder = LeaseFolder()
    with folder.lock():
        return folder


def lease(kernel_id="", **options):
    """The indices of the GPUs that a cluster gets, and its lease."""
    request = Start(spec=ClusterSpec.parse(options), path=(), kernel_id=kernel_id)
    plan, held = asyncio.run(plan_and_lease(request, print))
    return [gpu.index for gpu in plan.gpus], held


def gets(**options):
    try:
        chosen, held = lease(**options)
    except GpuReservedError as error:
        return error.reason.partition(":")[0]
    held.release()
    return chosen


REFUSED = "Others wait for these GPUs, first in line"


@pytest.mark.parametrize(
    ("waiting", "options", "expected"),
    [
        ([0], {"gpus": [0]}, REFUSED),
        ([0], {"gpus": [1, 2]}, [1, 2]),
        ([0], {"gpus": 1}, [1]),
        ([0], {"gpus": "free"}, [1, 2, 3]),
        ([0], {"gpus": "all"}, REFUSED),
        ([0, 1, 2, 3], {"gpus": 1}, REFUSED),
        ([0], {"gpus": [0], "share": True}, REFUSED),
    ],
)
def test_a_start_does_not_get_gpus_that_somebody_waits_for(folder, waiting, options, expected):
    place = folder.line.enter([f"GPU-{index}" for index in waiting])
    assert gets(**options) == expected
    place.leave()
    assert isinstance(gets(**options), list)


@pytest.mark.parametrize(
    ("options", "limits", "sentence"),
    [
        ({"gpus": "free", "adapt": "1,4"}, {}, "4 workers need 4 GPUs, and this cluster has 3"),
        ({"engine": "cpu", "workers": 1, "adapt": "1,3"}, {"max_workers": 2}, "workers of a cluster to 2; 3 were"),
        ({"gpus": 2}, {"max_workers": 1}, "This server limits the workers of a cluster to 1; 2 were requested"),
        ({"gpus": 1}, {"max_gpus": 1}, r"limits the GPUs of a user to 1; this cluster needs 1, and .* reserved 1\."),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_cluster_that_is_or_could_grow_too_large_is_not_started(options, limits, sentence):
    _, held = lease(gpus=[3])
    request = Start(spec=ClusterSpec.parse(options), path=(), **limits)
    with pytest.raises(GpuDaskError, match=sentence):
        asyncio.run(plan_and_lease(request, print))
    held.release()


async def test_starts_that_wait_get_their_gpus_in_turn_and_nobody_two(folder):
    _, held = await asyncio.to_thread(lease, gpus=[0])
    said = {number: [] for number in range(3)}
    held_by = {}

    async def wait(number):
        request = Start(spec=ClusterSpec.parse({"gpus": [0], "wait": True}), path=())
        _, held_by[number] = await plan_and_lease(request, lambda sentence, _: said[number].append(sentence))

    starts = []
    for number in range(3):
        starts.append(asyncio.create_task(wait(number)))
        while not said[number]:
            await asyncio.sleep(0)
    assert [said[number][0].partition(" in line")[0] for number in said] == [
        f"Waiting for GPUs at place {place}" for place in (1, 2, 3)
    ]
    starts[1].cancel()
    held.release()
    await starts[0]
    assert set(held_by) == {0}
    assert [each.gpus for each in folder.read()] == [("GPU-0",)]
    held_by[0].release()
    await starts[2]
    assert set(held_by) == {0, 2}
    held_by[2].release()
    assert folder.line.read() == []
    assert [path.name for path in folder.path.iterdir()] == ["mutex"]


def test_a_cluster_may_use_the_gpu_of_its_accelerated_kernel_and_no_other(folder):
    with folder.lock():
        accelerated = folder.take(["GPU-0"], holder="a.ipynb", kernel_id="a", share=False, accelerates=True)
    assert gets(gpus="all", kernel_id="a") == [0, 1, 2, 3]
    assert gets(gpus="all", kernel_id="") == [0, 1, 2, 3]  # the kernel has started it without a server
    assert gets(gpus="free", kernel_id="b") == [1, 2, 3]
    assert gets(gpus="all", kernel_id="b") == "GPU 0 is reserved by a.ipynb."
    accelerated.release()
