"""Who holds which GPU, across processes, and what of it the dead leave."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest
from helpers import fake_gpu_environment, wait_until

from jupyter_gpudask.errors import GpuReservedError, GpuUnavailableError
from jupyter_gpudask.launcher.cluster import ClusterProcess
from jupyter_gpudask.machine.leases import Lease, LeaseFolder
from jupyter_gpudask.machine.plan import check_replacement, make_plan
from jupyter_gpudask.protocol.spec import ClusterSpec
from jupyter_gpudask.protocol.state import GpuProcess, GpuState

HOLDER = """
import sys, time, pathlib
from jupyter_gpudask.machine.leases import LeaseFolder
folder = LeaseFolder(pathlib.Path(sys.argv[1]))
with folder.lock():
    lease = folder.take(["GPU-0"], holder="analysis.ipynb", kernel_id="k", share=False)
print("held", flush=True)
time.sleep(60)
"""


def test_a_lease_is_seen_by_other_processes_and_ends_with_its_holder_however_that_ends(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        folder = LeaseFolder(tmp_path)
        with folder.lock() as leases:
            assert leases == [Lease(("GPU-0",), "analysis.ipynb", "k", holder.pid, share=False)]
        os.kill(holder.pid, signal.SIGKILL)
    assert folder.read() == []
    folder.remove_stale()
    assert [path.name for path in tmp_path.iterdir()] == ["mutex"]


def test_a_lease_that_is_given_back_leaves_no_file(tmp_path):
    folder = LeaseFolder(tmp_path)
    with folder.lock():
        lease = folder.take(["GPU-0"], holder="", kernel_id="", share=True)
    assert [(lease.pid, lease.share) for lease in folder.read()] == [(os.getpid(), True)]
    lease.release()
    assert [path.name for path in tmp_path.iterdir()] == ["mutex"]


def test_holders_with_the_same_pid_as_of_two_containers_do_not_meet(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 57)
    folder = LeaseFolder(tmp_path)
    leases = []
    for gpu in ("GPU-0", "GPU-1"):
        with folder.lock():
            leases.append(folder.take([gpu], holder="", kernel_id="", share=False))
    assert sorted(lease.gpus for lease in folder.read()) == [("GPU-0",), ("GPU-1",)]
    leases[0].release()
    assert [lease.gpus for lease in folder.read()] == [("GPU-1",)]
    leases[1].release()


def test_a_lease_is_not_read_before_it_is_complete(tmp_path, monkeypatch):
    folder, seen, write = LeaseFolder(tmp_path), [], os.write

    def write_while_others_look(*arguments):
        folder.remove_stale()  # which would wait for the mutex, had it found anything
        seen.append(folder.read())
        return write(*arguments)

    with folder.lock():
        monkeypatch.setattr(os, "write", write_while_others_look)
        lease = folder.take(["GPU-0"], holder="", kernel_id="", share=False)
    assert seen == [[]]
    assert [lease.gpus for lease in folder.read()] == [("GPU-0",)]
    lease.release()


def test_what_is_left_of_one_who_died_while_taking_a_lease_is_removed(tmp_path):
    (tmp_path / "abc.lease").touch()
    with LeaseFolder(tmp_path).lock() as leases:
        assert leases == []
    assert [path.name for path in tmp_path.iterdir()] == ["mutex"]


GPUS = [GpuState(index=i, uuid=f"GPU-{i}", name="H200", memory_total=100, memory_used=i) for i in range(4)]


def leased(*numbers, share=False, holder="a.ipynb"):
    return Lease(tuple(f"GPU-{number}" for number in numbers), holder, "", 1, share)


@pytest.fixture
def four_gpus(monkeypatch):
    monkeypatch.setattr("jupyter_gpudask.machine.gpus.visible_gpus", lambda _=None: GPUS)
    monkeypatch.setattr("jupyter_gpudask.machine.plan._check_packages", lambda: None)


def chosen(leases, **options):
    return [gpu.index for gpu in make_plan(ClusterSpec.parse(options), leases).gpus]


A, B, SHARED = leased(0), leased(1, holder="b.ipynb"), leased(0, share=True)


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("leases", "options", "expected"),
    [
        ([A], {"gpus": 2}, [1, 2]),
        ([A, leased(2)], {"gpus": 2}, [1, 3]),
        ([], {"gpus": "free"}, [0, 1, 2, 3]),
        ([A, leased(2)], {"gpus": "free"}, [1, 3]),
        ([SHARED, leased(2)], {"gpus": "free", "share": True}, [0, 1, 3]),
        ([leased(0, 1, 2, 3, share=True)], {"gpus": "all", "share": True}, [0, 1, 2, 3]),
    ],
)
def test_a_start_gets_the_freest_gpus_that_nobody_holds_or_shares_those_of_others(leases, options, expected):
    assert chosen(leases, **options) == expected


ALL = [leased(0, 1, 2), leased(3, holder="b.ipynb")]


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("leases", "options", "reason"),
    [
        *(
            ([A, B], {"gpus": gpus}, "GPU 0 is reserved by a.ipynb, GPU 1 is reserved by b.ipynb.")
            for gpus in ("all", [0, 1], 4)
        ),
        (ALL, {"gpus": "free"}, "GPUs 0\N{EN DASH}2 are reserved by a.ipynb, GPU 3 is reserved by b.ipynb."),
        ([SHARED, leased(0, share=True, holder="b.ipynb")], {"gpus": [0]}, "GPU 0 is reserved by a.ipynb and b.ipynb."),
        ([A], {"gpus": [0], "share": True}, "GPU 0 is reserved by a.ipynb."),
    ],
)
def test_a_refusal_names_the_notebooks_and_the_free_gpus_if_there_are_some(leases, options, reason):
    with pytest.raises(GpuReservedError) as refusal:
        chosen(leases, **options)
    assert refusal.value.reason == reason
    assert set(refusal.value.reserved_gpus) == {gpu for lease in leases for gpu in lease.gpus}
    assert ("start on the GPUs that are free with --gpus free" in refusal.value.fix) == (leases is not ALL)


def test_without_a_gpu_free_is_the_cpu_and_an_error_if_gpus_are_required(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("jupyter_gpudask.machine.gpus.list_gpus", list)
    plan = make_plan(ClusterSpec.parse({"gpus": "free"}))
    assert (plan.engine, plan.cpu_reason) == ("cpu", "No GPU is visible to this kernel: the NVIDIA driver lists none.")
    with pytest.raises(GpuUnavailableError):
        make_plan(ClusterSpec.parse({"gpus": "free", "engine": "cuda"}))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"gpus": "all"}, "GPU 1 is reserved by b.ipynb"),
        ({"gpus": 4}, "GPU 1 is reserved by b.ipynb"),
        ({"gpus": 5}, "and this kernel sees 4"),
        ({"gpus": [2], "pool": 95}, "GPU 2 has 92 B free"),
        ({"gpus": [0], "pool": 95}, None),
        ({"gpus": [0], "pool": 97}, "GPU 0 has 96 B free"),
        ({"gpus": [3], "pool": 97}, None),  # whose processes NVML does not list
        ({"gpus": 2}, None),
        ({"gpus": "free"}, None),
        ({"engine": "cpu"}, None),
    ],
)
def test_what_takes_the_place_of_a_cluster_gets_its_gpus_and_memory_and_not_those_of_others(
    monkeypatch, options, error
):
    mine = GpuProcess(pid=os.getpid(), memory=60)
    visible = [
        GpuState(index=0, uuid="GPU-0", name="H200", memory_total=100, memory_used=64, processes=(mine,)),
        GpuState(index=1, uuid="GPU-1", name="H200", memory_total=100, memory_used=4),
        GpuState(index=2, uuid="GPU-2", name="H200", memory_total=100, memory_used=8),
        GpuState(index=3, uuid="GPU-3", name="H200", memory_total=100, memory_used=90),
    ]
    supervisor = os.getsid(0)
    leases = [
        Lease(("GPU-0", "GPU-3"), "a.ipynb", "a", supervisor, share=False),
        Lease(("GPU-1",), "b.ipynb", "b", supervisor + 1, share=False),
    ]
    monkeypatch.setattr("jupyter_gpudask.machine.gpus.visible_gpus", lambda _: visible)
    monkeypatch.setattr(LeaseFolder, "read", lambda _: leases)
    pool = options.pop("pool", None)
    spec = ClusterSpec.parse(options).model_copy(update={"pool": pool})
    if error is None:
        check_replacement(spec, supervisor)
    else:
        with pytest.raises((GpuReservedError, GpuUnavailableError), match=error):
            check_replacement(spec, supervisor)


async def test_two_clusters_with_gpus_respect_each_other_and_starts_wait_in_line(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    environment = fake_gpu_environment(FAKE_GPUS="2")

    def start(on_progress=None, **options):
        spec = ClusterSpec.parse(options)
        return ClusterProcess.start(spec, environment=environment, holder="a.ipynb", on_progress=on_progress)

    async def wait_in_line(**options):
        """A start that waits, and what it says."""
        said = []
        starting = asyncio.create_task(start(wait=True, on_progress=lambda each: said.extend(each.notes), **options))
        await asyncio.to_thread(wait_until, lambda: said or starting.done(), 60)
        return starting, said

    first = await start(gpus=1)
    with pytest.raises(GpuReservedError, match=r"GPU 0 is reserved by a\.ipynb\."):
        await start(gpus=[0], share=True)
    folder = LeaseFolder(tmp_path / "gpudask-leases")
    next_one, said = await wait_in_line(gpus="all")
    assert said == ["Waiting for GPUs at place 1 in line. GPU 0 is reserved by a.ipynb."]
    interrupted, said = await wait_in_line(gpus=1)
    assert said[0].startswith("Waiting for GPUs at place 2 in line. Others wait for these GPUs, first in line: ")
    interrupted.cancel()
    await asyncio.gather(interrupted, return_exceptions=True)
    assert len(folder.line.read()) == 1
    with pytest.raises(GpuReservedError, match=r"Others wait for these GPUs, first in line: a\.ipynb since "):
        await start(gpus=1)
    monkeypatch.setattr("jupyter_gpudask.machine.gpus.visible_gpus", lambda _: list(first.ready.gpus))
    with pytest.raises(GpuReservedError, match="Not restarted, because others wait for GPUs"):
        check_replacement(ClusterSpec.parse({"gpus": 1}), first.pid)
    assert [lease.pid for lease in folder.read()] == [first.pid]
    os.kill(first.pid, signal.SIGKILL)
    second = await next_one
    assert len(second.ready.gpus) == 2
    assert [lease.pid for lease in folder.read()] == [second.pid]
    assert folder.line.read() == []
    await first.close()
    await second.close()
    assert list(folder.path.glob("*.lease")) == []
