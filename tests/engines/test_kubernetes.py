"""Clusters of Dask's operator for Kubernetes: the objects, and a cluster on a double of Kubernetes."""

import os
import tempfile
import time
from pathlib import Path

import pytest
from helpers import places_of, wait_until
from servers import Server, kernel_of

from jupyter_gpudask.errors import SpecError
from jupyter_gpudask.protocol.state import describe_jobs
from jupyter_gpudask.supervisor.remote_cluster import cluster_resource, pod_state

pytest.importorskip("dask_kubernetes", reason="run make test-engines")
from kubernetes_api import KubernetesApi, check_resource

pytestmark = [pytest.mark.engines, pytest.mark.timeout(400)]

LIMIT = 120.0
IMAGE = "registry.example.org/jupyter-gpudask:1"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"resources": {"limits": {"memory": "64Gi"}, "requests": {"cpu": "4"}}},
        {"env": {"A": "1"}, "idle_timeout": 600, "scheduler_service_type": "LoadBalancer"},
        {"worker_command": "dask cuda worker"},
    ],
)
def test_the_resource_is_one_of_the_published_schema_with_a_gpu_for_each_worker_only(options):
    resource = cluster_resource("mine", 2, gpu=True, image=IMAGE, **options)
    check_resource(resource)
    (worker,), (scheduler,) = (resource["spec"][part]["spec"]["containers"] for part in ("worker", "scheduler"))
    assert resource["spec"]["worker"]["replicas"] == 2
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "nvidia.com/gpu" not in str(scheduler)
    assert scheduler["args"][:2] == ["dask", "scheduler"]
    assert {worker["image"], scheduler["image"]} == {IMAGE}


def test_options_that_cannot_work_are_refused_with_a_sentence():
    with pytest.raises(SpecError, match='The preset has no "image"'):
        cluster_resource("mine", 1, gpu=True)
    limits = {"limits": {"nvidia.com/gpu": 4}}
    with pytest.raises(SpecError, match=r"nvidia.com/gpu: 4 per worker\. Each worker uses one GPU"):
        cluster_resource("mine", 1, gpu=True, image=IMAGE, resources=limits)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Two doubles of Kubernetes, without and with the operator, and a Jupyter server with presets of both."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        apis = [KubernetesApi(Path(one)), KubernetesApi(Path(two), has_operator=False)]
        preset = {"class": "dask_kubernetes.operator.KubeCluster", "start_timeout": 90}
        options = {"image": IMAGE, "namespace": "default", "scheduler_service_type": "LoadBalancer"}
        presets = {
            "kubernetes": preset | {"options": options},
            "no-operator": preset | {"options": options | {"resource_timeout": 3}},
            "hangs": preset | {"options": options | {"resource_timeout": 600}, "start_timeout": 5},
            "few-gpus": preset | {"engine": "cuda", "options": options, "start_timeout": 20},
            "no-image": preset | {"options": {}},
            "bad-type": preset | {"options": options | {"scheduler_service_type": 7}},
        }
        started = []
        try:
            for number, api in enumerate(apis):
                environment = {**os.environ, "KUBECONFIG": str(api.file)}
                environment["JUPYTER_RUNTIME_DIR"] = str(tmp_path_factory.mktemp(f"runtime-{number}"))
                folder = tmp_path_factory.mktemp(f"server-{number}")
                started.append(Server(folder, f"--GpuDask.presets={presets!r}", environment=environment))
            yield [*zip(started, apis, strict=True)]
        finally:
            for server in started:
                server.stop()
            for api in apis:
                api.stop()


