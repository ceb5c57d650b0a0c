"""Workers that are forked from one process: which are, what they share, and what is left when a process dies."""

import os
import signal
import sys
from contextlib import contextmanager

import psutil
import pytest
from helpers import RunningCluster, fake_gpu_environment, leftover_directories, pids_of_session, wait_until

from jupyter_gpudask.supervisor import fork_preload

pytestmark = pytest.mark.cluster

CPU = {"engine": "cpu", "workers": 1}
VARIABLE = "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"
UUIDS = [f"GPU-0000000{index}-1111-2222-3333-444444444444" for index in range(2)]


@pytest.fixture(autouse=True)
def forked(monkeypatch):
    monkeypatch.setenv(VARIABLE, "forkserver")


@contextmanager
def running(options=CPU, **start):
    """A cluster of which nothing is left."""
    with RunningCluster(options, **start) as cluster:
        yield cluster
    assert pids_of_session(cluster.process.pid) == []
    assert leftover_directories() == []


def workers_of(client, count):
    """The pids of the workers and of their parents, once there are so many workers."""
    wait_until(lambda: len(client.scheduler_info()["workers"]) == count, 60)
    return list(client.run(lambda: (os.getpid(), os.getppid())).values())


def what_is_random():
    import random
    import tempfile
    import uuid

    import dask.array as da
    import numpy as np

    own = [os.getpid(), random.random(), np.random.rand(), np.random.default_rng().random()]  # noqa: NPY002, S311
    own += [str(uuid.uuid4()), str(uuid.uuid1()), next(tempfile._get_candidate_names())]
    return own, da.random.random(3, chunks=3).compute(scheduler="sync").tolist(), hash("same on all"), os.getppid()


def test_workers_are_forked_from_one_process_share_no_random_state_and_are_forked_again_when_they_are_killed():
    with running(CPU | {"workers": 2}) as cluster:
        seen = list(cluster.client.run(what_is_random).values())
        (first, array, number, parent), (second, other_array, other_number, other_parent) = seen
        assert not set(first) & set(second)
        assert array != other_array
        assert number == other_number, "Dask partitions by hash"
        assert parent == other_parent != cluster.process.pid
        killed, kept = first[0], second[0]
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: not psutil.pid_exists(killed))
        ((new, new_parent),) = [each for each in workers_of(cluster.client, 2) if each[0] != kept]
        assert (new != killed, new_parent) == (True, parent)
        (end,) = cluster.state().worker_exits
        assert (end.pid, end.reason) == (killed, "was killed by signal 9")


@pytest.mark.slow
def test_after_the_fork_server_is_killed_workers_start_without_it():
    with running(CPU | {"workers": 2}) as cluster:
        before = workers_of(cluster.client, 2)
        os.kill(before[0][1], signal.SIGKILL)
        wait_until(lambda: not any(psutil.pid_exists(pid) for pid, _ in before))
        # A nanny that knows of it before the supervisor has Python start another one.
        after = workers_of(cluster.client, 2)
        assert before[0][1] not in {parent for _, parent in after}
        assert cluster.client.submit(sum, [1, 2]).result(30) == 3
        cluster.run(cluster.process.scale(3))
        ((_, parent),) = {*workers_of(cluster.client, 3)} - {*after}
        assert parent == cluster.process.pid
        cluster.state()
        assert "The fork server has ended" in cluster.process.log()


@pytest.mark.slow
def test_the_fork_server_imports_nothing_from_the_notebooks_folder(tmp_path, monkeypatch):
    for name in ("dask", "distributed", "numpy", "scipy", "jupyter_gpudask"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('imported from the folder of the notebook')")
    monkeypatch.chdir(tmp_path)
    with running(path=[]) as cluster:
        ((_, parent),) = workers_of(cluster.client, 1)
        assert parent != cluster.process.pid, "it could be used"


@pytest.mark.parametrize(
    ("method", "options", "forks"),
    [(None, {}, True), (None, {"environment": {"COLOUR": "red"}}, False), ("spawn", {}, False)],
)
def test_workers_on_gpus_are_forked_unless_their_variables_are_others_and_each_sees_its_own(method, options, forks):
    def look():
        return os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0], os.getppid(), "cudf" in sys.modules

    environment = {name: value for name, value in fake_gpu_environment().items() if name != VARIABLE}
    with running(options, environment=environment | ({VARIABLE: method} if method else {})) as cluster:
        seen = list(cluster.client.run(look).values())
    parent = seen[0][1]
    assert (parent != cluster.process.pid) == forks
    assert sorted(seen) == [(uuid, parent, True) for uuid in UUIDS]


