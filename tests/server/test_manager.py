"""The manager of clusters without a Jupyter server; supervisors are real."""

import asyncio

import pytest
from helpers import ONE_WORKER, pids_of_session, without_gpus
from managers import managed, supervisors, until

from jupyter_gpudask.errors import ClusterExistsError, KernelNotFoundError, LimitError, NoClusterError, SpecError

pytestmark = pytest.mark.cluster


async def becomes(cluster, *statuses):
    await until(lambda: cluster.status in statuses)
    return cluster.status


def spec(manager, **options):
    return manager.policy.spec(ONE_WORKER | options)


async def test_fifty_concurrent_requests_create_one_cluster_which_is_ready_and_is_closed():
    async with managed() as manager:
        orders = [manager.create("a", spec(manager)) for _ in range(50)]
        assert [new for _, new in orders] == [True] + [False] * 49
        (cluster,) = {cluster for cluster, _ in orders}
        assert cluster.status == "starting"
        assert await becomes(cluster, "ready", "failed") == "ready"
        pid = cluster.ready.pid
        assert supervisors() == [pid]
        with pytest.raises(ClusterExistsError):
            manager.create("a", spec(manager, threads=2))
        await cluster.refresh()
        assert cluster.state.workers[0].status == "running"
        assert set(await manager.get("a").logs()) == {"supervisor", cluster.state.workers[0].name}
        await manager.close("a")
        assert cluster.status == "closed"
        assert pids_of_session(pid) == []
        with pytest.raises(NoClusterError):
            manager.get("a")


async def test_closing_a_cluster_during_its_start_leaves_no_process():
    async with managed() as manager:
        for pause in (0, 0.01, 0.5):
            cluster, _ = manager.create("a", spec(manager))
            await asyncio.sleep(pause)
            await asyncio.gather(manager.close("a"), manager.close("a"))
            assert cluster.status == "closed"
            assert supervisors() == []


async def test_a_cluster_created_during_the_close_of_another_starts_after_it_and_a_restart_changes_its_options():
    async with managed() as manager:
        first, _ = manager.create("a", spec(manager))
        await becomes(first, "ready")
        with pytest.raises(SpecError):
            manager.restart("a", {"threads": 0})
        second = manager.restart("a", {"threads": 2})
        assert first.status == "closing"
        while second.status == "starting":
            assert len(supervisors()) <= 1
            await asyncio.sleep(0.05)
        assert (first.status, second.status, manager.get("a")) == ("closed", "ready", second)
        assert (second.spec.threads, second.spec.gpus) == (2, first.spec.gpus)
        assert supervisors() == [second.ready.pid]


@without_gpus
async def test_limits_are_enforced():
    async with managed(max_clusters=1, max_workers=2, allow_ucx=False) as manager:
        with pytest.raises(KernelNotFoundError) as refused:
            manager.create("c", spec(manager))
        assert str(refused.value) == "There is no kernel c. Restart the notebook's kernel."
        with pytest.raises(LimitError, match="workers of a cluster to 2"):
            spec(manager, workers=3)
        with pytest.raises(LimitError, match="protocol ucx"):
            spec(manager, protocol="ucx")
        manager.create("a", spec(manager))
        with pytest.raises(LimitError, match="limited to 1 clusters at a time"):
            manager.create("b", spec(manager))
        await manager.close("a")


async def test_an_idle_cluster_is_closed_with_a_reason_unless_its_kernel_is_busy():
    async with managed(idle_timeout=1.0) as manager:
        manager.kernels.busy = True
        cluster, _ = manager.create("a", spec(manager))
        await becomes(cluster, "ready")
        await asyncio.sleep(1.5)
        assert cluster.status == "ready"
        manager.kernels.busy = False
        await becomes(cluster, "closed")
        assert manager.get("a").error.reason.startswith("The cluster was closed after 1 seconds without work")
