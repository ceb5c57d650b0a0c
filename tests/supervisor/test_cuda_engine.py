"""The cuda engine on a real LocalCUDACluster, whose GPUs only NVML pretends to have."""

import json
import os

import pytest
from helpers import RunningCluster, fake_gpu_environment, pids_of_session

from jupyter_gpudask.errors import ClusterStartError, GpuPackagesMissingError

pytestmark = pytest.mark.cluster

UUIDS = [f"GPU-0000000{index}-1111-2222-3333-444444444444" for index in range(2)]


def start(options, **settings):
    return RunningCluster(options, environment=fake_gpu_environment(**settings))


def environment_and_store(dask_worker):
    setup = next(plugin for plugin in dask_worker.plugins.values() if type(plugin).__name__ == "RMMSetup")
    return (
        dict(os.environ),
        getattr(getattr(dask_worker.data, "device_buffer", None), "n", None),
        (setup.initial_pool_size, setup.async_alloc, setup.external_lib_list),
    )


def test_auto_takes_every_gpu_each_worker_gets_its_own_by_uuid_and_without_a_pool_nothing_is_reserved():
    with start({}) as cluster:
        ready, state = cluster.process.ready, cluster.state()
        environments, _, allocators = zip(*cluster.client.run(environment_and_store).values(), strict=True)
        scheduler = cluster.client.run_on_scheduler(lambda: dict(os.environ))
    assert ready.engine == "cuda"
    assert [gpu.uuid for gpu in ready.gpus] == UUIDS
    assert sorted(env["CUDA_VISIBLE_DEVICES"].split(",")[0] for env in environments) == UUIDS
    assert {env["CUDA_DEVICE_ORDER"] for env in environments} == {"PCI_BUS_ID"}
    assert allocators == ((None, False, ["cupy"]),) * 2
    assert scheduler["CUDA_VISIBLE_DEVICES"] == "", "the supervisor can make no CUDA context"
    assert [(worker.gpu_index, worker.gpu_uuid) for worker in state.workers] == list(enumerate(UUIDS))
    first = state.workers[0]
    assert (first.utilization, first.device_memory_total, first.threads) == (37.0, 140 * 2**30, 1)
    assert pids_of_session(cluster.process.pid) == []


def test_named_gpus_alone_are_used_and_spill_threshold_and_pool_reach_the_workers_in_bytes():
    with start({"gpus": "1,", "pool": 0.5, "spill_threshold": "20GB"}) as cluster:
        ready, state = cluster.process.ready, cluster.state()
        ((environment, threshold, allocator),) = cluster.client.run(environment_and_store).values()
    assert [gpu.index for gpu in ready.gpus] == [1]
    assert environment["CUDA_VISIBLE_DEVICES"] == UUIDS[1]
    assert [worker.gpu_index for worker in state.workers] == [1]
    assert threshold == 20 * 10**9
    assert allocator == (70 * 2**30, False, ["cupy"])


@pytest.mark.parametrize(("spilling", "expected"), [("off", (False, "off")), ("cudf", (True, None))])
def test_a_worker_imports_cudf_at_its_start_only_to_switch_its_spilling_on(spilling, expected):
    def look(dask_worker):
        names = {type(plugin).__name__ for plugin in dask_worker.plugins.values()}
        return "CUDFSetup" in names, os.environ.get("CUDF_SPILL")

    with start({"gpus": 1, "spilling": spilling}) as cluster:
        assert list(cluster.client.run(look).values()) == [expected]


PLAN = """
import json
from jupyter_gpudask.errors import GpuDaskError
from jupyter_gpudask.machine.plan import check_memory, make_plan
from jupyter_gpudask.protocol.spec import ClusterSpec
try:
    plan = make_plan(ClusterSpec.parse(OPTIONS))
    check_memory(plan.pool, plan.gpus)
    print(json.dumps([plan.engine, [gpu.index for gpu in plan.gpus], plan.cpu_reason]))
except GpuDaskError as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


@pytest.fixture
def plan(run_python):
    """What a cluster with these options would be, or the error of its start."""

    def plan(options, **settings):
        return json.loads(run_python(f"OPTIONS = {options!r}{PLAN}", fake_gpu_environment(**settings)))

    return plan


def test_a_gpu_without_the_packages_is_an_error_with_the_command_and_not_the_cpu():
    with pytest.raises(GpuPackagesMissingError) as raised:
        start({}, FAKE_GPU_PACKAGES="cupy,rmm")
    assert "lacks cuDF, dask-cudf" in str(raised.value)
    assert '%pip install "jupyter_gpudask[cu13]' in str(raised.value)


@pytest.mark.parametrize(
    ("options", "settings", "sentence"),
    [
        ({"pool": "200GB"}, {}, "asks for 186 GiB on each GPU, and GPU 0 has 139 GiB free"),
        (
            {"pool": 0.5},
            {"FAKE_GPU_USED": str(100 * 2**30)},
            "asks for 70.0 GiB on each GPU, and GPU 0 has 40.0 GiB free",
        ),
        ({"gpus": "7,"}, {}, "There is no GPU 7"),
        ({"gpus": 3}, {}, "and this kernel sees"),
        ({"engine": "cuda"}, {"FAKE_NVML_ERROR": "LIBRARY_NOT_FOUND"}, "no NVIDIA driver"),
        ({"gpus": 1}, {"FAKE_NVML_ERROR": "DRIVER_NOT_LOADED"}, "not loaded"),
        ({"engine": "cuda"}, {"FAKE_GPUS": "0"}, "No GPU is visible"),
    ],
)
def test_gpus_that_cannot_be_had_are_refused(plan, options, settings, sentence):
    error, message = plan(options, **settings)
    assert error == "GpuUnavailableError"
    assert sentence in message


HIDDEN = 'CUDA_VISIBLE_DEVICES="{}" hides all GPUs of this machine (2) from the kernel.'
NONE = "No GPU is visible to this kernel: the NVIDIA driver lists none."


@pytest.mark.parametrize(
    ("options", "settings", "expected"),
    [
        ({}, {"FAKE_NVML_ERROR": "LIBRARY_NOT_FOUND"}, ["cpu", [], "This machine has no NVIDIA driver."]),
        ({}, {"FAKE_GPUS": "0"}, ["cpu", [], NONE]),
        ({}, {"CUDA_VISIBLE_DEVICES": "-1"}, ["cpu", [], HIDDEN.format(-1)]),
        ({}, {"CUDA_VISIBLE_DEVICES": "all"}, ["cpu", [], HIDDEN.format("all")]),
        ({}, {"CUDA_VISIBLE_DEVICES": "1"}, ["cuda", [1], ""]),
    ],
)
def test_auto_takes_the_visible_gpus_or_else_the_cpu_and_says_why(plan, options, settings, expected):
    assert plan(options, **settings) == expected


def test_a_worker_whose_gpu_is_lost_says_that_this_gpu_does_not_work():
    lost = "cudaErrorECCUncorrectable: uncorrectable ECC error encountered"
    with pytest.raises(ClusterStartError) as raised:
        start({"gpus": 1}, FAKE_BROKEN_PACKAGE="cupy", FAKE_ERROR=lost)
    assert raised.value.reason == f"A worker died while it started: RuntimeError: {lost}."
    assert "Traceback" in raised.value.log
    assert raised.value.fix.startswith("Its GPU does not work any more: choose others with --gpus")