def test_variables_of_workers_in_dasks_configuration_are_those_of_the_fork_server(tmp_path):
    """It starts before the configuration is read."""
    (tmp_path / "dask.yaml").write_text("distributed: {nanny: {pre-spawn-environ: {OMP_NUM_THREADS: 3}}}")
    unset = {VARIABLE, "OMP_NUM_THREADS"}  # Dask's nannies of other tests have set the latter in this process
    environment = {name: value for name, value in fake_gpu_environment().items() if name not in unset}
    with running({"gpus": 1}, environment=environment | {"DASK_CONFIG": str(tmp_path)}) as cluster:
        ((parent, threads),) = cluster.client.run(lambda: (os.getppid(), os.environ["OMP_NUM_THREADS"])).values()
    assert (parent != cluster.process.pid, threads) == (True, "3")


THREAD = """
import threading
from jupyter_gpudask.supervisor.fork_preload import why_not_forkable
print(repr(why_not_forkable()))
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(why_not_forkable())
"""


def test_a_process_with_threads_is_not_forked(run_python):
    alone, with_thread = run_python(THREAD).splitlines()
    assert alone == "''"
    assert with_thread.startswith("its imports have started threads: ")


@pytest.mark.parametrize(
    ("opened", "mapped", "threads", "reason"),
    [
        ("/dev/null", "/usr/lib/libcuda.so.1", [], ""),
        ("/dev/nvidiactl", "", [], "its imports have opened a GPU"),
        ("/dev/null", "7f00-7f10 rw-s 00000000 00:05 5 /dev/nvidia0", [], "its imports have opened a GPU"),
        ("/dev/null", "", ["jemalloc_bg_thd"], ""),
        ("/dev/null", "", ["cuda-EvtHandlr"], "its imports have started threads: cuda-EvtHandlr"),
    ],
)
def test_a_process_that_has_opened_a_gpu_or_has_threads_of_others_is_not_forked(
    tmp_path, opened, mapped, threads, reason
):
    (tmp_path / "fd").mkdir()
    (tmp_path / "fd" / "3").symlink_to(opened)
    (tmp_path / "maps").write_text(mapped)
    (tmp_path / "comm").write_text("python\n")
    for number, name in enumerate(["python", *threads]):
        (tmp_path / "task" / str(number)).mkdir(parents=True)
        (tmp_path / "task" / str(number) / "comm").write_text(f"{name}\n")
    assert fork_preload.why_not_forkable(tmp_path) == reason


def test_an_import_that_fails_is_a_reason_and_a_missing_package_is_none(run_python, tmp_path):
    (tmp_path / "half_done.py").write_text("import threading\nraise RuntimeError('no driver')")
    script = "from jupyter_gpudask.supervisor import fork_preload; print(fork_preload.refusal)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for modules, refusal in [
        ("not_installed,json", ""),
        ("half_done", "the import of half_done fails: RuntimeError: no driver"),
    ]:
        # It ends with the thread that starts it, which here is the main thread.
        assert run_python(script, environment | {fork_preload.MODULES_VARIABLE: modules}).strip() == refusal
    assert run_python(script, environment).strip() == "None"


def test_a_fork_server_whose_supervisor_has_ended_while_it_started_imports_nothing(run_python):
    script = "from jupyter_gpudask.supervisor import fork_preload; print('imported')"
    variables = {fork_preload.MODULES_VARIABLE: "json", fork_preload.PARENT_VARIABLE: "1"}
    assert run_python(script, os.environ | variables) == ""
