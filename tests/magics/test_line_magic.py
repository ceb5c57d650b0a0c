"""`%gpudask` on a real kernel and a real CPU cluster, and where there is no notebook."""

import re
import subprocess
import sys
import threading
import time

import pytest
from helpers import Kernel, fake_gpu_environment, leftover_directories, pids_of_session, promised, slowdown, wait_until

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("start --cpu -3", "--cpu '-3' is not allowed: give a whole number from 1 to 256."),
        ("start --cpu 0", "--cpu '0' is not allowed"),
        ("start --pool lots", "--pool 'lots' is not allowed"),
        ("start --threads none", "--threads 'none' is not allowed"),
        ("start --gpus 1,1", "--gpus '1,1' is not allowed"),
        # Without the "=" Python 3.14.10 leaves the number out.
        ("start --nothing=1", "Unrecognized arguments: --nothing=1."),
        ("sing", "invalid choice: 'sing'"),
        ("scale", "The command scale takes one number, of workers. Type: %gpudask scale 2"),
        ("stop 3", '%gpudask stop takes no number; remove "3".'),
        ("scale 2", "no cluster"),
        ("stop --gpus 2", "Options like this belong to %gpudask start."),
        ("status", "This kernel has no cluster. Type: %gpudask start"),
        ("logs", "no cluster"),
        ("start --engine cuda", "This machine has no NVIDIA driver."),
        ("start --gpus 2", "This machine has no NVIDIA driver."),
        ("start --cpu --gpus 2", "--gpus and --cpu are mutually exclusive. Leave one of them out."),
        ("start --pool 20", "--pool '20' is not allowed"),
        ("start --resources GPU --cpu", "--resources 'GPU' is not allowed"),
    ],
)
def test_invalid_arguments_are_one_sentence_and_start_nothing(bare_kernel, line, sentence):
    reply = bare_kernel.run(f"%gpudask {line}")
    assert (reply.status, reply.error) == ("error", "UsageError")
    assert sentence in reply.printed
    assert bare_kernel.run("%gpudask status").error == "UsageError"


def test_the_gpus_of_a_machine_without_a_driver_are_a_sentence_and_no_error(bare_kernel):
    assert (
        bare_kernel.ok("%gpudask gpus").value
        == "This machine has no NVIDIA driver. To run on the CPU, type: %gpudask start --cpu"
    )


@pytest.fixture(scope="module")
def bare_kernel():
    kernel = Kernel(fake_gpu_environment(FAKE_NVML_ERROR="LIBRARY_NOT_FOUND"))
    kernel.ok("%load_ext jupyter_gpudask")
    yield kernel
    kernel.shutdown()


@pytest.fixture(scope="module")
def shared_kernel():
    kernel = Kernel()
    yield kernel
    kernel.shutdown()


@pytest.fixture
def kernel(shared_kernel):
    """A kernel without a cluster, which is shared: most of the time of a start is that of its imports."""
    shared_kernel.ok("%load_ext jupyter_gpudask")
    shared_kernel.ok("%gpudask stop")
    return shared_kernel


@pytest.fixture
def own_kernel():
    """A kernel for one test, which ends it or changes more than its cluster."""
    kernel = Kernel()
    yield kernel
    kernel.shutdown()


