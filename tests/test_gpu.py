"""What only a real GPU can show: `pytest -m gpu` on a machine with the GPU packages."""

import importlib.util

import psutil
import pytest
from helpers import Kernel, pids_of_session

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.gpus import list_gpus

pytestmark = pytest.mark.gpu


def contexts():
    """Device memory of each process that has a CUDA context, as NVML tells."""
    return {process.pid: process.memory for gpu in list_gpus() for process in gpu.processes}


def has_gpus():
    try:
        return bool(list_gpus()) and importlib.util.find_spec("cudf") is not None
    except GpuUnavailableError:
        return False


if not has_gpus():
    pytest.skip("needs a GPU and cuDF", allow_module_level=True)


@pytest.fixture
def gpu():
    """A kernel with a cluster on one real GPU."""
    kernel = Kernel()
    kernel.ok("%load_ext jupyter_gpudask")

    def start(options="--gpus 1"):
        kernel.ok(f"started = %gpudask start {options}\nclient = started.client", timeout=120)
        return kernel

    yield start
    kernel.shutdown()


def state(kernel):
    kernel.ok("import time; time.sleep(1.2)\nstatus = %gpudask status")
    return eval(kernel.ok("status.state.workers[0].model_dump()").value)  # noqa: S307 - a literal of our own


def test_arrays_are_cupy_in_the_cell_in_the_workers_and_in_the_kernel(gpu):
    kernel = gpu()
    kernel.ok("%%gpudask\nimport cupy, dask.array as da\nx = da.random.normal(size=(1000, 1000), chunks=500)")
    assert kernel.ok("type(x._meta) is cupy.ndarray, type((x + 1).compute()) is cupy.ndarray").value == "(True, True)"
    kinds = "lambda dask_worker: {type(value).__module__ for value in dask_worker.data.values()}"
    kernel.ok("kept = x.persist()\nfrom distributed import wait; wait(kept)")
    assert kernel.ok(f"set().union(*client.run({kinds}).values())").value == "{'cupy'}"
    assert kernel.ok("type(da.ones(3).compute()).__module__").value == "'numpy'"


def test_frames_are_cudf_and_agree_with_pandas(gpu, tmp_path):
    kernel = gpu()
    kernel.ok(
        "import numpy as np, pandas as pd\n"
        "frame = pd.DataFrame({'key': np.arange(10_000) % 7, 'value': np.arange(10_000.0)})\n"
        f"frame.to_parquet({str(tmp_path / 'data.parquet')!r})"
    )
    kernel.ok(
        "%%gpudask\n"
        "import cudf, dask.dataframe as dd\n"
        f"ddf = dd.read_parquet({str(tmp_path / 'data.parquet')!r})\n"
        "means = ddf.groupby('key').value.mean().compute()"
    )
    assert kernel.ok("type(ddf._meta) is cudf.DataFrame, type(means) is cudf.Series").value == "(True, True)"
    kernel.ok("pd.testing.assert_series_equal(means.to_pandas().sort_index(), frame.groupby('key').value.mean())")


def test_only_the_workers_and_the_kernel_have_a_cuda_context_and_none_is_left(gpu):
    before = contexts()
    kernel = gpu()
    kernel.ok(
        "%%gpudask\nimport cupy, dask.array as da, cudf, dask.dataframe as dd\n"
        "da.linalg.svd(da.random.random((5000, 50), chunks=(1000, 50)))[1].compute()\n"
        "dd.from_dict({'a': list(range(100))}, npartitions=4).a.sum().compute()"
    )
    supervisor = kernel.supervisor()
    held = contexts()
    assert supervisor not in held
    assert state(kernel)["pid"] in held
    assert kernel.pid in held
    kernel.ok("%gpudask stop")
    assert pids_of_session(supervisor) == []
    assert set(contexts()) - set(before) == {kernel.pid}


def test_a_task_that_computes_gpu_arrays_gives_the_scheduler_no_context(gpu):
    kernel = gpu("--gpus 1 --threads 2")
    kernel.ok(
        "def inside():\n"
        "    import cupy, dask, dask.array as da\n"
        "    from distributed import worker_client\n"
        "    with worker_client(), dask.config.set({'array.backend': 'cupy'}):\n"
        "        return float((da.ones((100, 100), chunks=50) + 1).sum().compute())"
    )
    assert kernel.ok("client.submit(inside).result()").value == "20000.0"
    assert kernel.supervisor() not in contexts()


