"""The maximum lifetime of a cluster: its warning, and its end."""

import asyncio
import re
import time

import pytest
from helpers import START_ONE, wait_until
from managers import with_manager

from jupyter_gpudask.errors import ClusterLifetimeError
from jupyter_gpudask.protocol import ClusterSpec
from jupyter_gpudask.server import lifetime


async def until(condition, limit=60.0):
    async with asyncio.timeout(limit):
        while not condition():
            await asyncio.sleep(0.05)


def test_a_cluster_is_closed_at_the_end_of_its_lifetime_also_if_it_works_and_warns_before():
    async def use(manager):
        manager.kernels.busy = True
        cluster, _ = manager.create("a", ClusterSpec(engine="cpu", workers=1))
        warned = []
        cluster.observe(lambda each: warned.append(each.closes_at) if each.status == "ready" else None)
        await until(lambda: cluster.status == "ready")
        began = time.time()
        await until(lambda: cluster.status == "closed")
        assert warned[0] is None
        assert warned[-1] == pytest.approx(began + 4, abs=2)
        assert isinstance(cluster.error, ClusterLifetimeError)
        assert str(cluster.error).startswith("The cluster was closed after 4 seconds, its maximum lifetime; its")

    with_manager(use, max_lifetime=4.0)


def test_a_cluster_that_was_stopped_is_not_closed_again():
    async def use(manager):
        cluster, _ = manager.create("a", ClusterSpec(engine="cpu", workers=1))
        await until(lambda: cluster.status == "ready")
        await manager.close("a")
        await asyncio.sleep(2.5)
        assert (cluster.status, cluster.error) == ("closed", None)

    with_manager(use, max_lifetime=2.0)


def test_the_warning_comes_ten_minutes_before_the_end(monkeypatch):
    now = [1000.0]

    class Cluster:
        status = "ready"
        closes_at = None

        def warn_of_end(self, when):
            self.closes_at, self.warned = when, now[0]

    async def sleep(seconds):
        assert seconds > 0
        now[0] += seconds

    monkeypatch.setattr(lifetime, "time", type("Clock", (), {"time": lambda: now[0], "monotonic": lambda: now[0]}))
    monkeypatch.setattr(lifetime, "asyncio", type("Loop", (), {"sleep": sleep}))
    cluster, closed = Cluster(), []
    asyncio.run(lifetime.end_after(cluster, 3600.0, lambda *_: closed.append(now[0])))
    assert (cluster.warned, cluster.closes_at, closed) == (4000.0, 4600.0, [4600.0])


@pytest.mark.cluster
def test_the_notebook_and_the_panel_are_warned(own_server):
    server = own_server("--GpuDask.max_lifetime=120")
    kernel = server.kernel()
    kernel.ok(f"%load_ext jupyter_gpudask\n{START_ONE}")
    cell = "%%gpudask\nimport dask.array as da\nda.ones(10).sum().compute()"
    warning = r"he cluster will be closed at \d\d:\d\d, the end of its maximum lifetime"
    assert "maximum lifetime" not in kernel.ok(cell).displayed[-1]
    wait_until(lambda: server.cluster(kernel)["notes"], 90)
    assert re.fullmatch(f"T{warning}.", server.cluster(kernel)["notes"][0])
    assert re.search(f"t{warning}$", kernel.ok(cell).displayed[-1])
    assert re.search(f"T{warning}.", kernel.ok("state = %gpudask status\nprint(state)").printed)


def test_a_status_does_not_announce_the_end_that_has_come(own_server):
    server = own_server("--GpuDask.max_lifetime=12")
    kernel = server.kernel()
    kernel.ok(f"%load_ext jupyter_gpudask\n{START_ONE}\nimport time")
    kernel.ok("shown = %gpudask status\nshown")
    kernel.ok("while not (announced := 'will be closed at' in shown.widget.value): time.sleep(0.1)")
    last = kernel.ok("while shown._last is None: time.sleep(0.1)")
    for text in (last.displayed[-1], last.html[-1]):
        assert "The cluster was closed after 12 seconds, its maximum lifetime" in text
        assert "will be closed at" not in text
