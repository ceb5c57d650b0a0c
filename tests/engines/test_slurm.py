"""Clusters of SLURM jobs: started, used, scaled and stopped, and what happens if SLURM refuses, waits or kills."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from helpers import command_line, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.engines, pytest.mark.timeout(400)]

LIMIT = 120.0

WORK = """
import dask, time
from pathlib import Path

def work():
    Path({begun!r}).touch()
    time.sleep(1000)

dask.delayed(work)().compute()
"""


def start(kernel, options):
    return kernel.ok(f"started = %gpudask start {options}\nstarted", timeout=LIMIT)


def shown(kernel, command):
    return kernel.ok(f"shown = %gpudask {command}\nprint(shown)", timeout=LIMIT).printed


def stop(kernel):
    kernel.ok("%gpudask stop", timeout=LIMIT)


def refusal(kernel, options):
    reply = kernel.run(f"%gpudask start {options}", timeout=LIMIT)
    assert reply.status == "error", reply
    return reply.printed + reply.error_value + reply.traceback


def states(slurm):
    return sorted(slurm.jobs().values())


def workers_of_jobs(slurm):
    """The workers in jobs of this SLURM; others may run on this machine."""
    workers = [process for process in psutil.process_iter() if "distributed.cli.dask_worker" in command_line(process)]
    return [process for process in workers if process.environ().get("SLURM_CONF") == str(slurm.configuration)]


def test_a_cell_computes_in_jobs_one_of_which_waits_and_scaling_and_stopping_change_the_queue(server, slurm, kernel):
    assert "2 of 3" not in start(kernel, "--preset slurm --workers 3").value
    wait_until(lambda: states(slurm) == ["PENDING", "RUNNING", "RUNNING"], LIMIT)
    wait_until(lambda: len(server.cluster(kernel)["state"]["workers"]) == 2, LIMIT)
    wait_until(lambda: "is pending in SLURM: Resources, position 1" in shown(kernel, "status"), LIMIT)
    [waiting] = [job for job, state in slurm.jobs().items() if state == "PENDING"]
    assert f"Job {waiting} is pending in SLURM: Resources, position 1" in shown(kernel, "status")
    assert [note for note in server.cluster(kernel)["notes"] if f"Job {waiting} is pending" in note]
    cell = kernel.ok(
        "%%gpudask\nimport dask.array as da\nda.ones((400, 400), chunks=100).sum().compute()", timeout=LIMIT
    )
    assert "160000" in cell.value
    hosts = "len(set(started.client.run(lambda: __import__('os').environ['SLURM_JOB_ID']).values()))"
    assert kernel.ok(hosts).value == "2"
    kernel.ok("started.client.run(print, 'from a job')")
    wait_until(lambda: shown(kernel, "logs").count("from a job") == 2, LIMIT)

    kernel.ok("data = started.client.scatter([1, 2, 3, 4])")
    kernel.ok("%gpudask scale 1", timeout=LIMIT)
    assert kernel.ok("sum(started.client.gather(data))").value == "10"
    wait_until(lambda: states(slurm) == ["RUNNING"], LIMIT)
    kernel.ok("%gpudask scale 2", timeout=LIMIT)
    wait_until(lambda: len(server.cluster(kernel)["state"]["workers"]) == 2, LIMIT)
    assert kernel.ok("da.arange(10, chunks=5).sum().compute()").value.endswith("45)")
    stop(kernel)
    wait_until(lambda: slurm.jobs() == {})


def test_a_start_that_waits_says_for_which_job_and_its_place_in_the_queue(server, slurm, kernel):
    others = [
        slurm.run("sbatch", "--parsable", "--output=/dev/null", "--mem=100", "--wrap=sleep 1000") for _ in range(3)
    ]
    try:
        wait_until(lambda: states(slurm) == ["PENDING", "RUNNING", "RUNNING"], LIMIT)

        def make_room():
            try:
                wait_until(lambda: ", position 2 (worker " in str(server.cluster(kernel)), LIMIT)
            finally:
                slurm.run("scancel", *others)

        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(make_room)
            reply = start(kernel, "--preset slurm --workers 1 --start-timeout 300")
            waiting.result()
        said = r"0 of 1 workers are up .* · Job \d+ is pending in SLURM: \w+, position 2"
        assert re.search(said, str(reply.displayed))
        assert server.cluster(kernel)["notes"] == []
        stop(kernel)
    finally:
        slurm.run("scancel", *others)


def test_credentials_are_in_no_command_line_environment_or_file_of_others(server, slurm, kernel):
    kernel.ok("import os\nos.environ['JUPYTERHUB_API_TOKEN'] = 'a-token'")
    start(kernel, "--preset slurm --workers 1")
    assert kernel.ok("started.client.scheduler.address[:6]").value == "'tls://'"
    key = kernel.ok("print(started.client.security.tls_client_key)").printed.split("\n")[1]
    processes = workers_of_jobs(slurm)
    assert processes
    seen = [*map(command_line, processes), *(process.environ() for process in processes)]
    assert key not in str(seen)
    assert "a-token" not in str(seen)
    [job] = slurm.jobs()
    assert key not in slurm.run("scontrol", "write", "batch_script", job, "-")
    [folder] = (server.home / ".cache" / "jupyter_gpudask").iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    with_key = [path for path in folder.iterdir() if path.is_file() and key in path.read_text()]
    assert with_key
    assert all(path.stat().st_mode & 0o077 == 0 for path in with_key)
    stop(kernel)


@pytest.mark.parametrize(
    ("preset", "sentences"),
    [
        ("no-queue", ["SLURM refuses the job: ", "Invalid partition name specified"]),
        ("too-large", ["SLURM refuses the job: ", "Requested node configuration is not available"]),
        ("no-interface", ["This machine has no network interface ib0, which the preset names", "; it has lo"]),
        ("no-option", ["SLURMCluster does not start: ValueError: Got unexpected keyword argument 'no_option'. "]),
        ("failing", ["The jobs ended before a worker was up: job ", " failed in SLURM (FAILED).", "Log of job "]),
        ("later", ["No worker was up after 5 s: job ", " is pending in SLURM: BeginTime.", "--start-timeout"]),
    ],
)
def test_jobs_that_do_not_start_are_one_sentence(kernel, preset, sentences):
    text = refusal(kernel, f"--preset {preset}")
    assert [sentence for sentence in sentences if sentence not in text] == [], text
    assert "a-secret" not in text
    assert "job_kwargs=" not in text


def test_a_controller_that_does_not_answer_is_a_sentence_and_its_late_job_ends(slurm, kernel):
    slurm.pause()
    try:
        text = refusal(kernel, "--preset slurm --start-timeout 5")
    finally:
        slurm.resume()
    assert "No worker was up after 5 s: SLURM has not accepted the jobs." in text


def test_a_job_that_is_cancelled_from_outside_leaves_its_work_to_the_others(server, slurm, kernel):
    start(kernel, "--preset slurm --workers 2")
    wait_until(lambda: len(server.cluster(kernel)["state"]["workers"]) == 2, LIMIT)
    kernel.ok(
        "import time\nfrom pathlib import Path\ndef work(i, gate):\n"
        "    while not Path(gate).exists(): time.sleep(0.05)\n    return i\n"
    )
    gate = server.root / "gate"
    kernel.ok(f"futures = started.client.map(work, range(8), gate={str(gate)!r}, pure=False)")
    first = min(slurm.jobs(), key=int)
    slurm.run("scancel", first)
    wait_until(lambda: len(slurm.jobs()) == 1, LIMIT)
    gate.touch()
    assert kernel.ok("sum(started.client.gather(futures))", timeout=LIMIT).value == "28"
    wait_until(lambda: f"Job {first} was cancelled in SLURM (CANCELLED)" in shown(kernel, "status"), LIMIT)
    assert list(slurm.jobs().values()) == ["RUNNING"]
    stop(kernel)


@pytest.mark.parametrize("first_line", ["", "%%gpudask"])
def test_a_cluster_whose_last_job_is_cancelled_says_so_in_the_running_cell(slurm, kernel, tmp_path, first_line):
    start(kernel, "--preset slurm --workers 1")
    [job] = slurm.jobs()

    def cancel():
        wait_until((tmp_path / "begun").exists, LIMIT)
        slurm.run("scancel", job)

    with ThreadPoolExecutor(1) as thread:
        cancelling = thread.submit(cancel)
        cell = first_line + WORK.format(begun=str(tmp_path / "begun"))
        reply = kernel.run(cell.strip(), timeout=2 * LIMIT)
        cancelling.result()
    assert reply.status == "error"
    assert f"No worker is left: job {job} was cancelled in SLURM (CANCELLED)." in reply.error_value


def test_a_job_that_reaches_its_time_limit_is_submitted_again_and_the_work_goes_on(slurm, kernel):
    start(kernel, "--preset short --workers 1")
    [first] = slurm.jobs()
    kernel.ok("data = started.client.submit(lambda: 41)\nassert data.result() == 41")
    wait_until(lambda: slurm.jobs() and first not in slurm.jobs(), 240)
    assert kernel.ok("started.client.submit(lambda x: x + 1, data).result()", timeout=LIMIT).value == "42"
    assert f"Job {first} reached its time limit in SLURM (TIMEOUT)" in shown(kernel, "status")
    stop(kernel)


def test_an_adaptive_cluster_whose_jobs_are_all_cancelled_ends_and_submits_no_others(server, slurm, kernel):
    start(kernel, "--preset slurm --workers 2")
    wait_until(lambda: len(server.cluster(kernel)["state"]["workers"]) == 2, LIMIT)
    shown(kernel, "adapt 1 2")
    kernel.ok("import time\nfutures = started.client.map(lambda i: time.sleep(1), range(600), pure=False)")
    jobs = sorted(slurm.jobs(), key=int)
    assert len(jobs) == 2
    slurm.run("scancel", *jobs)
    wait_until(lambda: server.cluster(kernel)["status"] == "failed", LIMIT)
    reply = kernel.run("started.client.gather(futures)", timeout=LIMIT)
    assert reply.error_value.startswith("No worker is left: job ")
    assert "was cancelled in SLURM (CANCELLED)" in reply.error_value
    wait_until(lambda: slurm.jobs() == {}, LIMIT)
    following = slurm.run("sbatch", "--parsable", "--output=/dev/null", "--mem=100", "--wrap=true")
    assert int(following) == int(jobs[-1]) + 1


def test_jobs_end_if_the_supervisor_is_killed(server, slurm, kernel):
    start(kernel, "--preset slurm --workers 2")
    psutil.Process(server.cluster(kernel)["pid"]).kill()
    wait_until(lambda: slurm.jobs() == {}, 240)
    for folder in Path(server.home / ".cache" / "jupyter_gpudask").iterdir():
        assert folder.stat().st_mode & 0o077 == 0
    start(kernel, "--preset slurm --workers 1")
    stop(kernel)
