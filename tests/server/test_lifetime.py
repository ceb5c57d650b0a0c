"""Clusters that are closed: after their lifetime, without work, and to hand over their GPUs."""

import asyncio
import errno
import os
import re
import time

import pytest
from helpers import START_ONE, fake_gpu_environment
from managers import UNTIL_CLOSED, KernelsOf, NamedKernels, managed, policy_of, until
from users import ANNA, SINCE, UUID, as_root, lease_registry, process_of

from jupyter_gpudask.errors import ClusterLifetimeError, ClusterLostError, GpusHandedOverError
from jupyter_gpudask.machine.lease_registry import LEASE_DIRECTORY_VARIABLE, PublicLease
from jupyter_gpudask.machine.leases import LeaseFolder, Waiting, WaitingLine
from jupyter_gpudask.protocol.spec import ClusterSpec
from jupyter_gpudask.protocol.state import ClusterState, WorkerState
from jupyter_gpudask.server import lifetime
from jupyter_gpudask.server.cluster import KernelCluster, Notice
from jupyter_gpudask.server.lifetime import HandOver, _publish_and_choose
from jupyter_gpudask.server.manager import ClusterManager


async def test_a_cluster_is_closed_at_the_end_of_its_lifetime_also_if_it_works_unless_it_was_stopped(tmp_path):
    async with managed(KernelsOf(UNTIL_CLOSED, tmp_path), max_lifetime=1.0) as manager:
        manager.kernels.busy = True
        cluster, _ = manager.create("a", ClusterSpec(engine="cpu"))
        stopped, _ = manager.create("b", ClusterSpec(engine="cpu"))
        warned = []
        cluster.observe(lambda each: warned.append((each.since, each.closes_at)) if each.status == "ready" else None)
        await until(lambda: stopped.status == "ready")
        await manager.close("b")
        await until(lambda: cluster.status == "closed")
        assert warned[0][1] is None
        assert warned[-1][1] == pytest.approx(warned[0][0] + 1, abs=1)
        assert isinstance(cluster.error, ClusterLifetimeError)
        assert str(cluster.error).startswith("The cluster was closed after 1 seconds, its maximum lifetime; its")
        await asyncio.sleep(max(0.0, stopped.created + 2 - time.time()))
        assert (stopped.status, stopped.error) == ("closed", None)


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
def test_the_notebook_and_the_panel_are_warned_and_a_status_does_not_announce_the_end_that_has_come(own_server):
    server = own_server("--GpuDask.max_lifetime=40")
    kernel = server.kernel()
    kernel.ok(f"%load_ext jupyter_gpudask\n{START_ONE}\nimport time")
    kernel.ok("shown = %gpudask status\nshown")
    warning = r"he cluster will be closed at \d\d:\d\d, the end of its maximum lifetime"
    last = ""
    while "maximum lifetime" not in last:
        last = kernel.ok("%%gpudask\nimport dask.array as da\nda.ones(10).sum().compute()").displayed[-1]
    assert re.search(f"t{warning}$", last)
    assert re.fullmatch(f"T{warning}.", server.cluster(kernel)["notes"][0])
    kernel.ok("while 'will be closed at' not in shown.widget.value: time.sleep(0.1)")
    ended = kernel.ok("while shown._last is None: time.sleep(0.1)")
    for text in (ended.displayed[-1], ended.html[-1]):
        assert "The cluster was closed after 40 seconds, its maximum lifetime" in text
        assert "will be closed at" not in text


# Stands in line as a start does, and is given the GPU when its turn comes.
IMPORTS = f"""
import asyncio
from jupyter_gpudask.errors import catalog
from jupyter_gpudask.machine import gpus, plan
from jupyter_gpudask.protocol.spec import ClusterSpec
from jupyter_gpudask.protocol.state import GpuState
from jupyter_gpudask.protocol.verbs import Start
from jupyter_gpudask.supervisor.scaling import plan_and_lease
gpus.visible_gpus = lambda _=None: [GpuState(index=0, uuid={UUID!r}, name="H200")]
plan._check_packages = lambda: None
catalog()  # other users cannot read it
"""
WAIT = """
os.environ["JUPYTER_RUNTIME_DIR"] = str(own)
request = Start(spec=ClusterSpec.parse({"gpus": 1, "wait": True}), parent=os.getpid(), path=())
plan, lease = asyncio.run(plan_and_lease(request, lambda sentence, place: print(sentence, flush=True)))
print("got", plan.gpus[0].uuid, flush=True)
"""


