"""GPUs that clusters hold, and the record of their use."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import fake_gpu_environment, promised, wait_until

from jupyter_gpudask.machine.lease_registry import LeaseRegistry
from jupyter_gpudask.machine.unix_socket import socket_path

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
    assert refused["held_gpus"] == [held]
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
    assert here.fetch(f"clusters/{mine.id}", "DELETE").status == 204


def test_every_server_shows_the_line_of_starts_that_wait(servers):
    here, there = servers
    holds, waits, later = there.kernel("holds.ipynb"), here.kernel("waits.ipynb"), there.kernel("later.ipynb")
    assert start(there, holds, gpus="all")["status"] == "ready"

    def line(server):
        return [(each["own"], each["count"], len(each["gpus"])) for each in server.fetch("gpus").body["waiting"]]

    assert line(here) == []
    for server, kernel, gpus in ((here, waits, "all"), (there, later, 1)):
        spec = {"gpus": gpus, "wait": True}
        assert server.fetch("clusters", "POST", {"kernel_id": kernel.id, "spec": spec}).status == 202
        wait_until(lambda server=server, kernel=kernel: server.cluster(kernel)["notes"], 60)
    assert line(here) == line(there) == [(True, 2, 2), (True, 1, 2)]
    for server, kernel, place in ((here, waits, 1), (there, later, 2)):
        cluster = server.cluster(kernel)
        assert (cluster["status"], len(cluster["notes"])) == ("starting", 1)
        assert f"Waiting for GPUs at place {place} in line." in cluster["notes"][0]
        assert "held by holds.ipynb" in cluster["notes"][0]
    with contextlib.closing(here.socket("stream")) as browser:
        assert len(json.loads(browser.recv())["gpus"]["waiting"]) == 2
    assert there.fetch(f"clusters/{later.id}", "DELETE").status == 204
    wait_until(lambda: line(here) == [(True, 2, 2)])
    assert there.fetch(f"clusters/{holds.id}", "DELETE").status == 204
    assert here.settled(waits)["status"] == "ready"
    assert line(here) == []
    assert here.fetch(f"clusters/{waits.id}", "DELETE").status == 204


PROGRAM = Path(sys.executable).with_name("jupyter-gpudask")


def reasons(folder):
    return [each.reason for each in sorted(LeaseRegistry(folder).usage(), key=lambda each: each.since)]


def shown_reasons(registry):
    """The reasons in the output of the command, in the order in which the clusters started."""
    command = [PROGRAM, "usage", "--json", f"--lease-directory={registry}"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line)["reason"] for line in printed.splitlines()]


def test_the_record_says_why_clusters_of_a_server_ended_which_leaves_nothing(own_server, tmp_path, gone):
    registry = tmp_path / "registry"
    registry.mkdir()
    registry.chmod(0o1777)
    environment = fake_gpu_environment(FAKE_GPUS="1")
    server = own_server(f"--GpuDask.lease_directory={registry}", environment=environment)

    kernel = server.kernel()
    assert start(server, kernel, gpus=1)["status"] == "ready"
    assert reasons(registry) == [""]
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")
    wait_until(lambda: reasons(registry) == ["kernel ended"], 120)

    cluster = start(server, server.kernel(), gpus=1)
    assert cluster["status"] == "ready"
    server.stop()
    with promised(1):
        gone(cluster["pid"])
    assert not socket_path(server.runtime, server.pid).exists()
    assert reasons(registry) == ["kernel ended", "server ended"]
    assert shown_reasons(registry) == reasons(registry)
