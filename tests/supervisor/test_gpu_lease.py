"""Which GPUs a new cluster gets while other starts wait in line."""

import asyncio

import pytest

from jupyter_gpudask.errors import GpuHeldError
from jupyter_gpudask.machine.leases import LeaseFolder
from jupyter_gpudask.protocol import ClusterSpec, GpuState, Start
from jupyter_gpudask.supervisor.scaling import plan_and_lease


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The leases on four GPUs."""
    found = [GpuState(index=i, uuid=f"GPU-{i}", name="H200") for i in range(4)]
    monkeypatch.setattr("jupyter_gpudask.machine.gpus.visible_gpus", lambda _=None: found)
    monkeypatch.setattr("jupyter_gpudask.machine.plan._check_packages", lambda: None)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    folder = LeaseFolder()
    with folder.locked():
        return folder


def lease(kernel_id="", **options):
    """The indices of the GPUs that a cluster gets, and its lease."""
    request = Start(spec=ClusterSpec.parse(options), path=(), kernel_id=kernel_id)
    plan, held = asyncio.run(plan_and_lease(request, print))
    return [gpu.index for gpu in plan.gpus], held


def gets(**options):
    try:
        chosen, held = lease(**options)
    except GpuHeldError as error:
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


def test_starts_that_share_do_not_wait_for_each_other(folder):
    place = folder.line.enter(["GPU-0"], share=True)
    assert gets(gpus=[0], share=True) == [0]
    assert gets(gpus=[0]) == REFUSED
    place.leave()


def test_starts_that_wait_get_their_gpus_in_turn_and_nobody_two(folder):
    _, held = lease(gpus=[0])

    async def run():
        said = {number: [] for number in range(3)}
        held_by = {}

        async def wait(number):
            request = Start(spec=ClusterSpec.parse({"gpus": [0], "wait": True}), path=())
            _, held_by[number] = await plan_and_lease(request, said[number].append)

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

    asyncio.run(run())
    assert folder.line.read() == []
    assert [path.name for path in folder.path.iterdir()] == ["mutex"]


def test_a_cluster_may_use_the_gpu_of_its_accelerated_kernel_and_no_other(folder):
    with folder.locked():
        accelerated = folder.take(["GPU-0"], holder="a.ipynb", kernel_id="a", share=False, accelerates=True)
    assert gets(gpus="all", kernel_id="a") == [0, 1, 2, 3]
    assert gets(gpus="all", kernel_id="") == [0, 1, 2, 3]  # the kernel has started it without a server
    assert gets(gpus="free", kernel_id="b") == [1, 2, 3]
    assert gets(gpus="all", kernel_id="b") == "GPU 0 is held by a.ipynb."
    accelerated.release()
