"""Clusters of PBS, Grid Engine and LSF, with stand-ins for their commands: started, used, scaled and stopped."""

import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from batch_commands import COMMANDS, BatchCommands
from helpers import wait_until
from servers import Server, kernel_of

pytestmark = [pytest.mark.cluster, pytest.mark.engines, pytest.mark.timeout(600)]

LIMIT = 120.0
WAITING = {"PBS": "is queued in PBS", "SGE": "is queued in SGE", "LSF": "is pending in LSF: Job slot limit reached"}
WORK = """
import time
from pathlib import Path

def work():
    Path({begun!r}).touch()
    time.sleep(1000)

started.client.submit(work).result()
"""


@pytest.fixture(params=COMMANDS)
def system(request):
    return request.param


@pytest.fixture
def batch(system):
    pytest.importorskip("dask_jobqueue", reason="run make test-engines")
    with tempfile.TemporaryDirectory() as folder:
        yield BatchCommands(Path(folder), system)


@pytest.fixture
def server(system, batch, tmp_path):
    options = {"cores": 1, "memory": "300MB"}
    preset = {"class": f"dask_jobqueue.{system}Cluster", "start_timeout": 90}
    presets = {
        "jobs": preset | {"options": options},
        "refused": preset | {"options": options | {"queue": "nowhere"}},
    }
    (tmp_path / "home").mkdir()
    path = f"{batch.programs}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path / "home")}
    server = Server(tmp_path, f"--GpuDask.presets={presets!r}", environment=environment)
    yield server
    server.stop()


def shown(kernel, command):
    return kernel.ok(f"shown = %gpudask {command}\nprint(shown)", timeout=LIMIT).printed


def test_jobs_are_started_wait_are_scaled_cancelled_and_missed(server, batch, system):
    with kernel_of(server) as kernel:
        reply = kernel.run("%gpudask start --preset refused", timeout=LIMIT)
        assert f"{system} refuses the job: " in reply.error_value + reply.printed
        kernel.ok("started = %gpudask start --preset jobs --workers 3", timeout=LIMIT)
        assert kernel.ok("started.client.scheduler.address[:6]").value == "'tls://'"
        wait_until(lambda: len(server.cluster(kernel)["state"]["workers"]) == 2, LIMIT)
        wait_until(lambda: f"Job 3 {WAITING[system]}" in shown(kernel, "status"), LIMIT)
        cell = kernel.ok(
            "%%gpudask\nimport dask.array as da\nda.ones((400, 400), chunks=100).sum().compute()", timeout=LIMIT
        )
        assert "160000" in cell.value
        kernel.ok("started.client.run(print, 'from a job')")
        wait_until(lambda: shown(kernel, "logs").count("from a job") == 2, LIMIT)

        # The job that waits is cancelled first, then the results of one that runs are moved.
        kernel.ok("data = started.client.scatter([1, 2, 3, 4])")
        kernel.ok("%gpudask scale 2", timeout=LIMIT)
        wait_until(lambda: batch.jobs() == ["1", "2"], LIMIT)
        kernel.ok("%gpudask scale 1", timeout=LIMIT)
        assert kernel.ok("sum(started.client.gather(data))").value == "10"
        wait_until(lambda: len(batch.jobs()) == 1, LIMIT)

        # The last job is cancelled from outside while a cell runs.
        [last] = batch.jobs()
        begun = server.root / "begun"

        def cancel():
            wait_until(begun.exists, LIMIT)
            subprocess.run([batch.programs / COMMANDS[system][1], last], check=True)

        with ThreadPoolExecutor(1) as thread:
            cancelling = thread.submit(cancel)
            reply = kernel.run(WORK.format(begun=str(begun)), timeout=2 * LIMIT)
            cancelling.result()
        assert reply.status == "error"
        wait_until(lambda: f"No worker is left: job {last} " in str(server.cluster(kernel)["reason"]), LIMIT)
    wait_until(lambda: batch.jobs() == [], 60)
