"""Which files are the logs of a job, in the directory that it shares with this machine."""

from types import SimpleNamespace

import pytest

from jupyter_gpudask.supervisor.job_queue import JobQueue

# With the names that the batch systems give them, for the jobs 1 and 2 of the workers Cluster-2 and Cluster-1.
NAMES = {
    "SLURM": ("jupyter-gpudask-1.out", "jupyter-gpudask-2.out"),
    "PBS": ("jupyter-gpudask.o1", "jupyter-gpudask.o2"),
    "LSF": ("Cluster-2-1.out", "Cluster-1-2.out"),
}


@pytest.mark.parametrize("system", NAMES)
def test_the_log_of_a_job_has_neither_those_of_others_nor_credentials(tmp_path, system):
    for number, name in enumerate(NAMES[system], start=1):
        (tmp_path / name).write_text(f"log {number}")
    (tmp_path / ".dask-jobqueue.worker.key.gj1mw2tf").write_text("a key")
    cluster = SimpleNamespace(
        job_cls=type(f"{system}Job", (), {}),
        workers={"Cluster-2": SimpleNamespace(job_id="1"), "Cluster-1": SimpleNamespace(job_id="2")},
        worker_spec={},
        _name="Cluster",
        _job_kwargs={"log_directory": str(tmp_path)},
    )
    queue = JobQueue(cluster)
    assert [queue.log(name, 10) for name in ("Cluster-2", "Cluster-1", "1", "2")] == ["log 1", "log 2"] * 2
