"""The server on real GPUs: `pytest -m gpu server/test_on_gpus.py`. NVML shows which memory is held and freed.

On two GPUs it takes some minutes; where a test needs more GPUs than there are it is skipped.
"""

import importlib.util
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest
from helpers import pids_of_session, wait_until

from jupyter_gpudask.errors import GpuUnavailableError
from jupyter_gpudask.machine.gpus import list_gpus
from jupyter_gpudask.machine.leases import LeaseFolder

pytestmark = [pytest.mark.gpu, pytest.mark.cluster]


def gpus_there():
    try:
        return list_gpus()
    except GpuUnavailableError:
        return []


if not gpus_there() or importlib.util.find_spec("cudf") is None:
    pytest.skip("needs a GPU and cuDF", allow_module_level=True)

two_gpus = pytest.mark.skipif(len(gpus_there()) < 2, reason="needs two GPUs")

GIB = 2**30
FILL = (
    "import dask.array as da\nfrom distributed import wait\n"
    "x = da.random.random(2**30, chunks=2**27).persist()\nwait(x);"
)


def contexts():
    """Device memory of each process that has a CUDA context."""
    return {process.pid: process.memory for gpu in list_gpus() for process in gpu.processes}


def leases():
    return {gpu: lease.holder for lease in LeaseFolder().read() for gpu in lease.gpus}


