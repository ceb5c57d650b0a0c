"""What only a real GPU can show: `pytest -m gpu` on a machine with the GPU packages."""

import importlib.util
import re

import psutil
import pytest
from distributed import Client
from helpers import Kernel, pids_of_session
from others import DASK, OthersCluster

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.machine.gpus import list_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.cluster]


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
    kernel.ok("%load_ext jupyter_gpudask\n%config GpuDask.results = 'gpu'")

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


def test_files_that_fit_on_a_gpu_are_read_as_one_partition_and_others_beside_them_too(gpu, tmp_path):
    kernel = gpu()
    kernel.ok(
        "import numpy as np, pandas as pd\n"
        "parts = [pd.DataFrame({'key': np.arange(1000) % 7, 'x': np.arange(1000.0) + n, 'y': 1.0}) for n in range(5)]\n"
        f"folder, other = {str(tmp_path / 'files')!r}, {str(tmp_path / 'others')!r}\n"
        "import os; os.mkdir(folder); os.mkdir(other)\n"
        "for n, part in enumerate(parts):\n"
        "    part.to_parquet(f'{folder}/{n}.parquet')\n"
        "    part.rename(columns={'key': 'k'}).to_parquet(f'{other}/{n}.parquet')\n"
        "frame = pd.concat(parts)"
    )
    kernel.ok(
        "%%gpudask --results host\n"
        "import dask.dataframe as dd\n"
        "ddf, ddo = dd.read_parquet(folder), dd.read_parquet(other)\n"
        "merged = ddf.merge(ddo[['k', 'x']], left_on='key', right_on='k')\n"
        "partitions = merged.optimize().npartitions\n"
        "sums = merged.groupby('key').x_x.sum().compute()\n"
        "index = ddf.x.compute().index\n"
        "beside = (ddf.x + ddo.y).sum().compute()"
    )
    assert kernel.ok("ddf.npartitions, partitions").value == "(5, 1)"
    assert kernel.ok("float(beside) == float((frame.x + frame.y).sum())").value == "True"
    assert kernel.ok("index.equals(frame.index)").value == "True"
    kernel.ok(
        "expected = frame.merge(frame, on='key').groupby('key').x_x.sum()\n"
        "pd.testing.assert_series_equal(sums.sort_index(), expected)"
    )


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
    metrics = state(kernel)
    assert metrics["pool_size"] == pytest.approx(10e9, rel=0.01)
    assert 8e8 <= metrics["pool_used"] < 2e9
    assert metrics["device_memory_used"] > 10e9
    kernel.ok(
        "held = client.submit(lambda: __import__('cudf').Series(range(1000)))\nfrom distributed import wait; wait(held)"
    )
    assert state(kernel)["pool_used"] > metrics["pool_used"]


def test_without_a_pool_nothing_is_reserved(gpu):
    metrics = state(gpu())
    assert metrics["pool_used"] is not None
    held = contexts()[metrics["pid"]]
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
    kernel.ok("def uuid():\n    import cupy\n    return cupy.cuda.runtime.getDeviceProperties(0)['uuid']")
    # This also waits for both workers, which may still import cuDF: the first one would compute most blocks.
    assert kernel.ok("len(set(client.run(uuid).values()))").value == "2"
    kernel.ok("%%gpudask\nimport dask.array as da\nx = da.random.normal(size=(40_000, 40_000), chunks=5_000).persist()")
    kernel.ok("from distributed import wait; wait(x)")
    assert kernel.ok("sorted(len(keys) > 10 for keys in client.has_what().values())").value == "[True, True]"


@pytest.mark.parametrize("options", ["--protocol ucx --pool 0.3", "--protocol ucx"])
def test_ucx_moves_arrays_between_two_gpus(gpu, options):
    if len(list_gpus()) < 2:
        pytest.skip("needs two GPUs")
    kernel = gpu(options)
    assert "UCX does not support TLS" in kernel.ok("started").value
    assert kernel.ok("client.scheduler.address[:3]").value == "'ucx'"
    kernel.ok(
        "%%gpudask\nimport dask.array as da\n"
        "x = da.random.normal(size=(20_000, 20_000), chunks=2_000).persist()\ny = float((x @ x.T).sum().compute())"
    )


