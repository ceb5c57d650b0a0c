"""What PBS, LSF and Grid Engine say of jobs, in the formats of their manuals."""

import asyncio

import pytest

from jupyter_gpudask.supervisor import batch_system
from jupyter_gpudask.supervisor.batch_system import BatchSystem

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

    monkeypatch.setattr(batch_system, "run_command", run_command)
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
    monkeypatch.setattr(batch_system, "_LISTED_WITHIN", 0)
    assert states(system, "13")[0].description == "job 13 is not in the queue of LSF any more"


def test_a_batch_system_without_a_query_says_nothing_of_its_jobs(answers):
    answers.append(LSF)
    assert [job.description for job in states(BatchSystem("OAR"), "12")] == ["job 12 is submitted in OAR"]
