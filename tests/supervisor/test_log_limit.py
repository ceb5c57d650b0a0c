"""The limit of the workers' logs."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import wait_until

from jupyter_gpudask.client.connect import connect
from jupyter_gpudask.errors import ClusterStartError
from jupyter_gpudask.launcher.cluster_process import ClusterProcess
from jupyter_gpudask.machine.directories import older_log, tail
from jupyter_gpudask.protocol import ClusterSpec
from jupyter_gpudask.supervisor.workers import cut


def cpu(limit):
    environment = {} if limit is None else {"DASK_JUPYTER_GPUDASK__LOG_LIMIT": str(limit)}
    return ClusterSpec(engine="cpu", workers=1, environment=environment)


@pytest.mark.cluster
@pytest.mark.parametrize(("limit", "most"), [(2_000_000, 2_000_000), (None, 64 * 2**20)], ids=["set", "default"])
def test_the_log_of_a_worker_stays_below_the_limit_and_its_end_is_shown(limit, most):
    def print_much():
        """In Python, and in a child process, which has the log open still."""
        for number in range(100_000):
            sys.stdout.write(f"line {number} of the worker {'.' * 20}\n")
        subprocess.run(["head", "-c", str(5 * most), "/dev/zero"], check=True)
        return subprocess.Popen("sleep 5; echo; echo the last line of the child", shell=True).pid  # noqa: S602

    async def run():
        cluster = await ClusterProcess.start(cpu(limit))
        try:
            logs = Path(cluster.ready.address.removeprefix("unix://").rpartition("/")[0]) / "logs"
            await asyncio.to_thread(use, cluster.ready)
            await asyncio.to_thread(wait_until, lambda: sizes(logs) < most, 60)
            while "the last line of the child" not in (log := await cluster.worker_log("0", 3)):
                await asyncio.sleep(0.1)
            return log, sizes(logs)
        finally:
            await cluster.close()

    def use(ready):
        with connect(ready, set_as_default=False) as client:
            client.submit(print_much).result()

    def sizes(logs):
        return sum(log.stat().st_size for log in logs.iterdir())

    log, size = asyncio.run(run())
    assert log.endswith("the last line of the child")
    assert size < most


def test_the_end_of_a_log_is_whole_after_it_was_cut(tmp_path):
    log = tmp_path / "worker-0.log"
    with log.open("a") as file:
        for number in range(1000):
            file.write(f"line {number}\n")
            file.flush()
            cut(log, 500)
    assert tail(log, 20).splitlines() == [f"line {number}" for number in range(980, 1000)]
    assert log.stat().st_size <= 500
    assert older_log(log).stat().st_size == 500


@pytest.mark.cluster
@pytest.mark.parametrize("limit", ["much", "10 kB"])
def test_a_limit_that_is_not_a_size_is_refused_with_one_sentence(limit):
    with pytest.raises(ClusterStartError, match=f"log-limit is '{limit}', which is not a size of at least 1 MB"):
        asyncio.run(ClusterProcess.start(cpu(limit)))