@pytest.mark.cluster
def test_a_cluster_computes_is_scaled_and_is_deleted(servers):
    server, api = servers[0]
    with kernel_of(server) as kernel:
        kernel.ok("started = %gpudask start --preset kubernetes --workers 1", timeout=LIMIT)
        assert api.invalid == []
        cell = kernel.ok(
            "%%gpudask\nimport dask.array as da\nda.ones((400, 400), chunks=100).sum().compute()", timeout=LIMIT
        )
        assert "160000" in cell.value
        assert str(api.file) in places_of([api.token], api.folder)
        assert places_of([api.token], server.log_path.parent, server.runtime) == []
        replies = [kernel.ok(f"shown = %gpudask {command}\nprint(shown)\nshown") for command in ("status", "doctor")]
        assert api.token not in f"{replies} {server.cluster(kernel)}"
        kernel.ok("%gpudask scale 2", timeout=LIMIT)
        names = lambda: sorted(worker["name"] for worker in server.cluster(kernel)["state"]["workers"])  # noqa: E731
        wait_until(lambda: names() == ["worker-0", "worker-1"], LIMIT)
        kernel.ok("%gpudask adapt 1 2", timeout=LIMIT)
        assert api.autoscaler["spec"] == {"cluster": api.cluster["metadata"]["name"], "minimum": 1, "maximum": 2}
        assert server.cluster(kernel)["state"]["adaptive_range"] == [1, 2]
        kernel.ok("%gpudask scale 1", timeout=LIMIT)
        assert api.autoscaler is None
        wait_until(lambda: names() == ["worker-0"], LIMIT)
        kernel.ok("%gpudask stop", timeout=LIMIT)
        wait_until(lambda: api.cluster is None and not api.processes, 60)


@pytest.mark.cluster
def test_pods_that_no_node_has_room_for_are_shown_as_jobs_are(servers):
    server, api = servers[0]
    full = (
        "Pod worker-{0}-7d4b9-x2x is pending in Kubernetes: Unschedulable, 0/1 nodes are available: 1 Insufficient {1}"
    )
    try:
        with kernel_of(server) as kernel:
            api.nodes = 0
            reply = kernel.run("%gpudask start --preset few-gpus", timeout=LIMIT)
            assert full.format(0, "nvidia.com/gpu")[1:] + "." in reply.error_value
            wait_until(lambda: api.cluster is None and not api.processes, 60)
            api.nodes = 1
            kernel.ok("started = %gpudask start --preset kubernetes --workers 1", timeout=LIMIT)
            assert server.cluster(kernel)["notes"] == []
            shown = kernel.ok("shown = %gpudask scale 2\nprint(shown)", timeout=LIMIT).printed
            waits = full.format(1, "memory") + " (worker worker-1)."
            assert waits in shown
            wait_until(lambda: server.cluster(kernel)["notes"] == [waits])
            assert kernel.ok("started.client.submit(lambda: 41).result()", timeout=LIMIT).value == "41"
            kernel.ok("%gpudask scale 1", timeout=LIMIT)
            wait_until(lambda: server.cluster(kernel)["notes"] == [])
            kernel.ok("%gpudask stop", timeout=LIMIT)
    finally:
        api.nodes = 8
    wait_until(lambda: api.cluster is None and not api.processes, 60)


def test_why_a_pod_is_not_up_is_read_from_what_kubernetes_says():
    def state(**status):
        return pod_state({"metadata": {"name": "a"}, "status": status})

    assert state(phase="Running", containerStatuses=[{"state": {"running": {}}}]) is None
    assert state(phase="Pending").description == "pod a is pending in Kubernetes"
    waiting = [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    described = state(phase="Pending", containerStatuses=waiting).description
    assert described == "pod a is pending in Kubernetes: ImagePullBackOff"
    assert describe_jobs([state(phase="Pending")]) == ("Pod a is pending in Kubernetes.",)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("number", "preset", "sentence"),
    [
        (1, "no-operator", "not actioned after 3 seconds, is the Dask Operator running?"),
        (1, "hangs", "No worker was up after 5 s: dask_kubernetes.operator.KubeCluster has not started a scheduler"),
        (0, "no-image", 'The preset has no "image".'),
        (0, "bad-type", "dask_kubernetes.operator.KubeCluster does not start: "),
    ],
)
def test_a_cluster_that_does_not_start_is_a_sentence_and_leaves_nothing(servers, number, preset, sentence):
    server, api = servers[number]
    with kernel_of(server) as kernel:
        began = time.monotonic()
        reply = kernel.run(f"%gpudask start --preset {preset}", timeout=LIMIT)
        assert time.monotonic() - began < 90  # the limits are 3 and 5 seconds; Dask itself would wait for 600
        assert reply.status == "error"
        assert sentence in reply.error_value + reply.printed
    wait_until(lambda: api.cluster is None and not api.processes, 60)
