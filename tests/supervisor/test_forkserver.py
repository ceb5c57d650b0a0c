"""The forkserver of a cluster with GPUs: what its forks are, what follows its end, and that nothing is left of it."""

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import cloudpickle
import dask.config
import psutil
import pytest
from distributed.nanny import _get_env_variables
from helpers import command_line, fake_gpu_environment, leftover_directories, pids_of_session, wait_until

from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.launcher.cluster_process import ClusterProcess, start_supervisor
from jupyter_gpudask.machine.directories import remove_stale_directories
from jupyter_gpudask.machine.gpus import list_gpus
from jupyter_gpudask.protocol import ClusterSpec
from jupyter_gpudask.supervisor.forkserver import _pre_spawn_variables
from jupyter_gpudask.worker import preimport

pytestmark = pytest.mark.cluster


def forkservers(supervisor):
    """The pids of the forkservers among the children of a supervisor."""
    children = psutil.Process(supervisor).children()
    return [child.pid for child in children if "multiprocessing.forkserver" in " ".join(command_line(child))]


def with_cluster(use, options, environment, prepare=None):
    """Start a cluster, `await use(cluster)` and close it; with `prepare`, from a standby that it was called with."""

    async def run():
        standby = await start_supervisor(sys.executable, environment, "--standby") if prepare else None
        if standby is not None:
            await asyncio.to_thread(prepare, standby.pid)
        cluster = await ClusterProcess.start(ClusterSpec.parse(options), environment=environment, standby=standby)
        try:
            return cluster.pid, await use(cluster)
        finally:
            await cluster.close()

    return asyncio.run(run())


def look_inside():
    """What a worker is, as a function sees it that imports nothing which the worker has not."""
    import ctypes
    import random

    signal_of_parent = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(signal_of_parent))  # PR_GET_PDEATHSIG
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "environment": dict(os.environ),
        "hash": hash("text"),
        "random": (random.random(), sys.modules["numpy"].random.random()),  # noqa: S311 - of any process
        "imported": set(sys.modules) & {"cupy", "cudf", "dask_cudf", "rmm", "dask.array", "dask.dataframe"},
        "dies_with_parent": signal_of_parent.value == signal.SIGKILL,
    }


async def two_workers(client, without=()):
    """What two workers that are not of the pids `without` see inside, once they are there."""

    def run():
        found = {}

        def are_there():
            seen = client.run(look_inside, on_error="ignore").values()
            found.update({each["pid"]: each for each in seen if each["pid"] not in without})
            return sum(each["pid"] not in without for each in seen) == 2

        wait_until(are_there, 60)
        return [found[pid] for pid in sorted(found)]

    return await asyncio.to_thread(run)


