"""Workers with GPUs that engines start elsewhere, with pretend GPUs: each has one, computes on it, and reports it."""

import json
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway import GatewayServer
from helpers import fake_gpu_environment, wait_until
from servers import Server, kernel_of
from sshd import SshServer

pytestmark = [pytest.mark.cluster, pytest.mark.engines, pytest.mark.timeout(400)]

LIMIT = 120.0


@contextmanager
def ssh_preset(folder):
    """A host whose Python sees the pretend GPUs, as a preset and variables of the Jupyter server."""
    pytest.importorskip("asyncssh", reason="run make test-engines")
    if shutil.which("sshd") is None:
        pytest.skip("sshd is missing: run make test-engines")
    python = folder / "python"
    path = fake_gpu_environment(cupy=True)["PYTHONPATH"]
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    ssh = SshServer(folder)
    try:
        yield (
            {
                "class": "distributed.SSHCluster",
                "options": {
                    "hosts": ["127.0.0.1", "127.0.0.1"],
                    "connect_options": ssh.options(),
                    "worker_class": "dask_cuda.CUDAWorker",
                    "worker_options": {"n_workers": 2},
                    "remote_python": str(python),
                },
            },
            {},
        )
    finally:
        ssh.stop()


@contextmanager
def gateway_preset(folder):
    """A Gateway whose clusters see the pretend GPUs."""
    pytest.importorskip("dask_gateway_server", reason="run make test-engines")
    gateway = GatewayServer(folder, fake_gpu_environment(cupy=True), gpu=True)
    variables = {"DASK_GATEWAY__AUTH__KWARGS": json.dumps({"password": gateway.password})}
    variables |= {f"DASK_GATEWAY__{name.upper()}": gateway.options[name] for name in ("address", "proxy_address")}
    try:
        yield {"class": "dask_gateway.GatewayCluster", "options": gateway.options}, variables
    finally:
        gateway.stop()


@contextmanager
def slurm_preset(folder, slurm):
    """A SLURM whose jobs get the environment of the kernel, and so see the pretend GPUs."""
    (folder / "home").mkdir()
    options = {"cores": 2, "processes": 2, "memory": "600MB", "walltime": "00:30:00"}
    variables = slurm.environment | {"HOME": str(folder / "home")}
    yield {"class": "dask_jobqueue.SLURMCluster", "options": options}, variables
    wait_until(lambda: slurm.jobs() == {}, 90)


@pytest.fixture(params=[ssh_preset, gateway_preset, slurm_preset], ids=["ssh", "gateway", "slurm"])
def server(request, tmp_path):
    """A Jupyter server with one preset, and how many workers it has; the GPUs of its own machine are others."""
    slurm = (request.getfixturevalue("slurm"),) if request.param is slurm_preset else ()
    with tempfile.TemporaryDirectory() as folder, request.param(Path(folder), *slurm) as (preset, variables):
        presets = {"gpus": preset | {"engine": "cuda", "start_timeout": 90}}
        environment = fake_gpu_environment(cupy=True, **variables)
        server = Server(tmp_path, f"--GpuDask.presets={presets!r}", environment=environment)
        yield server, 1 if request.param is gateway_preset else 2
        server.stop()


def test_workers_with_gpus_compute_on_them_and_their_metrics_reach_the_panel(server):
    # The Gateway is asked for one worker, which has one of the two GPUs; of the others two workers are asked for.
    server, count = server
    with kernel_of(server) as kernel:
        kernel.ok("started = %gpudask start --preset gpus", timeout=LIMIT)
        assert server.cluster(kernel)["engine"] == "cuda"

        def workers():
            return server.cluster(kernel)["state"]["workers"]

        wait_until(lambda: len(workers()) == count and all(worker["utilization"] for worker in workers()), LIMIT)
        assert {(worker["gpu_index"], worker["utilization"]) for worker in workers()} == {
            (index, 37) for index in range(count)
        }
        assert {worker["device_memory_total"] for worker in workers()} == {140 * 2**30}
        assert len({worker["gpu_uuid"] for worker in workers()}) == count
        # The workers are those of dask-cuda: each sees its GPU first.
        seen = kernel.ok("import os\nsorted(started.client.run(os.getenv, 'CUDA_VISIBLE_DEVICES').values())").value
        assert seen == "['0,1', '1,0']" if count == 2 else str([workers()[0]["gpu_uuid"]])
        cell = "%%gpudask --dataframe pandas\nimport dask.array as da\nx = da.ones((40, 40), chunks=10)\n"
        assert kernel.ok(f"{cell}type(x._meta), float(x.sum().compute())", timeout=LIMIT).value == (
            "(cupy.ndarray, 1600.0)"
        )
        browser = server.socket("stream")
        try:
            shown = json.loads(browser.recv())["clusters"][0]["state"]["workers"]
        finally:
            browser.close()
        assert sorted(worker["gpu_index"] for worker in shown) == list(range(count))
        kernel.ok("%gpudask stop", timeout=LIMIT)
