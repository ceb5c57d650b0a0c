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
    [("dask_jobqueue.SLURMCluster", "slurm"), ("dask_gateway.GatewayCluster", "gateway"), (KUBE_CLUSTER, "kubernetes")],
)
def test_a_package_that_is_missing_is_a_sentence_with_the_command_that_installs_it(monkeypatch, path, extra):
    package = path.partition(".")[0]
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ClusterStartError) as raised:
        import_class(ClusterClass(path=path))
    assert f"The class {path} of this preset is not in the kernel's environment: " in str(raised.value)
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
    said = f'The worker_class {worker_class} of the preset is not that of "engine": "{engine}". Set {allowed}, or'
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
    with pytest.raises(GpuUnavailableError, match="3 workers were requested, and the machines of this preset have 2"):
        check_capacity(3, 2)
    check_limit(3, None)
    with pytest.raises(LimitError, match="limits the workers of a cluster to 2; 3 were requested"):
        check_limit(3, 2)


PBS = """
pbs-server:
                                                            Req'd  Req'd   Elap
Job ID          Username Queue    Jobname    SessID NDS TSK Memory Time  S Time
--------------- -------- -------- ---------- ------ --- --- ------ ----- - -----
12.pbs-server   ann      workq    jupyter-gp    --    1   1  300mb 00:30 Q   --
13.pbs-server   ann      workq    jupyter-gp   4711   1   1  300mb 00:30 R 00:01
14.pbs-server   ann      workq    jupyter-gp   4712   1   1  300mb 00:30 C   --
"""
SGE = """job-ID  prior   name       user         state submit/start at     queue                          slots
-----------------------------------------------------------------------------------------------------------------
     12 0.55500 jupyter-gp ann          qw    11/23/2026 23:00:00                                    1
     13 0.55500 jupyter-gp ann          r     11/23/2026 23:00:01 all.q@node1                        1
     14 0.55500 jupyter-gp ann          Eqw   11/23/2026 23:00:02                                    1
"""
LSF = """12|PEND|normal|Job slot limit reached
13|RUN|normal|-
14|EXIT|normal|-
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


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("PBS", PBS, ["is queued in PBS", "is running in PBS", "ended in PBS (COMPLETED)"]),
        ("SGE", SGE, ["is queued in SGE", "is running in SGE", "is faulty in SGE"]),
        ("LSF", LSF, ["is pending in LSF: Job slot limit reached", "is running in LSF", "ended in LSF (EXIT)"]),
    ],
)
def test_the_jobs_in_the_list_are_described_and_those_that_leave_it_have_ended(answers, name, answer, words):
    answers += [answer, ""]
    system = BatchSystem(name)
    seen = states(system, "12", "13", "14")
    assert [job.description for job in seen] == [f"job {12 + n} {text}" for n, text in enumerate(words)]
    assert [job.has_ended for job in seen] == [False, False, name != "SGE"]
    assert [job.position for job in seen] == [None] * 3
    assert [job.has_ended for job in states(system, "12", "13", "14")] == [True] * 3


def test_a_job_that_is_not_listed_at_once_has_not_ended(answers, monkeypatch):
    answers += ["", LSF, "", None]
    system = BatchSystem("LSF")
    assert [states(system, "13")[0].has_ended for _ in range(4)] == [False, False, True, True]
    answers[:] = [""]
    system = BatchSystem("LSF")
    assert states(system, "13")[0].description == "job 13 is submitted in LSF"
    monkeypatch.setattr(job_queue, "_LISTED_WITHIN", 0)
    assert states(system, "13")[0].description == "job 13 is not in the queue of LSF any more"


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
