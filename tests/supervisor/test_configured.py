"""Clusters of a class of the configuration, and the jobs of batch systems."""

import asyncio
import re
import sys
from types import SimpleNamespace

import pytest

from jupyter_gpudask.errors import ClusterStartError, GpuUnavailableError, LimitError, SpecError
from jupyter_gpudask.protocol.spec import ClusterClass, ClusterSpec
from jupyter_gpudask.protocol.state import JobState, describe_jobs
from jupyter_gpudask.supervisor import job_queue
from jupyter_gpudask.supervisor.engines import RemoteWorkers, check_capacity, import_class, make_ssh_cluster
from jupyter_gpudask.supervisor.job_queue import BatchSystem, JobQueue
from jupyter_gpudask.supervisor.remote_cluster import KUBE_CLUSTER
from jupyter_gpudask.supervisor.scaling import check_limit


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
        make_ssh_cluster(options, ClusterSpec.parse({"engine": engine}), {}, tmp_path)
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


JOBS = """12|PENDING|long|Resources
13|RUNNING|long|None
14|TIMEOUT|long|None
"""


@pytest.fixture
def answers(monkeypatch):
    """What the commands answer, in turn; the last answer stays."""
    answers = []

    async def run_command(command, limit):  # noqa: ARG001
        return answers.pop(0) if len(answers) > 1 else answers[0]

    monkeypatch.setattr(job_queue, "run_command", run_command)
    return answers


def states(system, *ids):
    asyncio.run(system.refresh(set(ids)))
    return [system.state(id_, "w") for id_ in ids]


def test_the_jobs_in_the_list_are_described_and_those_that_leave_it_have_ended(answers):
    answers += [JOBS, "11|Priority\n12|Resources\n", ""]
    system = BatchSystem("SLURM")
    seen = states(system, "12", "13", "14")
    assert [job.description for job in seen] == [
        "job 12 is pending in SLURM: Resources, position 2",
        "job 13 is running in SLURM",
        "job 14 reached its time limit in SLURM (TIMEOUT)",
    ]
    assert [job.has_ended for job in seen] == [False, False, True]
    assert [job.has_ended for job in states(system, "12", "13", "14")] == [True] * 3


@pytest.mark.usefixtures("answers")
def test_another_batch_system_is_not_asked():
    assert states(BatchSystem("PBS"), "12")[0].description == "job 12 is submitted in PBS"


def test_a_job_that_is_not_listed_at_once_has_not_ended(answers, monkeypatch):
    answers += ["", JOBS, "", "", None]
    system = BatchSystem("SLURM")
    assert [states(system, "13")[0].has_ended for _ in range(4)] == [False, False, True, True]
    answers[:] = [""]
    system = BatchSystem("SLURM")
    assert states(system, "13")[0].description == "job 13 is submitted in SLURM"
    monkeypatch.setattr(job_queue, "_LISTED_WITHIN", 0)
    assert states(system, "13")[0].description == "job 13 is not in the queue of SLURM any more"


def test_the_log_of_a_job_has_neither_those_of_others_nor_credentials(tmp_path):
    for number in (1, 2):
        (tmp_path / f"jupyter-gpudask-{number}.out").write_text(f"log {number}")
    (tmp_path / ".dask-jobqueue.worker.key.gj1mw2tf").write_text("a key")
    cluster = SimpleNamespace(
        job_cls=type("SLURMJob", (), {}),
        workers={"Cluster-2": SimpleNamespace(job_id="1"), "Cluster-1": SimpleNamespace(job_id="2")},
        worker_spec={},
        _name="Cluster",
        _job_kwargs={"log_directory": str(tmp_path)},
    )
    queue = JobQueue(cluster)
    assert [queue.log(name, 10) for name in ("Cluster-2", "Cluster-1", "1", "2")] == ["log 1", "log 2"] * 2