def test_a_cluster_from_start_to_stop(kernel):
    kernel.ok("%load_ext jupyter_gpudask")
    assert kernel.ok("%gpudask stop").value == "There was no cluster."
    started = kernel.ok("started = %gpudask start --cpu 2")
    assert "Starting" in started.displayed[0]
    assert "<progress" in started.html[0]
    assert started.displayed[-1].startswith("Started: CPU stand-in, 2 workers")
    supervisor = kernel.supervisor()
    assert kernel.ok("started").value.startswith("CPU stand-in, 2 workers")
    assert kernel.ok("from distributed import default_client; default_client() is started.client").value == "True"

    again = kernel.ok("%gpudask start --cpu 2")
    assert "already running" in again.value
    assert again.displayed == []
    assert "already running" in kernel.ok("%gpudask start").value
    other = kernel.run("%gpudask start --cpu 3")
    assert "The running cluster has other options than you asked for: --cpu 2 instead of --cpu 3." in other.printed
    assert "%gpudask restart" in other.printed
    assert kernel.supervisor() == supervisor

    status = kernel.ok("%gpudask")
    heads, first, _, tasks, *_ = status.displayed[0].splitlines()
    assert heads.split() == ["worker", "busy", "device", "memory", "pool", "spilled", "memory", "running", "assigned"]
    assert first.split()[:3] == ["Worker", "0", "–"]
    assert tasks == "Tasks: 0 running, 0 waiting."
    assert len(status.displayed[0].splitlines()) == 5
    assert re.fullmatch(r"State at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+", status.displayed[0].splitlines()[-1])
    assert status.html[0].count("<tr>") == 3
    assert kernel.ok("state = %gpudask status\nlen(state.state.workers)").value == "2"
    kernel.ok("started.client.submit(print, 'heard in the log').result()")
    assert "heard in the log" in kernel.ok("%gpudask logs").value

    bad = kernel.run("%gpudask restart --cpu 0")
    assert "--cpu '0' is not allowed" in bad.printed
    assert kernel.supervisor() == supervisor
    assert "dashboard" not in kernel.ok("started").value
    restarted = kernel.ok("%gpudask restart --cpu 1 --dashboard").value
    address = restarted.partition("Dask's dashboard: ")[2]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/status\?token=\w{48}", address)
    assert kernel.supervisor() != supervisor
    assert pids_of_session(supervisor) == []
    assert kernel.ok("status = %gpudask status\nlen(status.state.workers)").value == "1"

    supervisor = kernel.supervisor()
    gone = kernel.run("%gpudask restart --gpus 2")
    assert "no NVIDIA driver" in gone.printed
    assert kernel.supervisor() == supervisor, "what cannot start costs no cluster"
    assert kernel.ok("%gpudask stop").value == "The cluster is closed."
    assert pids_of_session(supervisor) == []


def test_a_stop_takes_at_most_seven_seconds_even_when_a_worker_is_stuck(kernel):
    kernel.ok("started = %gpudask start --cpu 1\nimport ctypes")
    supervisor = kernel.supervisor()
    kernel.ok("stuck = started.client.submit(lambda: ctypes.PyDLL(None).sleep(60))\nimport time; time.sleep(1)")
    with promised(7):
        kernel.ok("%gpudask stop")
    assert pids_of_session(supervisor) == []
    assert leftover_directories() == []


def test_a_cell_starts_a_cluster_and_says_once_that_it_is_a_stand_in(own_kernel):
    own_kernel.ok("%load_ext jupyter_gpudask")
    first = own_kernel.ok("%%gpudask\nimport dask.array as da\ntype(da.ones(3).compute()).__module__")
    notes = [text for text in first.displayed if "stand-in, with NumPy and pandas" in text]
    assert len(notes) == 1
    assert first.value == "'numpy'"
    second = own_kernel.ok("%%gpudask\nda.ones(3).sum().compute()")
    assert len(second.displayed) == 1
    assert second.displayed[0].startswith("NumPy and pandas on the CPU stand-in, ")
    assert "3.0" in second.value


def test_an_interrupt_of_the_start_leaves_nothing(kernel):
    kernel.ok("%load_ext jupyter_gpudask\nimport psutil")
    reply = kernel.run("%gpudask start --cpu 1", on_display=kernel.interrupt)
    assert reply.error == "KeyboardInterrupt"
    children = "[child.cmdline() for child in psutil.Process().children(recursive=True)]"
    assert "jupyter_gpudask" not in kernel.ok(children).value
    kernel.ok("%gpudask start --cpu 1")