FRAMES = (
    "import numpy as np, pandas as pd, cudf, dask.dataframe as dd\n"
    "data = pd.DataFrame({'key': np.arange(10_000) % 7, 'value': np.arange(10_000.0)})\n"
    "outside = dd.from_pandas(data, npartitions=4)\n"
)
RANDOM = "import dask.array as da\nx = da.random.random((10_000, 10_000), chunks=5_000)\n"


def peak_of(reply):
    amount, unit = re.search(r"peak ([\d.]+) (\w+) on GPU \d", reply.displayed[-1]).groups()
    return float(amount) * {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]


def test_the_footer_tells_the_peak_of_the_cell_alone(gpu):
    kernel = gpu()
    reply = kernel.ok(
        "%%gpudask\nimport dask.array as da\nfloat(da.random.random((10_000, 10_000), chunks=5_000).sum().compute())"
    )
    assert reply.displayed[-1].startswith("CuPy and cuDF on 1 × NVIDIA ")
    assert 2e8 <= peak_of(reply) < 4e9
    assert peak_of(kernel.ok("%%gpudask\nfloat(da.ones((100, 100), chunks=50).sum().compute())")) < 2e8
    kept = kernel.ok(
        "%%gpudask\nkept = da.random.random((10_000, 10_000), chunks=5_000).persist()\nfloat(kept[0, 0].compute())"
    )
    assert peak_of(kept) >= 8e8
    assert state(kernel)["pool_used"] >= 8e8


def test_parts_on_the_host_overlap_and_their_threads_leave_no_plans_of_transforms(gpu):
    kernel = gpu()
    kernel.ok(
        "import time, cupy, numpy as np, dask.array as da, threading\n"
        "def transformed(block):\n    return abs(cupy.fft.fft(block, axis=1))\n"
        "def on_host(block):\n    values = np.asarray(block)\n    time.sleep(0.1)\n    return values + 1\n"
        "def use(dask_worker):\n    import gc\n    from jupyter_gpudask.worker import memory\n    gc.collect()\n"
        "    return memory.pool_metrics()[0], threading.active_count()"
    )
    # A length that is a prime number needs a large work area for its plan.
    code = (
        "%%gpudask\nx = da.random.RandomState(1).random_sample((64 * 200, 10007), chunks=(200, 10007))\n"
        "began = time.monotonic()\n"
        "total = x.map_blocks(transformed, dtype=float).map_blocks(on_host, dtype=float)"
        ".map_blocks(transformed, dtype=float).sum().compute()\n"
        "del x\nround(float(total)), time.monotonic() - began"
    )
    value, _ = eval(kernel.ok(code).value)  # noqa: S307
    ((used, threads),) = eval(kernel.ok("list(client.run(use).values())").value)  # noqa: S307
    for _ in range(3):
        again, seconds = eval(kernel.ok(code).value)  # noqa: S307
        assert again == value
    ((used_later, threads_later),) = eval(kernel.ok("list(client.run(use).values())").value)  # noqa: S307
    assert used_later - used < 200 * 10007 * 16 * 4, (used, used_later)
    assert threads_later <= threads + 2, (threads, threads_later)
    assert seconds < 64 * 0.1, "one after the other"


def test_what_is_held_without_need_is_freed(gpu):
    kernel = gpu()
    kernel.ok(f"%%gpudask\n{RANDOM}result = x.compute()")
    kernel.ok("del result")
    before = sum(contexts().values())
    reply = kernel.ok("freed = %gpudask free\nfreed")
    assert "of device memory freed." in reply.value
    assert before - sum(contexts().values()) > 5e8
    assert eval(kernel.ok("sum(freed.freed.values())").value) > 5e8  # noqa: S307


def test_the_doctor_finds_all_well(gpu):
    kernel = gpu()
    kernel.ok("%%gpudask\nimport dask.array as da\nda.ones(3).sum().compute();")
    kernel.ok("examined = %gpudask doctor", timeout=200)
    assert kernel.ok("[finding for finding in examined.findings if finding.verdict == 'problem']").value == "[]"
    assert set(contexts()) <= {kernel.pid, state(kernel)["pid"]}


