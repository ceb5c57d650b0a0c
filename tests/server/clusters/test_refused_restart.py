"""A restart that needs GPUs of others is refused before the cluster is closed; holders are displayed."""

import pytest
from helpers import fake_gpu_environment, wait_until

from jupyter_gpudask.machine.leases import LeaseFolder

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server(server_in):
    """A server with two fake GPUs that limits clusters to two workers."""
    return server_in(lambda folder: fake_gpu_environment(FAKE_GPUS="2"), ["--GpuDask.max_workers=2"])


@pytest.fixture(scope="module")
def kernel(server):
    """A kernel whose cluster holds one of the two GPUs."""
    kernel = server.kernel("mine.ipynb")
    assert server.start(kernel, engine="cuda", gpus=[0], workers=None)["status"] == "ready"
    return kernel


@pytest.fixture
def other_holder(server):
    """A lease of another cluster on the other GPU."""
    folder = LeaseFolder(server.runtime / "gpudask-leases")
    with folder.locked():
        lease = folder.take(
            ["GPU-00000001-1111-2222-3333-444444444444"], holder="other.ipynb", kernel_id="", share=False
        )
    yield
    lease.release()


REFUSED = [
    ({"gpus": "all"}, "--gpus all", "GPU 1 is held by other.ipynb"),
    ({"gpus": [1]}, "--gpus 1,", "GPU 1 is held by other.ipynb"),
    ({"engine": "cpu", "workers": 3}, "--cpu 3", "This server limits the workers of a cluster to 2"),
    ({"pool": 200 * 10**9}, "--pool 200GB", "--pool asks for"),
    ({"profile": "big"}, "--profile big", "no profile 'big'"),
]


@pytest.mark.usefixtures("kernel")
def test_a_start_that_waits_shows_its_place_and_who_holds_the_gpu_until_it_is_stopped(server):
    waiting = server.kernel("waiting.ipynb")
    line = LeaseFolder(server.runtime / "gpudask-leases").line
    spec = {"engine": "cuda", "gpus": [0], "workers": None, "wait": True}
    assert server.fetch("clusters", "POST", {"kernel_id": waiting.id, "spec": spec}).status == 202
    wait_until(lambda: server.cluster(waiting)["notes"], 60)
    assert server.cluster(waiting)["status"] == "starting"
    assert server.cluster(waiting)["notes"] == ["Waiting for GPUs at place 1 in line. GPU 0 is held by mine.ipynb."]
    assert len(line.read()) == 1
    server.fetch(f"clusters/{waiting.id}", "DELETE")
    wait_until(lambda: not line.read(), 60)


@pytest.mark.usefixtures("other_holder")
@pytest.mark.parametrize(("options", "_", "sentence"), REFUSED)
def test_the_server_refuses_an_impossible_restart_and_the_cluster_keeps_running(server, kernel, options, _, sentence):
    pid = server.cluster(kernel)["pid"]
    refused = server.fetch(f"clusters/{kernel.id}/restart", "POST", {"spec": options})
    assert refused.status in (404, 409, 422)
    assert sentence in refused.body["message"]
    assert [server.cluster(kernel)[name] for name in ("status", "pid")] == ["ready", pid]


@pytest.mark.usefixtures("other_holder")
def test_the_magic_refuses_an_impossible_restart_and_the_cluster_keeps_running(server, kernel):
    pid = server.cluster(kernel)["pid"]
    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start")
    for _, line, sentence in REFUSED:
        reply = kernel.run(f"%gpudask restart {line}")
        assert (reply.error, sentence in reply.error_value) == ("UsageError", True), (line, reply.error_value)
    assert [server.cluster(kernel)[name] for name in ("status", "pid")] == ["ready", pid]


@pytest.mark.usefixtures("other_holder")
def test_the_magics_name_the_holder_of_each_gpu(kernel):
    kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start")
    seen = kernel.ok("seen = %gpudask gpus\nseen").value.splitlines()
    assert "held by" in seen[0]
    assert ("this kernel" in seen[1], "other.ipynb" in seen[2]) == (True, True)
    kernel.ok("examined = %gpudask doctor")
    found = eval(kernel.ok("{one.subject: (one.verdict, one.text) for one in examined.findings}").value)  # noqa: S307
    assert found["GPU 0"][0] == "ok"
    assert "free; held by this kernel" in found["GPU 0"][1]
    assert found["GPU 1"][0] == "note"
    assert "free; held by other.ipynb" in found["GPU 1"][1]
