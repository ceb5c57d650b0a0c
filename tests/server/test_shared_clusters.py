"""Shared clusters: a cluster of the server that belongs to no kernel, and to which its notebooks connect."""

import json
import stat
import sys
from pathlib import Path

import psutil
import pytest
from helpers import ONE_WORKER, fake_gpu_environment, leftover_directories, pids_of_session, wait_until
from managers import NamedKernels, managed, supervisors, until
from servers import NotebookKernel

from jupyter_gpudask.errors import LimitError, SpecError
from jupyter_gpudask.machine.leases import LeaseFolder
from jupyter_gpudask.protocol.spec import ClusterSpec
from jupyter_gpudask.server.kernels import ServerKernels

CELL = "%%gpudask --dataframe pandas"
MAGICS = "%load_ext jupyter_gpudask\nimport dask.array as da, distributed, sys"


class Shared:
    """A shared cluster, as the kernels of these tests are."""

    def __init__(self, server, **options):
        answer = server.fetch("clusters", "POST", {"kernel_id": "", "spec": ONE_WORKER | options})
        assert (answer.status, answer.body["status"]) == (202, "starting"), answer.text
        self.id = answer.body["kernel_id"]
        self.path = f"clusters/{self.id}"
        assert answer.headers["Location"] == f"/a%40b/gpudask/api/{self.path}"
        self.info = server.settled(self)


def stop(server, shared):
    assert server.fetch(shared.path, "DELETE").status == 204


@pytest.mark.cluster
def test_notebooks_compute_on_a_shared_cluster_at_once_and_its_stop_leaves_nothing(server, gone):
    directories = leftover_directories()
    (server.root / "of_the_user.py").write_text("ANSWER = 42\n")
    first, second = server.kernel("first.ipynb"), server.kernel("second.ipynb")
    shared = Shared(server)
    assert (shared.id, shared.info["name"], shared.info["status"]) == ("shared-1", "Shared cluster 1", "ready")
    for kernel, number in ((first, 40), (second, 20)):
        kernel.ok(MAGICS)
        assert "1 worker at Shared cluster 1" in kernel.ok(f"%gpudask connect {shared.id}").value
        kernel.ok(f"{CELL}\nx = da.ones(({number}, {number}), chunks=10).persist()")
    assert [float(each.ok(f"{CELL}\nfloat(x.sum().compute())").value) for each in (first, second)] == [1600, 400]
    # Workers have the default kernel's environment, and import modules beside the notebooks.
    module = "distributed.get_client().submit(lambda: (__import__('of_the_user').ANSWER, sys.prefix)).result()"
    assert first.ok(f"{CELL}\n{module}").value == str((42, sys.prefix))

    wait_until(
        lambda: server.cluster(shared)["notebooks"] == ["first.ipynb", "second.ipynb"] or _sorted(server, shared)
    )
    info = server.cluster(first)
    assert (info["name"], info["joined"]) == ("first.ipynb", "Shared cluster 1")
    assert "dashboard" not in info["limits"]
    for each in (shared, first):
        assert server.fetch(f"{each.id}/status", prefix="gpudask/dashboard/").status == 200
    assert server.fetch(f"{shared.path}/scale", "POST", {"workers": 2}).status == 202
    wait_until(lambda: len(server.cluster(shared)["state"]["workers"]) == 2)

    assert first.ok("%gpudask disconnect").value.startswith("Disconnected from ")
    server.fetch(f"kernels/{second.id}", "DELETE", prefix="api/")
    wait_until(lambda: server.cluster(shared)["notebooks"] == [])
    assert server.cluster(shared)["status"] == "ready"
    stop(server, shared)
    gone(shared.info["pid"])
    assert leftover_directories() == directories
    refused = first.run("%gpudask connect shared-1")
    assert refused.error_value.startswith("The Jupyter server of this kernel has no cluster shared-1 that is ready.")


def _sorted(server, shared):
    return sorted(server.cluster(shared)["notebooks"]) == ["first.ipynb", "second.ipynb"]


@pytest.mark.cluster
def test_kernels_get_the_credentials_of_a_shared_cluster_with_tls(server, kernel):
    shared = Shared(server, protocol="tcp")
    kernel.ok(f"{MAGICS}\n%gpudask connect {shared.id}")
    assert kernel.ok(f"{CELL}\nfloat(da.ones(30, chunks=3).sum().compute())").value == "30.0"
    assert "PRIVATE KEY" not in json.dumps(server.cluster(shared)) + server.log
    kernel.ok("%gpudask disconnect")
    stop(server, shared)


@pytest.mark.cluster
def test_a_shared_cluster_can_be_of_a_class_of_the_administrator(own_server):
    preset = {"own": {"class": "distributed.LocalCluster", "options": {"n_workers": 1, "processes": True}}}
    server = own_server(f"--GpuDask.presets={preset}")
    answer = server.fetch("clusters", "POST", {"kernel_id": "", "preset": "own"})
    kernel, shared = server.kernel(), NotebookKernel(server, answer.body["kernel_id"])
    info = server.settled(shared)
    assert (info["status"], info["spec"]["preset"]) == ("ready", "own"), info["reason"]
    kernel.ok(f"{MAGICS}\n%gpudask connect {shared.id}")
    assert kernel.ok(f"{CELL}\nfloat(da.ones(30, chunks=3).sum().compute())").value == "30.0"