def test_results_that_do_not_fit_are_refused(gpu):
    kernel = gpu()
    reply = kernel.run(
        "%%gpudask\nimport dask.array as da\nbig = da.ones((300_000, 300_000), chunks=10_000)\nbig.compute()"
    )
    assert reply.error == "ResultTooLargeError"
    assert "The result big needs" in reply.error_value
    kernel.ok(FRAMES + "import jupyter_gpudask.patches.computation as fitting\nfitting._free_memory = lambda: 1000")
    reply = kernel.run("%%gpudask\nframe = dd.from_pandas(data, npartitions=4)\nframe.compute()")
    assert reply.error == "ResultTooLargeError"
    assert "The result frame needs" in reply.error_value
    assert kernel.ok("%%gpudask --results host\ntype(frame.compute()).__module__[:6]").value == "'pandas'"


def test_frames_from_outside_are_named_moved_and_refused_beside_others(gpu):
    kernel = gpu()
    kernel.ok(FRAMES)
    assert kernel.ok("%%gpudask\noutside.value.sum().compute()").displayed[-1].endswith("on the CPU: outside (line 2)")
    reply = kernel.ok("%%gpudask --move outside\ntype(outside.groupby('key').value.sum().compute()) is cudf.Series")
    assert (reply.value, "on the CPU" in reply.displayed[-1]) == ("True", False)
    assert kernel.ok("type(outside._meta) is pd.DataFrame").value == "True"
    reply = kernel.run("%%gpudask\ninside = dd.from_pandas(data, npartitions=2)\ninside.merge(outside, on='key')")
    assert reply.error == "MixedBackendsError"
    assert "outside is on the CPU and inside on the GPU" in reply.error_value


def test_frames_are_shuffled_sorted_merged_and_grouped_into_many_partitions(gpu):
    kernel = gpu()
    kernel.ok(FRAMES.replace("% 7", "% 977"))
    kernel.ok(
        "%%gpudask\nframe = dd.from_pandas(data, npartitions=24).persist()\n"
        "other = dd.from_pandas(data.assign(twice=data.value * 2), npartitions=16)\n"
        "means = frame.groupby('key').value.mean().compute()\n"
        "again = frame.groupby('key').value.mean().compute()\n"
        "merged = frame.merge(other, on=['key', 'value'], shuffle_method=None).twice.sum().compute()\n"
        "ordered = frame.sort_values('value', ascending=False).head(3)\n"
        "indexed = frame.set_index('value').index.compute()",
        timeout=100,
    )
    kernel.ok("expected = data.groupby('key').value.mean()")
    kernel.ok("pd.testing.assert_series_equal(means.to_pandas().sort_index(), expected, check_dtype=False)")
    kernel.ok("pd.testing.assert_series_equal(again.to_pandas().sort_index(), expected, check_dtype=False)")
    assert kernel.ok("bool(float(merged) == 2 * data.value.sum())").value == "True"
    assert kernel.ok("ordered.value.to_pandas().tolist()").value == "[9999.0, 9998.0, 9997.0]"
    assert kernel.ok("indexed.to_pandas().is_monotonic_increasing, len(indexed)").value == "(True, 10000)"


def test_a_cell_of_arrays_and_frames_agrees_on_both(gpu):
    kernel = gpu()
    kernel.ok(FRAMES)
    reply = kernel.ok(
        "%%gpudask --compare\n"
        "import dask.array as da\n"
        "x = da.arange(10_000, chunks=1_000).reshape((100, 100))\n"
        "deviation = x.std().compute()\nrows = (x @ x.T)[:3].compute()\n"
        "means = dd.from_pandas(data, npartitions=4).groupby('key').value.mean().compute()\nmeans",
        timeout=120,
    )
    assert "times" in reply.value
    assert "NO" not in reply.value
    assert reply.value.count(" yes ") == 4