async def line_of(process):
    return await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), 120)


class KernelsWithGpu(NamedKernels):
    """Kernels on a machine with one simulated GPU."""

    def __init__(self, environment):
        super().__init__("a")
        self._environment = environment

    async def interpreter(self, kernel_id):
        interpreter = await super().interpreter(kernel_id)
        return interpreter.model_copy(update={"environment": self._environment})


@as_root
@pytest.mark.cluster
def test_an_idle_cluster_is_kept_if_its_user_answers_and_else_its_gpu_is_given_to_who_waits(monkeypatch, tmp_path):
    async def run(registry, environment):
        manager = ClusterManager(KernelsWithGpu(environment), policy_of(hand_over_after=0.5))
        hand_over = manager.hand_over
        assert hand_over.notice_seconds == 60
        hand_over.notice_seconds = 3600
        hand_over.start()
        try:
            cluster, _ = manager.create("a", ClusterSpec.parse({"gpus": 1, "engine": "cuda"}))
            await until(lambda: cluster.status != "starting")
            assert cluster.status == "ready", cluster.error
            await until(LeaseFolder().idle.read)
            assert cluster.notice is None  # nobody waits
            with process_of(ANNA, registry, WAIT, imports=IMPORTS) as waiter:
                assert re.match(
                    rf"Waiting for GPUs at place 1 in line\. GPU 0 is reserved by user root {SINCE}, idle since",
                    await line_of(waiter),
                )
                await until(lambda: cluster.notice)
                assert re.fullmatch(f"user nobody {SINCE}", cluster.notice.user)
                assert cluster.notice.deadline > time.time() + 600
                manager.hand_over.keep(manager.get("a"))
                assert cluster.notice is None
                assert LeaseFolder().idle.read() == []
                hand_over.notice_seconds = 0
                await until(lambda: cluster.status == "closed")
                assert isinstance(cluster.error, GpusHandedOverError)
                assert re.search(
                    f"because user nobody {SINCE} waits for its GPUs; its results are lost", cluster.error.reason
                )
                said = ""
                while not said.startswith("got"):
                    said = await line_of(waiter)
                assert said == f"got {UUID}\n"
                assert [each.reason for each in registry.usage() if each.uid == os.geteuid()] == ["handed over"]
        finally:
            await manager.close_all()
        assert LeaseFolder().idle.read() == []

    with lease_registry() as registry:
        monkeypatch.setenv(LEASE_DIRECTORY_VARIABLE, str(registry.path))
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
        environment = fake_gpu_environment(FAKE_GPUS="1")
        asyncio.run(run(registry, environment))


class Running:
    """A cluster that has reserved a GPU, which has been idle for an hour."""

    def __init__(self, monkeypatch, **settings):
        self.manager = ClusterManager(NamedKernels("a"), policy_of(hand_over_after=60, **settings))
        self.cluster = KernelCluster("a", ClusterSpec.parse({}), lambda _: None)
        self.cluster.status = "ready"
        monkeypatch.setattr(HandOver, "_gpus", lambda *_: (UUID,))
        self.report(result_bytes=0)
        self.cluster.last_busy -= 3600

    def report(self, executed=5, **values):
        workers = (WorkerState(name="0", executed=executed),)
        state = ClusterState(engine="cuda", status="ready", time=time.time(), workers=workers, **values)
        self.cluster._on_state(state)

    @property
    def is_idle(self):
        return self.manager.hand_over._is_idle(self.cluster)