def test_the_pool_is_of_the_size_asked_for_and_shared_by_cupy_and_cudf(gpu):
    kernel = gpu("--gpus 1 --pool 10GB")
    kernel.ok(
        "%%gpudask\nimport dask.array as da\n"
        "x = da.random.random((10_000, 10_000), chunks=10_000).persist()\nx.sum().compute()"
    )
    figures = state(kernel)
    assert figures["pool_size"] == pytest.approx(10e9, rel=0.01)
    assert 8e8 <= figures["pool_used"] < 2e9
    assert figures["device_memory_used"] > 10e9
    kernel.ok(
        "held = client.submit(lambda: __import__('cudf').Series(range(1000)))\nfrom distributed import wait; wait(held)"
    )
    assert state(kernel)["pool_used"] > figures["pool_used"]


def test_without_a_pool_nothing_is_reserved(gpu):
    figures = state(gpu())
    assert figures["pool_used"] is not None
    held = contexts()[figures["pid"]]
    assert held < 2e9, held


def test_results_above_the_threshold_move_to_the_host_and_are_told(gpu):
    kernel = gpu("--gpus 1 --spill-threshold 2GB")
    kernel.ok("%%gpudask\nimport dask.array as da\nx = da.ones((10_000, 60_000), chunks=10_000).persist()")
    kernel.ok("from distributed import wait; wait(x)")
    assert state(kernel)["spilled_to_host"] == pytest.approx(2.4e9, rel=0.5)
    assert kernel.ok("float(x.sum().compute())").value == "600000000.0"


def test_spilling_by_cudf_works_from_the_worker_to_the_kernel(gpu):
    kernel = gpu("--gpus 1 --spilling cudf")
    kernel.ok(
        "%%gpudask\nimport dask.dataframe as dd\n"
        "frame = dd.from_dict({'a': list(range(1000))}, npartitions=4)\n"
        "total = frame.a.sum().compute()\nback = frame.compute()"
    )
    assert kernel.ok("int(total), len(back), type(back).__module__.split('.')[0]").value == "(499500, 1000, 'cudf')"
    assert kernel.supervisor() not in contexts()


def test_a_pool_that_does_not_fit_is_refused_before_anything_starts(gpu):
    kernel = gpu()
    kernel.ok("%gpudask stop")
    children = len(psutil.Process(kernel.pid).children(recursive=True))
    reply = kernel.run("%gpudask start --gpus 1 --pool 10TB")
    assert "asks for 9.1 TiB on each GPU" in reply.printed
    assert len(psutil.Process(kernel.pid).children(recursive=True)) <= children


def test_two_gpus_share_the_work(gpu):
    if len(list_gpus()) < 2:
        pytest.skip("needs two GPUs")
    kernel = gpu("--gpus 2")
    kernel.ok("%%gpudask\nimport dask.array as da\nx = da.random.normal(size=(40_000, 40_000), chunks=5_000).persist()")
    kernel.ok("from distributed import wait; wait(x)")
    assert kernel.ok("sorted(len(keys) > 10 for keys in client.has_what().values())").value == "[True, True]"
    kernel.ok("def uuid():\n    import cupy\n    return cupy.cuda.runtime.getDeviceProperties(0)['uuid']")
    assert kernel.ok("len(set(client.run(uuid).values()))").value == "2"


@pytest.mark.parametrize("options", ["--protocol ucx --pool 0.3", "--protocol ucx"])
def test_ucx_moves_arrays_between_two_gpus(gpu, options):
    if len(list_gpus()) < 2:
        pytest.skip("needs two GPUs")
    kernel = gpu(options)
    assert "UCX knows no TLS" in kernel.ok("started").value
    assert kernel.ok("client.scheduler.address[:3]").value == "'ucx'"
    kernel.ok(
        "%%gpudask\nimport dask.array as da\n"
        "x = da.random.normal(size=(20_000, 20_000), chunks=2_000)\ny = float((x @ x.T).sum().compute())"
    )