def test_a_worker_of_dask_cuda_that_the_user_has_started_is_joined_used_and_left(tmp_path):
    def gpudask_plugins(dask_scheduler):
        return sorted(name for name in dask_scheduler.plugins if "gpudask" in name)

    cluster, kernel = OthersCluster(tmp_path), Kernel()
    try:
        worker = cluster.run(DASK, "cuda", "worker", cluster.address, "--no-dashboard")
        with Client(cluster.address, set_as_default=False) as other:
            other.wait_for_workers(len(list_gpus()), timeout=120)
            before = other.run_on_scheduler(gpudask_plugins)
            kernel.ok("%load_ext jupyter_gpudask")
            connected = kernel.ok(f"connected = %gpudask connect {cluster.address}\nconnected", timeout=120).value
            assert f"GPU workers at {cluster.address}" in connected.replace("worker at", "workers at"), cluster.logs()
            kernel.ok(f"%%gpudask\n{RANDOM}result = float(x.max().compute())", timeout=120)
            reply = kernel.ok("%%gpudask\ntype(x._meta).__module__, bool((x <= result).all().compute())", timeout=120)
            assert reply.value == "('cupy', True)"
            assert reply.displayed[-1].startswith("CuPy and cuDF on ")
            kernel.ok(f"{FRAMES}expected = data.groupby('key').value.mean()")
            frame = "dd.from_pandas(data, npartitions=4).groupby('key').value.mean().compute()"
            assert kernel.ok(f"%%gpudask\nbool(({frame} == expected).all())", timeout=120).value == "True"
            kernel.ok("status = %gpudask status")
            memory = kernel.ok("[worker.device_memory_total > 2**30 for worker in status.state.workers]").value
            assert memory == str([True for _ in list_gpus()])
            assert kernel.ok("%gpudask disconnect").value == f"Disconnected from {cluster.address}."
            assert other.run_on_scheduler(gpudask_plugins) == before == []
            assert not any(other.has_what().values())
            assert other.submit(abs, -1).result(timeout=30) == 1
        assert worker.poll() is None
    finally:
        kernel.shutdown()
        cluster.close()


def test_accelerate_runs_pandas_and_scikit_learn_on_the_gpu_beside_a_cluster():
    pytest.importorskip("cuml")
    kernel = Kernel()
    try:
        kernel.ok("%load_ext jupyter_gpudask")
        said = kernel.ok("%gpudask accelerate", timeout=120).value
        assert re.fullmatch(r"pandas and scikit-learn run on GPU \d in this kernel, until it is restarted\.", said)
        kernel.ok(
            "import numpy as np, pandas as pd\nfrom sklearn.cluster import KMeans\n"
            "noise = np.random.default_rng(0).normal(size=(9_000, 2))\n"
            "points = pd.DataFrame(noise + 20 * (np.arange(9_000) % 3)[:, None])\n"
            "clusters = KMeans(n_clusters=3, n_init=3, random_state=0).fit(points.to_numpy())\n"
            "sizes = pd.Series(clusters.labels_).value_counts()",
            timeout=120,
        )
        assert kernel.ok("type(sizes._fsproxy_wrapped).__module__.partition('.')[0]").value == "'cudf'"
        assert kernel.ok("type(clusters._gpu).__module__.partition('.')[0]").value == "'cuml'"
        assert kernel.ok("sizes.tolist()").value == "[3000, 3000, 3000]"
        assert kernel.pid in contexts()
        kernel.ok("%gpudask start --gpus 1", timeout=120)
        work = f"{RANDOM}float(x.max().compute()) < 1"
        refused = kernel.run(f"%%gpudask\n{work}", timeout=120)
        assert "cannot use cuDF in a kernel in which cudf.pandas" in refused.error_value
        assert kernel.ok(f"%%gpudask --dataframe pandas\n{work}", timeout=120).value == "True"
    finally:
        kernel.shutdown()


def test_scripts_switch_too(run_python):
    printed = run_python(
        "import dask.array as da, dask.dataframe as dd, jupyter_gpudask\n"
        "with jupyter_gpudask.gpu(gpus=1, results='gpu'):\n"
        "    print(type(da.ones(3).compute()).__module__)\n"
        "    print(type(dd.from_dict({'a': [1]}, npartitions=1).compute()).__module__)\n"
        "print(type(da.ones(3).compute()).__module__)\n"
    )
    assert printed.split("\n")[:3] == ["cupy", "cudf.core.dataframe", "numpy"]


