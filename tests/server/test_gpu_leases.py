"""GPUs that clusters have reserved, and the record of their use."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import fake_gpu_environment, promised, wait_until

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


def close(server, *kernels):
    assert [server.fetch(f"clusters/{kernel.id}", "DELETE").status for kernel in kernels] == [204] * len(kernels)


def line(server):
    """The starts that wait for GPUs."""
    return [(each["own"], each["count"], len(each["gpus"])) for each in server.fetch("gpus").body["waiting"]]


def reasons(registry):
    """Why clusters have ended, by the command and in the order of their starts; empty if they have not."""
    command = [Path(sys.executable).with_name("jupyter-gpudask"), "usage", "--json", f"--lease-directory={registry}"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line)["reason"] for line in printed.splitlines()]


def test_notebooks_of_two_servers_respect_and_name_their_leases_and_all_see_the_line_of_starts(servers, registry):
    here, there = servers
    mine, other, theirs = here.kernel("mine.ipynb"), here.kernel("other.ipynb"), there.kernel("theirs.ipynb")
    (held,) = start(there, theirs, gpus=1)["gpus"]
    refused = start(here, mine, gpus="all")
    assert (refused["status"], refused["reason"]) == ("failed", "GPU 0 is reserved by theirs.ipynb.")
    assert refused["reserved_gpus"] == [held]
    (free,) = start(here, other, gpus=1)["gpus"]
    assert free != held
    holders = {gpu["uuid"]: [holder["name"] for holder in gpu["holders"]] for gpu in here.fetch("gpus").body["gpus"]}
    assert holders == {held: ["theirs.ipynb"], free: ["other.ipynb"]}
    public = [path.read_text() for path in registry.glob("*.lease")]
    assert [len(public), [text for text in public if "ipynb" in text]] == [2, []]
    (session,) = [each for each in here.fetch("sessions", prefix="api/").body if each["path"] == "other.ipynb"]
    here.fetch(f"sessions/{session['id']}", "PATCH", {"path": "renamed.ipynb"}, prefix="api/")
    assert "is reserved by renamed.ipynb" in start(here, mine, gpus="all")["reason"]

    assert line(here) == []
    later = there.kernel("later.ipynb")
    for server, kernel, gpus in ((here, mine, "all"), (there, later, 1)):
        spec = {"gpus": gpus, "wait": True}
        assert server.fetch("clusters", "POST", {"kernel_id": kernel.id, "spec": spec}).status == 202
        wait_until(lambda server=server, kernel=kernel: server.cluster(kernel)["notes"], 60)
    assert line(here) == line(there) == [(True, 2, 2), (True, 1, 2)]
    for server, kernel, place in ((here, mine, 1), (there, later, 2)):
        cluster = server.cluster(kernel)
        assert (cluster["status"], len(cluster["notes"])) == ("starting", 1)
        assert f"Waiting for GPUs at place {place} in line." in cluster["notes"][0]
        assert "is reserved by theirs.ipynb" in cluster["notes"][0]
    with contextlib.closing(here.socket("stream")) as browser:
        assert len(json.loads(browser.recv())["gpus"]["waiting"]) == 2
    close(there, later, theirs)
    wait_until(lambda: line(here) == [(True, 2, 2)])
    close(here, other)
    assert here.settled(mine)["gpus"] == [held, free]
    assert line(here) == []
    close(here, mine)


def test_the_record_says_why_clusters_of_a_server_ended_which_leaves_nothing(servers, registry, gone):
    here, there = servers
    before, kernel = len(reasons(registry)), here.kernel()
    assert start(here, kernel, gpus=1)["status"] == "ready"
    assert reasons(registry)[before:] == [""]
    here.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")
    wait_until(lambda: reasons(registry)[before:] == ["kernel ended"], 120)
    cluster = start(there, there.kernel(), gpus=1)
    assert cluster["status"] == "ready"
    there.stop()
    with promised(1):
        gone(cluster["pid"])
    assert not socket_path(there.runtime, there.pid).exists()
    assert reasons(registry)[before:] == ["kernel ended", "server ended"]