def test_an_interrupt_cancels_the_tasks_of_the_cell_and_no_others(kernel, tmp_path):
    kernel.ok("%load_ext jupyter_gpudask")
    kernel.ok("started = %gpudask start --cpu 1 --threads 2\nclient = started.client\nimport time, dask")
    kernel.ok(
        "def dawdle(number):\n"
        "    end = time.time() + 60\n"
        "    while time.time() < end: time.sleep(0.05)\n"
        "earlier = client.submit(lambda: 'kept'); earlier.result()\n"
        "running = client.submit(time.sleep, 4)"
    )
    for body in (
        "futures = client.map(dawdle, range(50))\nclient.gather(futures)",
        "dask.compute(*[dask.delayed(dawdle)(number) for number in range(3)])",
        "import asyncio\nfutures = client.map(dawdle, range(50, 100))\nawait asyncio.sleep(60)",
    ):
        timer = threading.Timer(1.5, kernel.interrupt)
        timer.start()
        reply = kernel.run(f"%%gpudask\n{body}")
        timer.join()
        assert reply.error in ("KeyboardInterrupt", "CancelledError")
        assert "never retrieved" not in reply.printed
        with promised(2):
            wait_until(lambda: kernel.ok("sum(map(len, client.processing().values()))").value in ("0", "1"))
            assert kernel.ok("client.submit(sum, (1, 2), pure=False).result()").value == "3"
    assert kernel.ok("earlier.result(), running.result()").value == "('kept', None)"

    began = tmp_path / "began"
    kernel.ok(
        f"def wait_here(number, before):\n    open({str(began)!r}, 'w').close()\n    dawdle(number)\n"
        "before = [dask.delayed(abs)(number) for number in range(10)]"
    )
    interrupting = threading.Thread(target=lambda: wait_until(began.exists, 30) and kernel.interrupt())
    interrupting.start()
    reply = kernel.run("%%gpudask\ndask.compute(*[dask.delayed(wait_here)(number, before) for number in range(50)])")
    interrupting.join()
    assert reply.error == "KeyboardInterrupt"
    assert " · 10 of 60 tasks, 50 cancelled" in reply.displayed[-1]


def test_an_interrupt_takes_two_seconds_and_names_the_worker_that_was_restarted(kernel, tmp_path):
    began = tmp_path / "began"
    kernel.ok("%load_ext jupyter_gpudask")
    kernel.ok("started = %gpudask start --cpu 1 --threads 1\nclient = started.client\nimport time")
    kernel.ok("kept = client.submit(lambda: 'kept'); kept.result()")
    kernel.ok(f"def nap():\n    open({str(began)!r}, 'w').close()\n    time.sleep(50)")
    at = []

    def interrupt():
        wait_until(began.exists)
        at.append(time.monotonic())
        kernel.interrupt()

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    reply = kernel.run("%%gpudask\nclient.submit(nap, key='nap').result()")
    seconds = time.monotonic() - at[0]
    interrupting.join()
    assert reply.error == "KeyboardInterrupt"
    [told] = [text for text in reply.displayed if text.startswith("The task nap on worker 0 did not stop within 2 s; ")]
    assert "restarted" in told
    assert told.endswith("Its results will be recomputed when they are needed.")
    assert seconds < 4 * slowdown()  # 2 s, and the footer and the traceback
    assert kernel.ok("%%gpudask\nclient.submit(sum, (1, 2), pure=False).result(), kept.result()").value == "(3, 'kept')"


def test_an_interrupt_of_an_ordinary_cell_touches_no_worker(kernel):
    kernel.ok("%load_ext jupyter_gpudask")
    kernel.ok("started = %gpudask start --cpu 1\nimport time\nfuture = started.client.submit(lambda: 'kept')")
    workers = kernel.ok("state = %gpudask status\n[worker.pid for worker in state.state.workers]").value
    timer = threading.Timer(1, kernel.interrupt)
    timer.start()
    assert kernel.run("time.sleep(30)").error == "KeyboardInterrupt"
    timer.join()
    assert kernel.ok("future.result()").value == "'kept'"
    assert kernel.ok("state = %gpudask status\n[worker.pid for worker in state.state.workers]").value == workers