OUT_OF_BOUNDS = """
def assign(b):
    b = b.copy(); b[[0, 0, 0]] = [5, 6, 7]; return b
def illegal(b):
    import cupy
    kernel = cupy.RawKernel('extern "C" __global__ void k(double* p) { p[1000000000000ULL] = 1.0; }', "k")
    kernel((1,), (1,), (b,)); cupy.cuda.Device().synchronize(); return b
def once(b, marker):
    import pathlib
    if not pathlib.Path(marker).exists():
        pathlib.Path(marker).touch(); illegal(b)
    return b
def launched(b, marker):
    import cupy, pathlib
    if not pathlib.Path(marker).exists():
        pathlib.Path(marker).touch()
        cupy.RawKernel('extern "C" __global__ void k(double* p) { p[1000000000000ULL] = 1.0; }', "k")((1,), (1,), (b,))
    return b
"""


def test_an_index_out_of_bounds_leaves_the_kernel_its_gpu(gpu):
    kernel = gpu()
    kernel.ok(OUT_OF_BOUNDS)
    made = kernel.ok(
        "%%gpudask\nimport dask.array as da\n"
        "y = da.zeros(6, chunks=3, dtype=int).map_blocks(assign, dtype=int)\n"
        "str(y._meta.dtype), y.compute().tolist()[1:3]"
    )
    assert made.value == "('int64', [0, 0])"
    assert kernel.ok("%%gpudask\nfloat(da.ones(10, chunks=5).sum().compute())").value == "10.0"


@pytest.mark.parametrize("function", ["once", "launched"])
def test_a_worker_whose_context_an_illegal_access_has_broken_is_replaced(gpu, tmp_path, function):
    kernel = gpu()
    kernel.ok(OUT_OF_BOUNDS + f"marker = {str(tmp_path / 'marker')!r}")
    kernel.ok("%%gpudask\nimport dask.array as da\nkept = da.arange(10, chunks=5).persist()\nkept.sum().compute()")
    mapped = f"da.ones(100, chunks=10).map_blocks({function}, marker, dtype=float)"
    assert kernel.ok(f"%%gpudask\nfloat({mapped}.sum().compute())", timeout=120).value == "100.0"
    kernel.ok("import time; time.sleep(3)")
    assert kernel.ok("%%gpudask\nfloat(kept.sum().compute())", timeout=120).value == "45.0"
    kernel.ok("magics = get_ipython().magics_manager.registry['GpuDaskMagics']")
    reasons = eval(kernel.ok("[each.reason for each in magics.session.cluster.state().worker_exits]").value)  # noqa: S307
    assert len(reasons) == 1
    assert "cudaErrorIllegalAddress" in reasons[0]


def test_a_function_that_breaks_three_contexts_in_a_row_is_refused(gpu):
    kernel = gpu()
    kernel.ok(OUT_OF_BOUNDS)
    kernel.ok("import dask.array as da")
    reply = kernel.run(
        "%%gpudask\nda.ones(100, chunks=10).map_blocks(illegal, dtype=float).sum().compute()", timeout=180
    )
    assert reply.error == "BrokenContextError"
    assert re.match(
        r"illegal \(line 6\) broke the CUDA context of its worker 3 times: cudaErrorIllegal", reply.error_value
    )
    assert kernel.ok("%%gpudask\nfloat(da.ones(10, chunks=5).sum().compute())", timeout=120).value == "10.0"


def test_a_kernel_that_has_broken_its_own_context_says_how_to_keep_the_variables(gpu):
    kernel = gpu()
    kernel.ok(OUT_OF_BOUNDS)
    reply = kernel.run("%%gpudask\nimport cupy, dask.array as da\nillegal(cupy.ones(3))")
    assert "The CUDA context of this kernel is broken" in "".join(reply.displayed) + reply.printed
    assert "%store" in kernel.run("%%gpudask\nda.ones(3).sum().compute()").error_value
    cpu = "%%gpudask --array numpy --dataframe pandas\nfloat(da.ones(3).sum().compute())"
    assert kernel.ok(cpu).value == "3.0"
