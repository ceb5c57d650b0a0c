"""The cuda engine on a real LocalCUDACluster, whose GPUs only NVML pretends to have."""

import asyncio
import os

import pytest
from helpers import fake_gpu_environment, pids_of_session

from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.errors import ClusterStartError, GpuPackagesMissingError, GpuUnavailableError
from jupyter_gpudask.launcher.cluster_process import ClusterProcess
from jupyter_gpudask.protocol import ClusterSpec

pytestmark = pytest.mark.cluster

UUIDS = [f"GPU-0000000{index}-1111-2222-3333-444444444444" for index in range(2)]


def start(options, use=None, **settings):
    async def run():
        environment = fake_gpu_environment(**settings)
        cluster = await ClusterProcess.start(ClusterSpec.parse(options), environment=environment)
        try:
            return cluster.ready, None if use is None else await use(cluster), cluster.pid
        finally:
            await cluster.close()

    return asyncio.run(run())


def on_workers(function):
    async def use(cluster):
        def run():
            with connect(cluster.ready, set_as_default=False) as client:
                return client.run(function), client.run_on_scheduler(lambda: dict(os.environ))

        return *await asyncio.to_thread(run), await cluster.state()

    return use


def test_auto_takes_every_gpu_and_each_worker_gets_its_own_by_uuid():
    ready, (environments, scheduler, state), pid = start({}, on_workers(lambda: dict(os.environ)))
    assert ready.engine == "cuda"
    assert [gpu.uuid for gpu in ready.gpus] == UUIDS
    assert sorted(env["CUDA_VISIBLE_DEVICES"].split(",")[0] for env in environments.values()) == UUIDS
    assert {env["CUDA_DEVICE_ORDER"] for env in environments.values()} == {"PCI_BUS_ID"}
    assert scheduler["CUDA_VISIBLE_DEVICES"] == "", "the supervisor can make no CUDA context"
    assert [(worker.gpu_index, worker.gpu_uuid) for worker in state.workers] == list(enumerate(UUIDS))
    first = state.workers[0]
    assert (first.utilization, first.device_memory_total, first.threads) == (37.0, 140 * 2**30, 1)
    assert pids_of_session(pid) == []


def test_named_gpus_alone_are_used():
    ready, (environments, _, state), _ = start({"gpus": "1,"}, on_workers(lambda: dict(os.environ)))
    assert [gpu.index for gpu in ready.gpus] == [1]
    assert [env["CUDA_VISIBLE_DEVICES"] for env in environments.values()] == [UUIDS[1]]
    assert [worker.gpu_index for worker in state.workers] == [1]


def test_gpus_hidden_from_the_kernel_are_not_used():
    ready, _, _ = start({}, CUDA_VISIBLE_DEVICES="1")
    assert [gpu.index for gpu in ready.gpus] == [1]


def test_spill_threshold_and_pool_reach_the_workers_in_bytes():
    def look(dask_worker):
        setup = next(plugin for plugin in dask_worker.plugins.values() if type(plugin).__name__ == "RMMSetup")
        return dask_worker.data.device_buffer.n, setup.initial_pool_size, setup.async_alloc

    options = {"gpus": 1, "pool": 0.5, "spill_threshold": "20GB"}
    _, (found, _, _), _ = start(options, on_workers(look))
    assert list(found.values()) == [(20 * 10**9, 70 * 2**30, False)]


def test_without_a_pool_nothing_is_reserved_and_cupy_allocates_through_rmm():
    def look(dask_worker):
        setup = next(plugin for plugin in dask_worker.plugins.values() if type(plugin).__name__ == "RMMSetup")
        return setup.initial_pool_size, setup.external_lib_list

    _, (found, _, _), _ = start({"gpus": 1}, on_workers(look))
    assert list(found.values()) == [(None, ["cupy"])]


def test_a_gpu_without_the_packages_is_an_error_with_the_command_and_no_stand_in():
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
def test_gpus_that_cannot_be_had_are_refused_before_a_worker_starts(options, settings, sentence):
    with pytest.raises(GpuUnavailableError, match=sentence):
        start(options, **settings)


@pytest.mark.parametrize("settings", [{"FAKE_NVML_ERROR": "LIBRARY_NOT_FOUND"}, {"FAKE_GPUS": "0"}])
def test_auto_falls_back_to_the_stand_in_and_says_why(settings):
    ready, _, _ = start({}, **settings)
    assert ready.engine == "cpu"
    assert ready.stand_in


@pytest.mark.parametrize("options", [{}, {"engine": "cpu"}])
@pytest.mark.parametrize("devices", ["-1", "all"])
def test_a_value_of_cuda_visible_devices_that_is_no_gpu_means_that_there_is_none(options, devices):
    ready, _, _ = start(options, CUDA_VISIBLE_DEVICES=devices)
    assert ready.engine == "cpu"
    hidden = f'CUDA_VISIBLE_DEVICES="{devices}" hides all GPUs of this machine (2) from the kernel.'
    assert options or ready.stand_in == hidden


def test_the_stand_in_runs_where_a_gpu_is_listed_by_the_beginning_of_its_uuid():
    ready, _, _ = start({"engine": "cpu"}, CUDA_VISIBLE_DEVICES=UUIDS[1][:12])
    assert ready.engine == "cpu"


def test_a_worker_that_cannot_set_up_its_gpu_shows_its_reason_and_its_log():
    with pytest.raises(ClusterStartError) as raised:
        start({"gpus": 1}, FAKE_BROKEN_PACKAGE="cudf")
    assert "A worker died while it started: RuntimeError: this package is broken" in raised.value.reason
    assert "Traceback" in raised.value.log
    assert raised.value.fix == ""


def test_a_worker_whose_gpu_is_lost_says_that_this_gpu_does_not_work():
    lost = "cudaErrorECCUncorrectable: uncorrectable ECC error encountered"
    with pytest.raises(ClusterStartError) as raised:
        start({"gpus": 1}, FAKE_BROKEN_PACKAGE="cudf", FAKE_ERROR=lost)
    assert raised.value.reason == f"A worker died while it started: RuntimeError: {lost}."
    assert raised.value.fix.startswith("Its GPU does not work any more: choose others with --gpus")
