"""Engines of profiles with a class, as far as they start nothing: what is missing, and jobs in words."""

import asyncio
import os
import sys

import pytest

from jupyter_gpudask.errors import ClusterStartError, GpuUnavailableError, LimitError
from jupyter_gpudask.protocol import ClusterClass, ClusterSpec, JobState, Start
from jupyter_gpudask.protocol.cluster.missing_workers import describe_jobs
from jupyter_gpudask.supervisor.engines.configured import import_class
from jupyter_gpudask.supervisor.engines.ssh import check_capacity
from jupyter_gpudask.supervisor.remote_cluster import RemoteCluster
from jupyter_gpudask.supervisor.scaling import check_limit


def test_a_package_that_is_missing_is_a_sentence_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with pytest.raises(ClusterStartError, match=r"dask_jobqueue\.SLURMCluster .*%pip install .*\[slurm\]"):
        import_class(ClusterClass(path="dask_jobqueue.SLURMCluster"))
    with pytest.raises(ClusterStartError, match=r"Ask the administrator of the server\."):
        import_class(ClusterClass(path="no_such_package.Cluster"))


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"status": "PENDING", "reason": "Resources"}, "job 12 is pending in SLURM: Resources"),
        (
            {"status": "PENDING", "reason": "Priority", "position": 3},
            "job 12 is pending in SLURM: Priority, position 3",
        ),
        ({"status": "RUNNING", "reason": "None"}, "job 12 is running in SLURM"),
        ({}, "job 12 is submitted in SLURM"),
        ({"status": "TIMEOUT", "has_ended": True}, "job 12 reached its time limit in SLURM (TIMEOUT)"),
        ({"has_ended": True}, "job 12 is not in the queue of SLURM any more"),
    ],
)
def test_a_job_is_described_in_the_words_of_its_batch_system(job, words):
    assert JobState(id="12", worker="a-0", system="SLURM", **job).description == words


def test_many_jobs_are_described_in_few_sentences():
    jobs = [JobState(id=str(number), worker="a", system="SLURM", status="PENDING") for number in range(500)]
    *shown, last = describe_jobs(jobs)
    assert shown == [f"Job {number} is pending in SLURM (worker a)." for number in range(5)]
    assert last == "And 495 more jobs without a worker."


def test_more_workers_than_hosts_or_the_administrator_allow_are_refused():
    check_capacity(2, 2)
    with pytest.raises(GpuUnavailableError, match="3 workers were requested, and the hosts of this profile have 2"):
        check_capacity(3, 2)
    check_limit(3, None)
    with pytest.raises(LimitError, match="limits clusters to 2 workers; 3 were requested"):
        check_limit(3, 2)


@pytest.mark.parametrize("options", [{}, {"adapt": "1,2"}])
def test_a_cluster_whose_scheduler_runs_elsewhere_and_whose_package_is_missing_is_a_sentence(monkeypatch, options):
    monkeypatch.setitem(sys.modules, "dask_gateway", None)
    class_ = ClusterClass(path="dask_gateway.GatewayCluster", options={})
    spec = ClusterSpec.parse({"engine": "cpu", "profile": "gateway"} | options)
    request = Start(spec=spec, cluster_class=class_, parent=os.getpid())
    with pytest.raises(ClusterStartError, match=r"GatewayCluster of this profile is not in the kernel's environment"):
        asyncio.run(RemoteCluster(request, class_).open(lambda _: None))
