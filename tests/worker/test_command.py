"""``python -m jupyter_gpudask worker`` on a machine with pretend GPUs."""

import os
import sys
from http.client import HTTPConnection, HTTPException

import psutil
import pytest
from distributed import Client
from helpers import fake_gpu_environment, wait_until
from others import OthersCluster

from jupyter_gpudask.worker.joined import has_gpu
from jupyter_gpudask.worker.preload import METRICS

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """A scheduler on loopback, and a client of it."""
    cluster = OthersCluster(tmp_path_factory.mktemp("scheduler"))
    with Client(cluster.address, set_as_default=False) as client:
        yield cluster, client
    cluster.close()


@pytest.fixture
def start_worker(scheduler):
    """Start a worker; returns what the scheduler knows of it, its address, and where its processes listen."""
    cluster, client = scheduler
    started = []

    def start(*options, by=("--scheduler-file", str(cluster.file)), environment=None):
        command = (sys.executable, "-m", "jupyter_gpudask", "worker", *by, "--cpu", "--nthreads", "1", *options)
        started.append(cluster.run(*command, environment=environment))
        client.wait_for_workers(1, timeout=60)
        [(address, worker)] = client.scheduler_info()["workers"].items()
        process = psutil.Process(started[-1].pid)
        processes = [process, *process.children(recursive=True)]
        connections = [each for one in processes for each in one.net_connections()]
        return worker, address, [each.laddr for each in connections if each.status == psutil.CONN_LISTEN]

    yield start
    for process in started:
        process.terminate()
        process.wait(60)
    wait_until(lambda: not client.scheduler_info()["workers"])


@pytest.mark.parametrize("nanny", ["--nanny", "--no-nanny"])
def test_a_worker_without_a_gpu_sees_none_and_reports_none_where_there_are_some(scheduler, start_worker, nanny):
    worker, *_ = start_worker(nanny, environment=fake_gpu_environment(FAKE_GPUS="2"))
    _, client = scheduler
    assert client.run(has_gpu).popitem()[1] is False
    assert client.run(os.getenv, "CUDA_VISIBLE_DEVICES").popitem()[1] == ""
    assert {"gpu", "gpu_utilization"}.isdisjoint(worker["metrics"])
    assert worker["metrics"][METRICS]["device"] is None


@pytest.mark.parametrize("by", ["address", "file"])
def test_a_worker_of_a_scheduler_on_loopback_listens_nowhere_else_and_serves_no_pages(scheduler, start_worker, by):
    _, address, listening = start_worker(**{"by": (scheduler[0].address,)} if by == "address" else {})
    assert len(listening) >= 3  # of the nanny, of the worker, and its HTTP server
    assert {each.ip for each in listening} == {"127.0.0.1"}
    assert "//127.0.0.1:" in address
    assert [status for each in listening if (status := status_of_page(each.port, "/health"))] == [404]


def test_a_worker_listens_where_its_options_say(start_worker):
    _, address, listening = start_worker("--host", "127.0.0.2", "--dashboard", "--dashboard-address", "127.0.0.3:0")
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
