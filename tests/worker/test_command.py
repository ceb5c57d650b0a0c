"""``python -m jupyter_gpudask worker`` on a machine with pretend GPUs."""

import os
import sys

import pytest
from distributed import Client
from helpers import fake_gpu_environment
from others import OthersCluster

from jupyter_gpudask.worker.libraries import has_gpu
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