@pytest.mark.cluster
@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_the_end_of_the_server_leaves_nothing_of_a_shared_cluster(own_server, gone, end):
    directories = leftover_directories()
    server = own_server()
    shared, other = Shared(server), Shared(server)
    assert [shared.id, other.id] == ["shared-1", "shared-2"]
    pids = [each.info["pid"] for each in (shared, other)]
    assert all(map(pids_of_session, pids))
    getattr(psutil.Process(server.pid), end)()
    gone(*pids)
    wait_until(lambda: leftover_directories() == directories)


@pytest.mark.cluster
def test_the_gpus_of_a_shared_cluster_are_reserved_under_its_name(own_server):
    environment = fake_gpu_environment(cupy=True, FAKE_GPUS="2")
    server = own_server(environment=environment)
    answer = server.fetch("clusters", "POST", {"kernel_id": "", "spec": {"gpus": 1}})
    assert server.settled(NotebookKernel(server, answer.body["kernel_id"]))["status"] == "ready"
    assert [lease.holder for lease in LeaseFolder().read()] == ["Shared cluster 1"]
    holders = [each["holders"] for each in server.fetch("gpus").body["gpus"]]
    assert holders == [[{"name": "Shared cluster 1", "kernel_id": "shared-1", "share": False}], []]
    kernel = server.kernel()
    kernel.ok(MAGICS)
    assert "GPU 0 is reserved by Shared cluster 1." in kernel.run("%gpudask start --gpus 0,").error_value
    assert "1 GPU worker at " in kernel.ok("%gpudask connect shared-1").value
    socket = Path(kernel.ok("print(distributed.get_client().scheduler.address)").printed.removeprefix("unix://")).parent
    assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    kernel.ok("%gpudask disconnect")
    # Kernels see by the workers whether the cluster has GPUs.
    assert server.fetch("clusters/shared-1/restart", "POST", {"spec": {"engine": "cpu"}}).status == 202
    assert server.settled(NotebookKernel(server, "shared-1"))["engine"] == "cpu"
    kernel.ok("%gpudask connect shared-1")
    assert kernel.ok(f"{CELL}\nprint(type(da.ones(3)._meta).__module__)").printed.strip() == "numpy"
    kernel.ok("%gpudask disconnect")
    assert server.fetch("clusters/shared-1/restart", "POST", {"spec": {"gpus": 2}}).status == 202
    assert server.settled(NotebookKernel(server, "shared-1"))["engine"] == "cuda"
    assert server.fetch("clusters/shared-1", "DELETE").status == 204
    assert LeaseFolder().read() == []


async def test_a_shared_cluster_counts_towards_the_limit_and_does_not_use_ucx():
    async with managed(max_clusters=1) as manager:
        with pytest.raises(SpecError, match="Notebooks cannot connect to a cluster that uses the protocol ucx"):
            await manager.start("", ClusterSpec.parse({"protocol": "ucx"}))
        cluster = await manager.start("", ClusterSpec.parse(ONE_WORKER))
        with pytest.raises(LimitError):
            await manager.start("", ClusterSpec.parse(ONE_WORKER))
        await manager.close(cluster.kernel_id)


async def test_a_shared_cluster_is_not_idle_while_a_notebook_that_uses_it_runs_a_cell():
    kernels = NamedKernels("a")
    kernels.default_interpreter = lambda: kernels.interpreter("a")
    kernels.is_busy = lambda *ids: "a" in ids
    kernels.supervisors = supervisors
    async with managed(kernels, idle_timeout=0.5) as manager:
        cluster = await manager.start("", ClusterSpec.parse(ONE_WORKER))
        cluster.users.add("a")
        await until(lambda: cluster.state is not None)
        assert manager.is_busy(cluster)
        cluster.users.clear()
        await until(lambda: manager.get("shared-1").status == "closed")


class Specs:
    default_kernel_name, root_dir = "the default", "/notebooks"

    def __init__(self, *argv, **env):
        self.kernel_spec_manager = self
        self.argv, self.env = argv, env

    def get_kernel_spec(self, name):
        assert name == "the default"
        return self


@pytest.mark.parametrize(
    ("argv", "python"),
    [
        (["/env/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "/env/bin/python"),
        (["python", "-m", "ipykernel_launcher"], sys.executable),
        (["/opt/conda", "run", "-n", "other", "python", "-m", "ipykernel"], sys.executable),
        (["/usr/bin/R", "-e", "IRkernel::main()"], sys.executable),
    ],
)
async def test_a_shared_cluster_has_the_interpreter_of_the_default_kernel_if_that_names_one(argv, python, monkeypatch):
    monkeypatch.setenv("BASE", "/base")
    found = await ServerKernels(Specs(*argv, EXTRA="${BASE}/extra"), None).default_interpreter()
    assert (found.python, found.environment["EXTRA"], found.path) == (python, "/base/extra", ("/notebooks",))