def test_a_cluster_is_idle_if_it_has_neither_tasks_nor_results_and_its_kernel_runs_nothing(monkeypatch):
    running = Running(monkeypatch)
    assert running.is_idle
    running.manager.kernels.busy = True
    assert not running.is_idle
    running.manager.kernels.busy = False
    assert not running.is_idle  # from now on the time counts

    running = Running(monkeypatch)
    running.manager.kernels.ended = time.monotonic()  # a cell that began and ended between two checks
    assert not running.is_idle

    running = Running(monkeypatch)
    running.report(tasks_unfinished=1)
    assert not running.is_idle

    running = Running(monkeypatch)
    running.report(executed=6)  # a task that began and ended between two reports
    assert not running.is_idle


@pytest.mark.parametrize("gives_results", [False, True])
def test_held_results_count_as_use_unless_the_administrator_says_otherwise(monkeypatch, gives_results):
    running = Running(monkeypatch, hand_over_results=gives_results)
    running.report(result_bytes=8)
    running.cluster.last_busy -= 3600
    assert running.is_idle is gives_results


WAITING = Waiting(1, 1, 1, PublicLease("1.waiting", (UUID,), False, ANNA, 0.0, 1))


def given_over(monkeypatch, answer, before=lambda running: None, after=lambda running: None):
    """Whether a cluster is closed whose notice has ended; `answer` is that of its supervisor."""

    async def read_state(_):
        return answer()

    async def run():
        running = Running(monkeypatch)
        running.manager.clusters["a"] = running.cluster
        running.cluster.notice = Notice("user anna", 0, 0)
        before(running)
        await running.manager.hand_over._give_over(running.cluster, WAITING)
        after(running)
        await asyncio.sleep(0)
        return running

    monkeypatch.setattr(KernelCluster, "ready", object())
    monkeypatch.setattr(KernelCluster, "_read_state", read_state)
    return asyncio.run(run())


def state_with(**values):
    workers = (WorkerState(name="0", executed=5),)
    return ClusterState(engine="cuda", status="ready", time=time.time(), workers=workers, **values)


def no_answer():
    raise ClusterLostError("process-silent", limit=10.0)


def earlier(running):
    running.cluster._updated -= 5


def clock_set_back(running):
    earlier(running)
    running.cluster.state = running.cluster.state.model_copy(update={"time": time.time() + 3600})


@pytest.mark.parametrize("before", [earlier, clock_set_back, lambda _: None])
def test_a_cluster_is_closed_only_if_it_has_just_answered_that_it_is_idle(monkeypatch, before):
    assert given_over(monkeypatch, lambda: state_with(result_bytes=0), before).cluster.status == "closed"
    assert given_over(monkeypatch, lambda: state_with(result_bytes=8), before).cluster.status == "ready"
    assert given_over(monkeypatch, no_answer, before).cluster.status == "ready"


def test_a_cluster_that_has_replaced_an_idle_one_is_not_closed_in_its_place(monkeypatch):
    new = KernelCluster("a", ClusterSpec.parse({}), lambda _: None)
    running = given_over(
        monkeypatch, lambda: state_with(result_bytes=0), after=lambda running: running.manager.clusters.update(a=new)
    )
    assert (new.status, running.cluster.status) == ("starting", "closed")


def test_a_cluster_that_could_not_be_published_with_another_one_is_not_shown_as_idle(monkeypatch, tmp_path):
    enter, entered = WaitingLine.enter, []

    def full(*args, **kwargs):
        if entered:
            raise OSError(errno.ENOSPC, "no space")
        entered.append(enter(*args, **kwargs))
        return entered[0]

    monkeypatch.delenv(LEASE_DIRECTORY_VARIABLE, raising=False)
    monkeypatch.setattr(WaitingLine, "enter", full)
    folder = LeaseFolder(tmp_path)
    with pytest.raises(OSError, match="no space"):
        _publish_and_choose(folder, [((UUID,), 60.0), (("GPU-2",), 60.0)])
    assert folder.idle.read() == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(entered[0].lock)
