"""``python -m jupyter_gpudask worker`` on a machine with pretend GPUs."""

import os
import sys
from http.client import HTTPConnection, HTTPException

import psutil
import pytest
from distributed import Client
from helpers import fake_gpu_environment
from others import OthersCluster

from jupyter_gpudask.worker.environment import has_gpu
from jupyter_gpudask.worker.preload import METRICS

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("nanny", ["--nanny", "--no-nanny"])
def test_a_worker_without_a_gpu_sees_none_and_reports_none_where_there_are_some(tmp_path, nanny):
    environment = fake_gpu_environment(FAKE_GPUS="2")
    cluster = OthersCluster(tmp_path)
    try:
        options = ("--cpu", "--nthreads", "1", nanny, "--no-dashboard")
        command = (sys.executable, "-m", "jupyter_gpudask", "worker", cluster.address, *options)
        cluster.run(*command, environment=environment)
        with Client(cluster.address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            (worker,) = client.scheduler_info()["workers"].values()
            found = client.run(has_gpu).popitem()[1], client.run(os.getenv, "CUDA_VISIBLE_DEVICES").popitem()[1]
    finally:
        cluster.close()
    assert found == (False, "")
    assert {"gpu", "gpu_utilization"}.isdisjoint(worker["metrics"])
    assert "device" not in worker["metrics"][METRICS]


@pytest.fixture
def start_worker(tmp_path):
    """Start a worker of a scheduler on loopback; returns its address and on what its processes listen."""
    cluster = OthersCluster(tmp_path)

    def start(*options, scheduler=("--scheduler-file", str(cluster.file))):
        command = (sys.executable, "-m", "jupyter_gpudask", "worker", *scheduler, "--cpu", "--nthreads", "1", *options)
        process = psutil.Process(cluster.run(*command).pid)
        with Client(cluster.address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            [address] = client.scheduler_info()["workers"]
        processes = [process, *process.children(recursive=True)]
        connections = [each for one in processes for each in one.net_connections()]
        return address, [each.laddr for each in connections if each.status == psutil.CONN_LISTEN]

    start.address = cluster.address
    yield start
    cluster.close()


@pytest.mark.parametrize("by", ["address", "file"])
def test_a_worker_of_a_scheduler_on_loopback_listens_nowhere_else_and_serves_no_pages(start_worker, by):
    address, listening = start_worker(**{"scheduler": (start_worker.address,)} if by == "address" else {})
    assert len(listening) >= 3  # of the nanny, of the worker, and its HTTP server
    assert {each.ip for each in listening} == {"127.0.0.1"}
    assert "//127.0.0.1:" in address
    assert [status for each in listening if (status := status_of_page(each.port, "/health"))] == [404]


def test_a_worker_listens_where_its_options_say(start_worker):
    address, listening = start_worker("--host", "127.0.0.2", "--dashboard", "--dashboard-address", "127.0.0.3:0")
    assert "//127.0.0.2:" in address
    assert {each.ip for each in listening} == {"127.0.0.2", "127.0.0.3"}


def status_of_page(port, path):
    """The status of the answer; `None` from what is no HTTP server."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (HTTPException, OSError):
        return None
    finally:
        connection.close()