def test_a_supervisor_that_dies_is_reported_and_the_next_cell_starts_another(kernel):
    kernel.ok("%load_ext jupyter_gpudask")
    kernel.ok("started = %gpudask start --cpu 1 --resources GPU=2 --environment A=b\nimport os, signal")
    pid = kernel.supervisor()
    kernel.ok(
        "import logging\nlogged = []\n"
        "class Keep(logging.Handler):\n    def emit(self, record): logged.append(record.getMessage())\n"
        "logging.getLogger('distributed.client').addHandler(Keep())"
    )
    reply = kernel.run(f"os.kill({pid}, signal.SIGKILL)\nstarted.client.submit(abs, -1, pure=False).result()")
    assert reply.status == "error"
    assert "killed by SIGKILL" in kernel.run("%gpudask status").printed
    assert pids_of_session(pid) == []
    cell = kernel.ok("%%gpudask\n1 + 1")
    assert "killed by SIGKILL" in cell.displayed[0]
    assert cell.value == "2"
    assert kernel.ok("logged").value == "[]"
    kernel.ok("from distributed import default_client\ndef look(dask_worker): return dask_worker.state.total_resources")
    assert kernel.ok("list(default_client().run(look).values())").value == "[{'GPU': 2.0}]", "with the same options"


@pytest.mark.parametrize("end", ["shutdown", "kill", "restart"])
def test_the_cluster_is_closed_with_its_kernel(own_kernel, end):
    own_kernel.ok("%load_ext jupyter_gpudask")
    own_kernel.ok("%gpudask start --cpu 1")
    supervisor = own_kernel.supervisor()
    if end == "shutdown":
        own_kernel.manager.shutdown_kernel()
    elif end == "kill":
        own_kernel.manager.signal_kernel(9)
    else:
        own_kernel.manager.restart_kernel(now=True)
    with promised(3):
        wait_until(lambda: not pids_of_session(supervisor), 120)


def test_unloading_closes_the_cluster_and_removes_the_magics(own_kernel):
    own_kernel.ok("%load_ext jupyter_gpudask")
    own_kernel.ok("%load_ext jupyter_gpudask")
    own_kernel.ok("%gpudask start --cpu 1")
    supervisor = own_kernel.supervisor()
    own_kernel.ok("%unload_ext jupyter_gpudask")
    assert pids_of_session(supervisor) == []
    assert "not found" in own_kernel.run("%gpudask status").printed
    assert "not found" in own_kernel.run("%%gpudask\n1").printed
    own_kernel.ok("%load_ext jupyter_gpudask")
    assert "no cluster" in own_kernel.run("%gpudask status").printed


SCRIPT = """
%load_ext jupyter_gpudask
%gpudask start --cpu 1
import dask.array as da
get_ipython().run_cell_magic("gpudask", "", "total = da.ones(10).sum().compute()")
print("total", total)
%gpudask stop
"""


def test_it_works_in_plain_ipython_in_a_terminal(tmp_path):
    script = tmp_path / "script.ipy"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "IPython", "--colors=nocolor", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    assert "Starting" in done.stdout
    assert "Started: CPU stand-in, 1 worker" in done.stdout
    assert "total 10.0" in done.stdout


def test_modules_beside_the_notebook_and_on_its_path_reach_the_workers_in_its_order(own_kernel, tmp_path):
    (tmp_path / "tripling.py").write_text("def triple(number): return 3 * number\n")
    for name in ("random", "queue", "signal"):  # the kernel has its own of these already
        (tmp_path / f"{name}.py").write_text("raise ImportError('a file of the user was taken for a module')\n")
    own_kernel.ok("%load_ext jupyter_gpudask")
    own_kernel.ok(f"import os, sys; os.chdir({str(tmp_path)!r}); sys.path.insert(0, '')\nimport tripling")
    own_kernel.ok("started = %gpudask start --cpu 1")
    assert own_kernel.ok("started.client.submit(tripling.triple, 2).result()").value == "6"
    where = "started.client.run(lambda: __import__('sys').path[0])"
    assert own_kernel.ok(f"set({where}.values())").value == repr({str(tmp_path)})


@pytest.mark.parametrize(
    "disturb",
    ["client.close()", "from distributed import Client\nother = Client(processes=False, dashboard_address=None)"],
)
def test_a_cell_computes_on_the_cluster_whatever_the_user_did_to_the_default_client(kernel, disturb):
    kernel.ok("%load_ext jupyter_gpudask")
    kernel.ok("started = %gpudask start --cpu 1\nclient = started.client\nimport dask, os")
    kernel.ok(disturb)
    kernel.ok("%%gpudask\nwhere = dask.delayed(os.getpid)().compute()")
    assert kernel.ok("where == os.getpid()").value == "False"
    if "other" in disturb:
        assert kernel.ok("from distributed import default_client\ndefault_client() is other").value == "True"
        kernel.ok("other.close()")


