"""The server of a kernel shows the cluster of somebody else to which the kernel is connected."""

import pytest
from helpers import fake_gpu_environment, wait_until
from others import OthersCluster
from servers import Server, kernel_of

pytestmark = pytest.mark.cluster

LIMIT = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = OthersCluster(tmp_path_factory.mktemp("others"))
    try:
        for index in "01":
            cluster.add_worker(f"gpu-{index}", environment=fake_gpu_environment(cupy=True, CUDA_VISIBLE_DEVICES=index))
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path, environment=fake_gpu_environment(cupy=True))
    yield server
    server.stop()


def test_the_panel_shows_a_joined_cluster_and_changes_nothing(server, cluster):
    with kernel_of(server) as kernel:
        connect = f"connected = %gpudask connect {cluster.address}\nconnected.client.wait_for_workers(2, timeout=60)"
        kernel.ok(connect)

        def workers():
            shown = server.cluster(kernel)
            return shown["state"]["workers"] if shown and shown["state"] else []

        wait_until(lambda: len(workers()) == 2 and all(worker["utilization"] for worker in workers()), LIMIT)
        shown = server.cluster(kernel)
        assert (shown["status"], shown["engine"], shown["joined"]) == ("ready", "cuda", cluster.address)
        assert (shown["pid"], shown["gpus"], shown["dashboard"]) == (None, [], f"gpudask/dashboard/{kernel.id}/")
        assert [each["kernel_id"] for each in server.fetch("clusters").body["clusters"]] == [kernel.id]
        assert [(worker["host"], worker["gpu_index"], worker["utilization"]) for worker in workers()] == [
            ("127.0.0.1", 0, 37),
            ("127.0.0.1", 1, 37),
        ]
        mark = "import logging; logging.getLogger('distributed.worker').error('a mark')"
        kernel.ok(f"connected.client.run(lambda: exec({mark!r}))")
        logs = server.fetch(f"clusters/{kernel.id}/logs").body["logs"]
        assert logs.keys() == {"supervisor", "gpu-0", "gpu-1"}
        assert "a mark" in logs["gpu-1"]

        refused = server.fetch("clusters", "POST", {"kernel_id": kernel.id})
        assert (refused.status, refused.body["kind"]) == (409, "ClusterExistsError")
        assert refused.body["message"] == f"This kernel is connected to {cluster.address}."
        # One sentence for the browser, for a request, and for the notebook.
        assert "dashboard" not in shown["limits"]
        for action, body, command in (
            ("stop", None, "%gpudask stop"),
            ("scale", {"workers": 1}, "%gpudask scale 1"),
            ("adapt", {"minimum": 1, "maximum": 2}, "%gpudask adapt 1 2"),
            ("restart", {}, "%gpudask restart"),
            ("keep", {}, "%gpudask keep"),
            ("release", {}, None),
        ):
            sentence = shown["limits"][action]
            assert sentence.startswith(f"This kernel is connected to {cluster.address}, which somebody else started. ")
            path, method = ("", "DELETE") if action == "stop" else (f"/{action}", "POST")
            refused = server.fetch(f"clusters/{kernel.id}{path}", method, body)
            assert (refused.status, refused.body["kind"], refused.body["message"]) == (409, "NotOwnedError", sentence)
            if command is not None:
                assert sentence in kernel.run(command).error_value
        browser = server.socket("stream")
        try:
            wait_until(lambda: f'"{kernel.id}":{{"gpu-0":' in browser.recv(), LIMIT)  # a sample of the history
        finally:
            browser.close()

        kernel.ok("%gpudask disconnect")
        wait_until(lambda: server.cluster(kernel) is None, LIMIT)
        kernel.ok("%gpudask start --cpu 1")
        own = server.cluster(kernel)
        assert (own["joined"], own["engine"]) == ("", "cpu")
        kernel.ok("%gpudask stop")
        kernel.ok(connect)
        wait_until(lambda: server.cluster(kernel), LIMIT)
    wait_until(lambda: server.fetch("clusters").body["clusters"] == [], LIMIT)  # with the kernel
