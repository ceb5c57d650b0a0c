"""The logs of workers, and disks that are full."""

import subprocess
import sys
from pathlib import Path

import pytest
from helpers import Kernel, RunningCluster, fake_gpu_environment, fill_disk, pids_of_session, small_disk, wait_until

from jupyter_gpudask.errors import ClusterStartError
from jupyter_gpudask.machine.directories import older_log, tail
from jupyter_gpudask.machine.leases import LeaseFolder
from jupyter_gpudask.supervisor.dask_cluster import cut, log_limit

pytestmark = pytest.mark.cluster

REPORT = "%%gpudask --report {}/report.html\nclient.submit(sum, [1, 2], pure=False).result() + 4"


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk") as folder:
        yield folder


def start(disk, *, scratch=None, gpus="1"):
    """A cluster on pretend GPUs whose lease, logs and scratch space are on `disk`."""
    environment = fake_gpu_environment(FAKE_GPUS=gpus, JUPYTER_RUNTIME_DIR=str(disk), TMPDIR=str(scratch or disk))
    return RunningCluster({}, environment=environment, holder="before.ipynb")


def print_much():
    for number in range(10_000):
        sys.stdout.write(f"{number}: what a task prints goes to the log of its worker\n")
    sys.stdout.flush()
    return "computed"


def test_a_cluster_goes_on_and_keeps_its_gpu_when_neither_lease_nor_log_can_be_written(disk):
    folder = LeaseFolder(disk / "gpudask-leases")

    def holders():
        return [lease.holder for lease in folder.read()]

    with start(disk) as cluster:
        filler = fill_disk(disk)
        cluster.process.rename("after.ipynb")
        state = cluster.state()
        assert (state.status, holders(), list(disk.rglob("*.unfinished"))) == ("ready", ["before.ipynb"], [])
        assert cluster.client.submit(print_much, pure=False).result(30) == "computed"
        filler.unlink()
        cluster.process.rename("later.ipynb")
        cluster.state()
        assert holders() == ["later.ipynb"]
        assert "No space left on device" in cluster.process.log()
        fill_disk(disk)
    assert pids_of_session(cluster.process.pid) == []
    assert sorted(path.name for path in disk.iterdir()) == ["filler", "gpudask-leases"]
    assert [path.name for path in (disk / "gpudask-leases").iterdir()] == ["mutex"]


def test_a_gpu_that_cannot_be_held_is_not_taken(disk, tmp_path):
    fill_disk(disk)

    with pytest.raises(ClusterStartError, match="No space left on device") as raised:
        start(disk, scratch=tmp_path)
    refusal = raised.value
    assert str(disk / "gpudask-leases") in refusal.reason
    assert "\n" not in f"{refusal.reason} {refusal.fix}"
    assert not list(disk.rglob("*.unfinished"))
    assert not list(tmp_path.glob("jupyter-gpudask-*"))


def test_a_folder_that_cannot_be_finished_is_a_clear_error_and_is_removed(tmp_path):
    with small_disk(tmp_path / "disk", files=3) as disk:  # one is the folder itself
        with pytest.raises(ClusterStartError, match=f"The directory of the cluster cannot be created: .*{disk}"):
            start(tmp_path, scratch=disk)
        assert list(disk.iterdir()) == []


def test_a_report_that_cannot_be_written_costs_a_cell_neither_its_result_nor_the_next_cell(disk):
    kernel = Kernel()
    try:
        kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start --cpu 1\nclient = started.client")
        filler = fill_disk(disk)
        reply = kernel.ok(REPORT.format(disk))
        filler.unlink()
        again = kernel.ok(REPORT.format(disk))
    finally:
        kernel.shutdown()
    assert (reply.value, again.value) == ("7", "7")
    assert "Traceback" not in reply.printed + reply.traceback
    shown = [text for text in reply.displayed if "report" in text]
    assert shown == [f"The report cannot be written to {disk}/report.html: No space left on device."]
    assert any("1 task" in text for text in reply.displayed)
    assert "</html>" in (disk / "report.html").read_text()


def limited(limit):
    return {"DASK_JUPYTER_GPUDASK__LOG_LIMIT": limit}


def test_the_log_of_a_worker_stays_below_the_limit_and_its_end_is_shown():
    most = 2_000_000

    def print_much():
        """In Python, and in a child process, which has the log open still."""
        for number in range(100_000):
            sys.stdout.write(f"line {number} of the worker {'.' * 20}\n")
        subprocess.run(["head", "-c", str(5 * most), "/dev/zero"], check=True)
        return subprocess.Popen("sleep 2; echo; echo the last line of the child", shell=True).pid  # noqa: S602

    def sizes():
        return sum(log.stat().st_size for log in logs.iterdir())

    def last_lines():
        return cluster.run(cluster.process.worker_log("0", 3))

    with RunningCluster({"engine": "cpu", "workers": 1, "environment": limited(str(most))}) as cluster:
        logs = Path(cluster.process.ready.address.removeprefix("unix://").rpartition("/")[0]) / "logs"
        cluster.client.submit(print_much).result()
        wait_until(lambda: sizes() < most, 60)
        wait_until(lambda: last_lines().endswith("the last line of the child"), 60)
        assert sizes() < most


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


def test_the_limit_is_64_mib_unless_a_size_is_set():
    assert log_limit({}) == 64 * 2**20
    assert log_limit(limited("1GiB")) == 2**30
    for value in ("much", "10 kB"):
        with pytest.raises(ClusterStartError, match=f"log-limit is '{value}', which is not a size of at least 1 MB"):
            log_limit(limited(value))