def test_a_scheduler_that_a_client_shut_down_is_a_lost_cluster(kernel):
    kernel.ok("%load_ext jupyter_gpudask")
    kernel.ok("started = %gpudask start --cpu 1\nimport dask, os")
    supervisor = kernel.supervisor()
    kernel.ok("started.client.shutdown()")
    wait_until(lambda: not pids_of_session(supervisor))
    assert kernel.ok("%%gpudask\ndask.delayed(os.getpid)().compute() != os.getpid()").value == "True"


def test_two_threads_that_start_get_one_cluster(kernel):
    kernel.ok("%load_ext jupyter_gpudask\nimport threading")
    kernel.ok(
        "def start(): get_ipython().run_line_magic('gpudask', 'start --cpu 1')\n"
        "threads = [threading.Thread(target=start) for _ in range(2)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "import psutil\n"
        "def supervisors():\n"
        "    return sum('jupyter_gpudask.supervisor' in child.cmdline() for child in psutil.Process().children())"
    )
    assert kernel.ok("supervisors()").value == "1"
    kernel.ok("%gpudask stop")
    assert kernel.ok("supervisors()").value == "0"


def test_a_cluster_that_is_stopped_inside_its_cell_leaves_dask_able_to_compute(kernel):
    kernel.ok("%load_ext jupyter_gpudask")
    kernel.ok("%gpudask start --cpu 1")
    kernel.ok("%%gpudask\nimport dask.array as da\nda.ones(3).sum().compute()\n%gpudask stop")
    assert "3.0" in kernel.ok("da.ones(3).sum().compute()").value


def test_a_status_in_a_notebook_is_updated_until_the_cluster_is_closed(kernel):
    kernel.ok("%load_ext jupyter_gpudask")
    kernel.ok("import time\nstarted = %gpudask start --cpu 1", timeout=60)
    shown = kernel.ok("shown = %gpudask status\nshown")
    *_, row, tasks, taken = shown.displayed[0].splitlines()
    assert row.split()[:2] == ["Worker", "0"]
    assert tasks == "Tasks: 0 running, 0 waiting."
    assert f"{taken}</caption>" in shown.html[0]  # what a saved notebook keeps
    assert kernel.ok("'application/vnd.jupyter.widget-view+json' in shown._repr_mimebundle_()").value == "True"
    assert "jp-RenderedHTMLCommon" in kernel.ok("shown.widget._dom_classes").value, "the theme's style of tables"
    kernel.ok("before = shown.widget.value\nbusy = started.client.submit(time.sleep, 4)\ntime.sleep(2.5)")
    assert kernel.ok("before != shown.widget.value, '>1<' in shown.widget.value").value == "(True, True)"
    over = kernel.ok("%gpudask stop\ntime.sleep(1.5)")
    *_, ended = over.displayed[-1].splitlines()
    assert ended > taken, "the last state has its own time"
    assert re.search(r"</table><div[^>]*>Tasks: \d running, 0 waiting\.</div>$", over.html[-1])
    assert f"{ended}</caption>" in over.html[-1]
    assert kernel.ok("sorted(shown._repr_mimebundle_())").value == "['text/html', 'text/plain']"


def test_only_the_newest_status_is_updated(kernel):
    kernel.ok("%load_ext jupyter_gpudask")
    kernel.ok("import time\nstarted = %gpudask start --cpu 1", timeout=60)
    kernel.ok("older = %gpudask status\nolder")
    both = kernel.ok("newer = %gpudask status\ndisplay(newer)\ntime.sleep(2.5)")
    assert all("State at" in text for text in both.displayed)
    kinds = "'application/vnd.jupyter.widget-view+json' in {}._repr_mimebundle_()"
    assert kernel.ok(f"{kinds.format('older')}, {kinds.format('newer')}").value == "(False, True)"