@pytest.fixture(autouse=True)
def nothing_is_left():
    """After each test no lease, no context and no device memory is held that was not held before it."""
    before, used = set(contexts()), {gpu.uuid: gpu.memory_used for gpu in list_gpus()}
    yield

    def is_left():
        more = any(gpu.memory_used > used[gpu.uuid] + GIB // 4 for gpu in list_gpus())
        return more or leases() or set(contexts()) - before

    wait_until(lambda: not is_left())


@pytest.fixture
def notebooks(server):
    """Make kernels of notebooks of the shared server, which are shut down after the test."""
    made = []

    def make(name):
        made.append(server.kernel(name))
        return made[-1]

    yield make
    for kernel in made:
        kernel.disconnect()
        server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")


def start(server, kernel, **options):
    """Request a cluster as the browser does, and wait until it is ready or has failed."""
    answer = server.fetch("clusters", "POST", {"kernel_id": kernel.id, "spec": options})
    assert answer.status == 202, answer.text
    return server.settled(kernel, 120)


def ready(server, kernel, **options):
    cluster = start(server, kernel, **options)
    assert (cluster["status"], cluster["engine"]) == ("ready", "cuda"), cluster
    return cluster


def refusal(server, kernel, **options):
    cluster = start(server, kernel, **options)
    assert cluster["status"] == "failed", cluster
    return cluster["reason"]


def worker_of(server, kernel):
    """The pid of the cluster's first worker, once it is known."""

    found = []

    def is_known():
        state = server.cluster(kernel)["state"]
        found[:] = [worker["pid"] for worker in state["workers"] if worker["pid"]] if state else []
        return found

    wait_until(is_known)
    return found[0]


def gpus_of(server):
    return {gpu["uuid"]: gpu for gpu in server.fetch("gpus").body["gpus"]}


def users_of(server, gpu):
    return {(user["notebook"], user["kernel_id"]) for user in gpus_of(server)[gpu]["users"]}


@contextmanager
def occupied(index, size):
    """Another process that holds `size` bytes of one GPU."""
    script = f"import sys, cupy; x = cupy.empty({size}, 'u1'); print('held', flush=True); sys.stdin.read()"
    environment = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": list_gpus()[index].uuid}
    command = [sys.executable, "-c", script]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.stdin.close()


@two_gpus
def test_two_notebooks_get_one_gpu_each_and_a_request_for_all_names_the_notebooks_that_hold_them(server, notebooks):
    first, second, third = (notebooks(f"{name}.ipynb") for name in "abc")
    (one,), (other,) = ready(server, first, gpus=1)["gpus"], ready(server, second, gpus=1)["gpus"]
    assert one != other
    reason = refusal(server, third, gpus="all")
    assert "is reserved by a.ipynb" in reason
    assert "is reserved by b.ipynb" in reason
    shown = gpus_of(server)
    assert [holder["kernel_id"] for holder in shown[one]["holders"]] == [first.id]
    users = {user["pid"]: user["kernel_id"] for user in shown[other]["users"]}
    assert users[worker_of(server, second)] == second.id
    for kernel, gpu, name in ((first, one, "a.ipynb"), (second, other, "b.ipynb")):
        kernel.ok("%load_ext jupyter_gpudask")
        kernel.ok("%%gpudask\nimport dask.array as da\nda.ones(3).sum().compute()", timeout=120)
        wanted = {(name, kernel.id), (None, kernel.id)}  # the server reads GPUs once a second while a cluster is busy
        wait_until(lambda gpu=gpu, wanted=wanted: users_of(server, gpu) == wanted)
    assert server.cluster(first)["pid"] not in contexts()


@two_gpus
def test_a_number_of_gpus_selects_those_with_most_free_memory_and_other_processes_are_listed(server, notebooks):
    count = len(list_gpus()) - 1
    with occupied(0, 20 * GIB) as process:
        cluster = ready(server, notebooks("a.ipynb"), gpus=count)
        assert cluster["gpus"] == [gpu.uuid for gpu in list_gpus()[1:]]
        users = {user["pid"]: user for user in server.fetch("gpus").body["gpus"][0]["users"]}
        assert users[process.pid]["kernel_id"] is None
        assert users[process.pid]["memory"] > 20 * GIB
        assert users[process.pid]["user"] == psutil.Process().username()


@two_gpus
def test_the_magic_starts_workers_on_two_gpus(server, notebooks):
    kernel = notebooks("magic.ipynb")
    kernel.ok("%load_ext jupyter_gpudask\n%gpudask start --gpus 2", timeout=120)
    kernel.ok("%%gpudask\nimport dask.array as da\nda.random.random((20_000, 20_000), chunks=2_000).sum().compute();")
    workers = {worker["pid"] for worker in server.fetch(f"clusters/{kernel.id}").body["state"]["workers"]}
    assert len(workers) == 2
    assert workers <= set(contexts())
    assert set(leases().values()) == {"magic.ipynb"}


@two_gpus
def test_scaling_down_keeps_the_lease_and_frees_the_device_memory(server, notebooks):
    kernel = notebooks("a.ipynb")
    cluster = ready(server, kernel, gpus=2)

    def running():
        return {worker["pid"] for worker in server.cluster(kernel)["state"]["workers"] if worker["pid"]}

    wait_until(lambda: len(running()) == 2)
    for count in (1, 2):
        before = running()
        assert server.fetch(f"clusters/{kernel.id}/scale", "POST", {"workers": count}).status == 202
        wait_until(lambda count=count: len(running()) == count, 60)
        wait_until(lambda before=before: not (before - running()) & set(contexts()))
        wait_until(lambda: running() <= set(contexts()))
        assert set(leases()) == set(cluster["gpus"])
    refused = server.fetch(f"clusters/{kernel.id}/scale", "POST", {"workers": 3})
    assert (refused.status, "this cluster has 2" in refused.body["message"]) == (409, True)


def test_a_gpu_that_is_not_visible_to_the_kernel_is_not_used(server, notebooks):
    last = list_gpus()[-1]
    kernel = notebooks("a.ipynb")
    kernel.ok(f"import os; os.environ['CUDA_VISIBLE_DEVICES'] = '{last.index}'\n%load_ext jupyter_gpudask")
    kernel.ok("%gpudask start", timeout=120)
    assert server.cluster(kernel)["gpus"] == [last.uuid]


def test_an_interrupt_has_no_effect_and_a_restart_keeps_the_workers_and_frees_the_device_memory(server, notebooks):
    kernel = notebooks("a.ipynb")
    ready(server, kernel, gpus=1)
    worker = worker_of(server, kernel)
    kernel.ok("%load_ext jupyter_gpudask\n%gpudask start --gpus 1", timeout=120)
    kernel.ok(f"%%gpudask\n{FILL}", timeout=120)
    assert server.fetch(f"kernels/{kernel.id}/interrupt", "POST", {}, prefix="api/").status == 204
    assert worker_of(server, kernel) == worker
    assert contexts()[worker] > 8 * GIB
    assert server.fetch(f"kernels/{kernel.id}/restart", "POST", {}, prefix="api/").status == 200
    kernel.disconnect()
    wait_until(lambda: contexts()[worker] < 2 * GIB)
    kernel.ok("%load_ext jupyter_gpudask\n%gpudask start --gpus 1", timeout=120)
    assert worker_of(server, kernel) == worker


def test_a_killed_worker_is_restarted_on_its_gpu_and_its_memory_is_freed(server, notebooks):
    kernel = notebooks("a.ipynb")
    cluster = ready(server, kernel, gpus=1)
    worker = worker_of(server, kernel)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: worker not in contexts())
    wait_until(lambda: worker_of(server, kernel) != worker)
    again = server.cluster(kernel)
    assert (again["pid"], again["gpus"]) == (cluster["pid"], cluster["gpus"])


