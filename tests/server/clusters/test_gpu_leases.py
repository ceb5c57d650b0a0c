"""GPU leases between the notebooks of one server and of two, with fake GPUs."""

import pytest
from helpers import fake_gpu_environment

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """The directory of the leases of all users."""
    path = tmp_path_factory.mktemp("registry")
    path.chmod(0o1777)
    return path


@pytest.fixture(scope="module")
def servers(server_in, registry):
    options = [f"--GpuDask.lease_directory={registry}"]
    return [server_in(lambda _: fake_gpu_environment(FAKE_GPUS="2"), options=options) for _ in range(2)]


def start(server, kernel, **options):
    assert server.fetch("clusters", "POST", {"kernel_id": kernel.id, "spec": options}).status == 202
    return server.settled(kernel)


def test_notebooks_of_one_server_and_of_two_respect_each_others_leases(servers, registry):
    here, there = servers
    mine, other, theirs = here.kernel("mine.ipynb"), here.kernel("other.ipynb"), there.kernel("theirs.ipynb")
    (held,) = start(there, theirs, gpus=1)["gpus"]
    refused = start(here, mine, gpus="all")
    assert (refused["status"], refused["reason"]) == ("failed", "GPU 0 is held by theirs.ipynb.")
    (free,) = start(here, other, gpus=1)["gpus"]
    assert free != held
    holders = {gpu["uuid"]: [holder["name"] for holder in gpu["holders"]] for gpu in here.fetch("gpus").body["gpus"]}
    assert holders == {held: ["theirs.ipynb"], free: ["other.ipynb"]}
    public = [path.read_text() for path in registry.iterdir()]
    assert len(public) == 2
    assert not [text for text in public if "ipynb" in text]
    (session,) = [each for each in here.fetch("sessions", prefix="api/").body if each["path"] == "other.ipynb"]
    here.fetch(f"sessions/{session['id']}", "PATCH", {"path": "renamed.ipynb"}, prefix="api/")
    assert "is held by renamed.ipynb" in start(here, mine, gpus="all")["reason"]
    for server, kernel in ((there, theirs), (here, other)):
        assert server.fetch(f"clusters/{kernel.id}", "DELETE").status == 204
    here.fetch(f"clusters/{mine.id}/restart", "POST", {})
    assert here.settled(mine)["gpus"] == [held, free]
