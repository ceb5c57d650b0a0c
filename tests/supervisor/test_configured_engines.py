"""Engines of profiles with a class, as far as they start nothing: what is missing, and jobs in words."""

import asyncio
import re
import sys

import pytest

from jupyter_gpudask.errors import ClusterStartError, GpuUnavailableError, LimitError, SpecError
from jupyter_gpudask.protocol import ClusterClass, ClusterSpec, JobState, Start
from jupyter_gpudask.protocol.state import describe_jobs
from jupyter_gpudask.supervisor import ssh
from jupyter_gpudask.supervisor.configured import import_class
from jupyter_gpudask.supervisor.kubernetes import KUBE_CLUSTER
from jupyter_gpudask.supervisor.remote_cluster import RemoteCluster
from jupyter_gpudask.supervisor.scaling import check_limit
from jupyter_gpudask.supervisor.ssh import RemoteWorkers, check_capacity


@pytest.mark.parametrize(
    ("path", "extra"),
    [
        ("dask_jobqueue.SLURMCluster", "slurm"),
        ("dask_gateway.GatewayCluster", "gateway"),
        (KUBE_CLUSTER, "kubernetes"),
    ],
)
def test_a_package_that_is_missing_is_a_sentence_with_the_command_that_installs_it(monkeypatch, path, extra):
    package = path.partition(".")[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ClusterStartError) as raised:
        import_class(ClusterClass(path=path))
    assert f"The class {path} of this profile is not in the kernel's environment: " in str(raised.value)
    assert re.search(rf"Type: %pip install .*\[{extra}\].* and restart the kernel\.$", str(raised.value))


def test_an_unknown_class_is_a_sentence():
    with pytest.raises(ClusterStartError, match=r"Ask the administrator of the server\."):
        import_class(ClusterClass(path="no_such_package.Cluster"))


def test_without_asyncssh_the_workers_on_hosts_are_a_sentence_with_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "asyncssh", None)

    async def start():
        options = {"gpu": False, "security": None, "logs": tmp_path, "connect_options": {}, "kwargs": {}, "limit": 9}
        workers = RemoteWorkers("tls://h:1", "10.0.0.1", worker_class="", **options)
        await workers.start()

    with pytest.raises(ClusterStartError, match=r"needs asyncssh, .* lacks\. Type: %pip install .*\[ssh\]"):
        asyncio.run(start())


@pytest.mark.parametrize(
    ("engine", "worker_class", "allowed"),
    [
        ("cpu", "dask_cuda.CUDAWorker", "distributed.Nanny"),
        ("cuda", "distributed.Nanny", "dask_cuda.CUDAWorker"),
        ("cuda", "mine.Worker", "dask_cuda.CUDAWorker"),
    ],
)
def test_workers_on_hosts_of_another_class_than_that_of_the_engine_are_refused(tmp_path, engine, worker_class, allowed):
    options = {"hosts": ["10.0.0.1", "10.0.0.2"], "worker_class": worker_class}
    with pytest.raises(SpecError) as raised:
        ssh.make_cluster(options, ClusterSpec.parse({"engine": engine}), {}, tmp_path)
    said = f'The worker_class {worker_class} of the profile is not that of "engine": "{engine}". Set {allowed}, or'
    assert str(raised.value).startswith(said)


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
    with pytest.raises(LimitError, match="limits the workers of a cluster to 2; 3 were requested"):
        check_limit(3, 2)


@pytest.mark.parametrize("options", [{}, {"adapt": "1,2"}])
def test_a_cluster_whose_scheduler_runs_elsewhere_and_whose_package_is_missing_is_a_sentence(monkeypatch, options):
    monkeypatch.setitem(sys.modules, "dask_gateway", None)
    class_ = ClusterClass(path="dask_gateway.GatewayCluster", options={})
    spec = ClusterSpec.parse({"engine": "cpu", "profile": "gateway"} | options)
    request = Start(spec=spec, cluster_class=class_)
    with pytest.raises(ClusterStartError, match=r"GatewayCluster of this profile is not in the kernel's environment"):
        asyncio.run(RemoteCluster(request, class_).open(lambda _: None))