@pytest.fixture(scope="module", autouse=True)
def functions_without_this_module():
    """Workers get the functions of this module, and do not import it."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(scope="module")
def cluster():
    """What was seen of one cluster of two pretended GPUs, from its start to the end of its supervisor by SIGKILL."""
    found = SimpleNamespace()

    async def use(cluster):
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        try:
            found.forkservers = forkservers(cluster.pid)
            found.workers = await two_workers(client)
            os.kill(found.workers[0]["pid"], signal.SIGKILL)
            found.after_worker = await two_workers(client, [found.workers[0]["pid"]])
            found.exits = (await cluster.state()).worker_exits
            os.kill(found.forkservers[0], signal.SIGKILL)
            found.after_forkserver = await two_workers(client, [each["pid"] for each in found.after_worker])
            found.total = await asyncio.to_thread(client.submit(sum, range(101)).result)
        finally:
            await asyncio.to_thread(client.close, 1)

    environment = fake_gpu_environment(
        cupy=True, CUDA_DEVICE_ORDER="FASTEST_FIRST", OF_THE_KERNEL="yes", OF_THE_OPTIONS="no"
    )
    found.pid, _ = with_cluster(use, {"environment": {"OF_THE_OPTIONS": "yes"}}, environment)
    return found


def test_workers_are_forks_of_one_process_that_has_imported_what_they_need(cluster):
    assert len(cluster.forkservers) == 1
    assert [each["parent"] for each in cluster.workers] == cluster.forkservers * 2
    for each in cluster.workers:
        assert each["imported"] == {"cupy", "cudf", "dask_cudf", "rmm", "dask.array", "dask.dataframe"}
        assert each["dies_with_parent"]


def test_each_worker_has_the_environment_that_a_new_process_would_have(cluster):
    environments = [each["environment"] for each in cluster.workers]
    gpus = [f"GPU-0000000{index}-1111-2222-3333-444444444444" for index in range(2)]
    assert sorted(each["CUDA_VISIBLE_DEVICES"].split(",")[0] for each in environments) == gpus
    for each in environments:
        assert (each["OF_THE_KERNEL"], each["OF_THE_OPTIONS"]) == ("yes", "yes")
        assert each["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert each["JUPYTER_GPUDASK_LOGS"].endswith("/logs")
        assert preimport.PREIMPORT not in each
        assert _pre_spawn_variables().items() <= each.items()


def test_texts_have_the_hash_that_they_have_in_each_worker_of_dask(cluster):
    command = [sys.executable, "-c", "print(hash('text'))"]
    expected = int(subprocess.check_output(command, env={**os.environ, "PYTHONHASHSEED": "6640"}, text=True))
    assert [each["hash"] for each in cluster.workers] == [expected, expected]


def test_forks_draw_different_random_numbers(cluster):
    for kind in range(2):
        assert len({each["random"][kind] for each in (*cluster.workers, *cluster.after_worker)}) >= 3


def test_a_killed_worker_is_reported_and_its_successor_is_a_fork_too(cluster):
    assert [(end.pid, end.reason) for end in cluster.exits] == [(cluster.workers[0]["pid"], "was killed by signal 9")]
    assert [each["parent"] for each in cluster.after_worker] == cluster.forkservers * 2


def test_if_the_forkserver_is_killed_workers_start_again_and_compute(cluster):
    assert not {each["parent"] for each in cluster.after_forkserver} & {*cluster.forkservers}
    assert cluster.total == 5050


def test_nothing_is_left_when_the_cluster_is_closed(cluster):
    assert pids_of_session(cluster.pid) == []
    assert leftover_directories() == []


def test_a_killed_supervisor_takes_the_forkserver_and_a_stuck_worker_with_it():
    """The parent of the supervisor is stopped, and does not clean up. The task lets no other thread run."""
    script = (
        "import asyncio, ctypes\n"
        "from jupyter_gpudask.client.connect import connect\n"
        "from jupyter_gpudask.launcher.cluster_process import ClusterProcess\n"
        "from jupyter_gpudask.protocol import ClusterSpec\n"
        "def hold_gil(seconds):\n"
        "    ctypes.PyDLL(None).sleep(seconds)\n"
        "async def main():\n"
        "    cluster = await ClusterProcess.start(ClusterSpec.parse({'gpus': 1}))\n"
        "    client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)\n"
        "    stuck = client.submit(hold_gil, 60)\n"
        "    while not any(client.processing().values()):\n"
        "        await asyncio.sleep(0.1)\n"
        "    print(cluster.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, env=fake_gpu_environment(cupy=True), stdout=subprocess.PIPE, text=True) as parent:
        try:
            supervisor = int(parent.stdout.readline())
            assert len(forkservers(supervisor)) == 1
            parent.send_signal(signal.SIGSTOP)
            os.kill(supervisor, signal.SIGKILL)
            wait_until(lambda: pids_of_session(supervisor) == [], 30)
        finally:
            parent.kill()
    remove_stale_directories()
    assert leftover_directories() == []


def test_a_cluster_starts_where_a_path_is_too_long_for_the_socket(tmp_path):
    folder = tmp_path / ("x" * 100)
    folder.mkdir()

    async def use(cluster):
        return forkservers(cluster.pid)

    environment = fake_gpu_environment(cupy=True, TMPDIR=str(folder))
    assert with_cluster(use, {"gpus": 1}, environment)[1] == []
    assert list(folder.iterdir()) == []


def test_a_standby_has_a_forkserver_which_a_cluster_on_the_cpu_does_not_keep():
    async def use(cluster):
        return forkservers(cluster.pid)

    def wait_for_forkserver(pid):
        wait_until(lambda: len(forkservers(pid)) == 1, 60)

    pid, left = with_cluster(use, {"engine": "cpu", "workers": 1}, fake_gpu_environment(cupy=True), wait_for_forkserver)
    assert left == []
    assert pids_of_session(pid) == []


def test_the_variables_before_a_start_are_those_of_dask(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1234")
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    with dask.config.set({"distributed.nanny.pre-spawn-environ.OF_THE_CONFIGURATION": 1}):
        ours = _pre_spawn_variables()
        assert ours == _get_env_variables("distributed.nanny.pre-spawn-environ") | {"PYTHONHASHSEED": "6640"}
    assert (ours["MALLOC_TRIM_THRESHOLD_"], ours["OF_THE_CONFIGURATION"]) == ("1234", "1")


def test_a_process_in_which_an_import_has_initialized_cuda_starts_again_without_these_imports(tmp_path):
    """The driver is pretended."""
    driver = tmp_path / "cuda" / "bindings" / "driver.py"
    driver.parent.mkdir(parents=True)
    driver.with_name("__init__.py").touch()
    driver.write_text(
        "import enum\n"
        "class CUresult(enum.IntEnum):\n"
        "    CUDA_SUCCESS, CUDA_ERROR_NOT_INITIALIZED = 0, 3\n"
        "def cuCtxGetCurrent():\n"
        "    print('asked', flush=True)\n"
        "    return CUresult.CUDA_SUCCESS, 0\n"
    )
    script = (
        "import os, sys, jupyter_gpudask.worker.preimport\n"
        "print('started', os.environ.get('JUPYTER_GPUDASK_PREIMPORT'), 'dask' in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), preimport.PREIMPORT: str(os.getpid())}
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["asked", "started None False"]
    assert "has initialized the CUDA driver" in result.stderr


def test_nothing_has_initialized_the_driver_in_a_new_process(run_python):
    script = "from jupyter_gpudask.worker.preimport import is_driver_initialized\nprint(is_driver_initialized())"
    assert run_python(script) == "False\n"


def has_gpus():
    try:
        return bool(list_gpus()) and importlib.util.find_spec("cudf") is not None
    except GpuUnavailableError:
        return False


@pytest.mark.gpu
@pytest.mark.skipif(not has_gpus(), reason="needs a GPU and cuDF")
def test_on_a_gpu_the_forkserver_has_no_context_and_its_forks_compute():
    def contexts():
        return {process.pid for gpu in list_gpus() for process in gpu.processes}

    def compute():
        import cudf
        import cupy

        return float(cupy.ones(10).sum()), int(cudf.Series([1, 2]).sum())

    async def use(cluster):
        client = await asyncio.to_thread(connect, cluster.ready, set_as_default=False)
        try:
            values = await asyncio.to_thread(client.run, compute)
            workers = await asyncio.to_thread(client.run, look_inside)
            return forkservers(cluster.pid), contexts(), list(values.values()), list(workers.values())
        finally:
            await asyncio.to_thread(client.close, 1)

    pid, (servers, holders, values, workers) = with_cluster(use, {"gpus": 1, "share": True}, dict(os.environ))
    assert values == [(10.0, 3)]
    assert [each["parent"] for each in workers] == servers
    assert {"cupy", "cudf", "dask_cudf"} <= workers[0]["imported"]
    assert not {*servers, pid} & holders
    assert {each["pid"] for each in workers} <= holders
    assert pids_of_session(pid) == []