def test_a_killed_supervisor_frees_its_gpu_and_a_restart_works(server, notebooks, gone):
    kernel = notebooks("a.ipynb")
    cluster = ready(server, kernel, gpus=1)
    worker = worker_of(server, kernel)
    os.kill(cluster["pid"], signal.SIGKILL)  # in which the scheduler and the nannies are
    wait_until(lambda: worker not in contexts() and not leases())
    gone(cluster["pid"])
    wait_until(lambda: server.cluster(kernel)["status"] == "failed")
    assert "killed by SIGKILL" in server.cluster(kernel)["reason"]
    server.fetch(f"clusters/{kernel.id}/restart", "POST", {})
    assert server.settled(kernel, 120)["status"] == "ready"


def test_a_killed_kernel_frees_its_own_device_memory_and_keeps_its_cluster(server, notebooks):
    kernel = notebooks("a.ipynb")
    ready(server, kernel, gpus=1)
    worker = worker_of(server, kernel)
    kernel.ok("import cupy\nheld = cupy.ones(2**28)")
    before = kernel.pid
    assert contexts()[before] > 2 * GIB
    os.kill(before, signal.SIGKILL)
    kernel.disconnect()
    wait_until(lambda: before not in contexts())
    wait_until(lambda: kernel.pid not in (None, before))
    assert worker_of(server, kernel) == worker


def test_a_kernel_that_is_shut_down_frees_its_gpu_within_5_seconds(server, notebooks, gone):
    kernel = notebooks("a.ipynb")
    cluster = ready(server, kernel, gpus=1)
    worker = worker_of(server, kernel)
    assert server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/").status == 204
    gone(cluster["pid"])
    wait_until(lambda: worker not in contexts() and not leases())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_server_frees_all_gpus_within_5_seconds(own_server, number, gone):
    server = own_server()
    started, starting = server.kernel("a.ipynb"), server.kernel("b.ipynb")
    pid = ready(server, started, gpus=1, share=True)["pid"]
    body = {"kernel_id": starting.id, "spec": {"gpus": 1, "share": True}}
    assert server.fetch("clusters", "POST", body).status == 202
    wait_until(lambda: len(server.supervisors()) == 2)
    supervisors, kernels = server.supervisors(), [started.pid, starting.pid]
    os.kill(server.pid, number)
    server.process.wait(30)
    gone(*supervisors)
    wait_until(lambda: not leases() and not any(pids_of_session(each) for each in supervisors))
    assert pid in supervisors
    for kernel in kernels:  # they notice their parent's end by themselves, sooner or later
        if psutil.pid_exists(kernel):
            psutil.Process(kernel).kill()


def test_the_stream_contains_the_metrics_of_gpus_and_workers(server, notebooks):
    kernel = notebooks("a.ipynb")
    (uuid,) = ready(server, kernel, gpus=1, pool=0.25)["gpus"]
    stream = server.socket("stream")
    try:
        texts = [stream.recv() for _ in range(3)]
    finally:
        stream.close()
    gpu = gpus_of(server)[uuid]
    assert all(gpu[metric] is not None for metric in ("memory_used", "utilization", "temperature", "power"))
    assert all(uuid in text for text in texts)
    worker = server.fetch(f"clusters/{kernel.id}").body["state"]["workers"][0]
    assert worker["pool_size"] == pytest.approx(gpu["memory_total"] / 4, rel=0.02)
