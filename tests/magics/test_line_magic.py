"""`%gpudask` on a real kernel and a real CPU cluster, and where there is no notebook."""

import re
import subprocess
import sys
import threading
import time

import pytest
from helpers import Kernel, pids_of_session, promised, slowdown, wait_until

pytestmark = pytest.mark.cluster


INVALID = {
    "start --cpu -3": "--cpu '-3' is not allowed: give a whole number from 1 to 256.",
    # Without the "=" Python 3.14.10 leaves the number out.
    "start --nothing=1": "Unrecognized arguments: --nothing=1.",
    "start --resources GPU --cpu": "--resources 'GPU' is not allowed",
    "start --cpu --gpus 2": "--gpus and --cpu are mutually exclusive. Leave one of them out.",
    "start --engine cuda": "This machine has no NVIDIA driver.",
    "start --gpus 2": "This machine has no NVIDIA driver.",
    "scale 2": "no cluster",
    "logs": "no cluster",
    "status": "This kernel has no cluster. Type: %gpudask start",
}


def test_invalid_arguments_are_one_sentence_and_start_nothing(without_cluster):
    for line, sentence in INVALID.items():
        reply = without_cluster.run(f"%gpudask {line}")
        assert (reply.status, reply.error, sentence in reply.printed) == ("error", "UsageError", True), line
    gpus = without_cluster.ok("%gpudask gpus").value  # an answer, which does not end "Run all"
    assert gpus == "This machine has no NVIDIA driver. To run on the CPU, type: %gpudask start --cpu"


@pytest.fixture
def own_kernel():
    """A kernel for one test, which ends it or changes more than its cluster."""
    kernel = Kernel()
    kernel.ok("%load_ext jupyter_gpudask")
    yield kernel
    kernel.shutdown()


def test_a_cluster_from_start_to_a_stop_that_is_quick_even_when_a_worker_is_stuck(without_cluster):
    kernel = without_cluster
    assert kernel.ok("%gpudask stop").value == "There was no cluster."
    started = kernel.ok("started = %gpudask start --cpu 2")
    assert any("Starting" in line for line in started.displayed)
    assert "last seen" in started.html[0]
    assert started.displayed[-1].startswith("Started: CPU cluster, 2 workers")
    supervisor = kernel.supervisor()
    assert kernel.ok("started").value.startswith("CPU cluster, 2 workers")
    assert kernel.ok("from distributed import default_client; default_client() is started.client").value == "True"

    again = kernel.ok("%gpudask start --cpu 2")
    assert ("already running" in again.value, again.displayed) == (True, [])
    assert "already running" in kernel.ok("%gpudask start").value
    other = kernel.run("%gpudask start --cpu 3")
    assert "The running cluster has other options than you asked for: --cpu 2 instead of --cpu 3." in other.printed
    assert "%gpudask restart" in other.printed
    for line, sentence in {"--cpu 0": "--cpu '0' is not allowed", "--gpus 2": "no NVIDIA driver"}.items():
        assert sentence in kernel.run(f"%gpudask restart {line}").printed
    assert kernel.supervisor() == supervisor, "what cannot start costs no cluster"

    status = kernel.ok("%gpudask")
    heads, first, _, tasks, state_at = status.displayed[0].splitlines()
    assert heads.split() == ["worker", "busy", "device", "memory", "pool", "spilled", "memory", "running", "assigned"]
    assert first.split()[:3] == ["Worker", "0", "–"]
    assert tasks == "Tasks: 0 running, 0 waiting."
    assert re.fullmatch(r"State at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+", state_at)
    assert status.html[0].count("<tr>") == 3
    assert kernel.ok("state = %gpudask status\nlen(state.state.workers)").value == "2"
    kernel.ok("started.client.submit(print, 'heard in the log').result()")
    assert "heard in the log" in kernel.ok("%gpudask logs").value

    assert "dashboard" not in kernel.ok("started").value
    restarted = kernel.ok("started = %gpudask restart --cpu 1 --dashboard\nstarted").value
    address = restarted.partition("Dask's dashboard: ")[2]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/status\?token=\w{48}", address)
    assert pids_of_session(supervisor) == []
    supervisor = kernel.supervisor()
    kernel.ok("import ctypes\nstuck = started.client.submit(lambda: ctypes.PyDLL(None).sleep(60))")
    kernel.ok("while not any(started.client.processing().values()): time.sleep(0.05)\ntime.sleep(0.5)")
    with promised(7):
        assert kernel.ok("%gpudask stop").value == "The cluster is closed."
    assert pids_of_session(supervisor) == []
    left = "import pathlib, tempfile; list(pathlib.Path(tempfile.gettempdir()).glob('jupyter-gpudask-*'))"
    assert kernel.ok(left).value == "[]"


def test_an_interrupt_of_the_start_leaves_nothing(without_cluster):
    reply = without_cluster.run("%gpudask start --cpu 1", on_display=without_cluster.interrupt)
    assert reply.error == "KeyboardInterrupt"
    children = "import psutil; [child.cmdline() for child in psutil.Process().children(recursive=True)]"
    assert "jupyter_gpudask" not in without_cluster.ok(children).value


def test_two_threads_that_start_get_one_cluster(without_cluster):
    without_cluster.ok(
        "import psutil\n"
        "def start(): get_ipython().run_line_magic('gpudask', 'start --cpu 1')\n"
        "threads = [threading.Thread(target=start) for _ in range(2)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "def supervisors():\n"
        "    return sum('jupyter_gpudask.supervisor' in child.cmdline() for child in psutil.Process().children())"
    )
    assert without_cluster.ok("supervisors()").value == "1"
    without_cluster.ok("%gpudask stop")
    assert without_cluster.ok("supervisors()").value == "0"


KEEP_LOG = """
import logging
logged = []
class Keep(logging.Handler):
    def emit(self, record): logged.append(record.getMessage())
logging.getLogger('distributed.client').addHandler(Keep())
def look(dask_worker): return dask_worker.state.total_resources
"""


def test_a_cluster_whose_scheduler_or_supervisor_ends_is_reported_and_the_next_cell_starts_another(without_cluster):
    kernel = without_cluster
    kernel.ok("started = %gpudask start --cpu 1 --resources GPU=2 --environment A=b")
    supervisor = kernel.supervisor()
    kernel.ok("started.client.shutdown()")
    wait_until(lambda: not pids_of_session(supervisor))
    assert kernel.ok("%%gpudask\ndask.delayed(os.getpid)().compute() != os.getpid()").value == "True"
    kernel.ok("from distributed import default_client")
    kernel.ok(KEEP_LOG)
    supervisor = kernel.supervisor()
    kill = f"os.kill({supervisor}, signal.SIGKILL)\ndefault_client().submit(abs, -1, pure=False).result()"
    assert kernel.run(kill).status == "error"
    assert "killed by SIGKILL" in kernel.run("%gpudask status").printed
    assert pids_of_session(supervisor) == []
    cell = kernel.ok("%%gpudask\n1 + 1")
    assert ("killed by SIGKILL" in cell.displayed[0], cell.value) == (True, "2")
    assert kernel.ok("logged").value == "[]"
    assert kernel.ok("list(default_client().run(look).values())").value == "[{'GPU': 2.0}]", "with the same options"


def test_an_interrupt_cancels_the_tasks_of_the_cell_and_no_others(with_cluster, tmp_path):
    kernel = with_cluster
    kernel.ok(
        "def dawdle(number):\n"
        "    end = time.time() + 60\n"
        "    while time.time() < end: time.sleep(0.05)\n"
        "earlier = client.submit(lambda: 'kept'); earlier.result()\n"
        "running = client.submit(time.sleep, 4)\n"
        "workers = [worker['pid'] for worker in client.run(lambda: {'pid': os.getpid()}).values()]"
    )
    for body in (
        "futures = client.map(dawdle, range(50))\nclient.gather(futures)",
        "dask.compute(*[dask.delayed(dawdle)(number) for number in range(3)])",
        "import asyncio\nfutures = client.map(dawdle, range(50, 100))\nawait asyncio.sleep(60)",
    ):
        timer = threading.Timer(1, kernel.interrupt)
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

    timer = threading.Timer(0.5, kernel.interrupt)  # of an ordinary cell
    timer.start()
    assert kernel.run("time.sleep(30)").error == "KeyboardInterrupt"
    timer.join()
    assert kernel.ok("earlier.result()").value == "'kept'"
    assert kernel.ok("workers == list(client.run(os.getpid).values())").value == "True"


def test_an_interrupt_takes_two_seconds_and_names_the_worker_that_was_restarted(with_cluster, tmp_path):
    kernel, began = with_cluster, tmp_path / "began"
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


@pytest.mark.parametrize(
    "disturb",
    ["client.close()", "from distributed import Client\nother = Client(processes=False, dashboard_address=None)"],
)
def test_a_cell_computes_on_the_cluster_whatever_the_user_did_to_the_default_client(with_cluster, disturb):
    with_cluster.ok(disturb)
    with_cluster.ok("%%gpudask\nwhere = dask.delayed(os.getpid)().compute()")
    assert with_cluster.ok("where == os.getpid()").value == "False"
    if "other" in disturb:
        assert with_cluster.ok("from distributed import default_client\ndefault_client() is other").value == "True"
        with_cluster.ok("other.close()")


def test_a_status_in_the_middle_of_a_cell_is_shown_and_a_note_is_not(with_cluster):
    shown = with_cluster.ok("%gpudask status\nstatus = %gpudask status\n%gpudask off\n1")
    assert [text.splitlines()[0].split()[0] for text in shown.displayed] == ["worker"]
    assert shown.value == "1"


def test_the_newest_status_in_a_notebook_is_updated_until_the_cluster_is_closed(with_cluster):
    kernel = with_cluster
    kernel.ok("older = %gpudask status\nolder")
    shown = kernel.ok("shown = %gpudask status\nshown")
    *_, row, tasks, taken = shown.displayed[0].splitlines()
    assert row.split()[:2] == ["Worker", "0"]
    assert tasks == "Tasks: 0 running, 0 waiting."
    assert f"{taken}</div>" in shown.html[0]  # what a saved notebook keeps
    assert "jp-RenderedHTMLCommon" in kernel.ok("shown.widget._dom_classes").value, "the theme's style of tables"
    kernel.ok("before = shown.widget.value\nbusy = client.submit(time.sleep, 4, pure=False)\ntime.sleep(2.5)")
    assert kernel.ok("before != shown.widget.value, '>1<' in shown.widget.value").value == "(True, True)"
    kinds = "'application/vnd.jupyter.widget-view+json' in {}._repr_mimebundle_()"
    assert kernel.ok(f"{kinds.format('older')}, {kinds.format('shown')}").value == "(False, True)"
    over = kernel.ok("%gpudask stop\ntime.sleep(1.5)")
    last = next(text for text in reversed(over.displayed) if taken[:8] in text)  # before or after what `stop` says
    *_, ended = last.splitlines()
    assert ended > taken, "the last state has its own time"
    html = rf"</table><div[^>]*>Tasks: \d running, \d waiting\.</div><div[^>]*>{re.escape(ended)}</div>$"
    assert any(re.search(html, each) for each in over.html)
    assert kernel.ok("sorted(shown._repr_mimebundle_())").value == "['text/html', 'text/plain']"


def assert_closed_with(kernel, end):
    supervisor = kernel.supervisor()
    end()
    with promised(3):
        wait_until(lambda: not pids_of_session(supervisor), 120)


def test_a_cell_starts_a_cluster_that_imports_as_the_notebook_does_and_ends_with_its_kernel(own_kernel, tmp_path):
    (tmp_path / "tripling.py").write_text("def triple(number): return 3 * number\n")
    for name in ("random", "queue", "signal"):  # the kernel has its own of these already
        (tmp_path / f"{name}.py").write_text("raise ImportError('a file of the user was taken for a module')\n")
    own_kernel.ok(f"import os, sys; os.chdir({str(tmp_path)!r}); sys.path.insert(0, '')\nimport tripling")
    first = own_kernel.ok("%%gpudask\nimport dask.array as da\ntype(da.ones(3).compute()).__module__")
    assert sum("with NumPy and pandas" in text for text in first.displayed) == 1
    assert first.value == "'numpy'"
    second = own_kernel.ok("%%gpudask\nda.ones(3).sum().compute()")
    assert len(second.displayed) == 1, "it says only once that it is a CPU cluster"
    assert second.displayed[0].startswith("NumPy and pandas on the CPU cluster, ")
    own_kernel.ok("from distributed import default_client\nclient = default_client()")
    assert own_kernel.ok("client.submit(tripling.triple, 2).result()").value == "6"
    assert own_kernel.ok("set(client.run(lambda: __import__('sys').path[0]).values())").value == repr({str(tmp_path)})
    assert_closed_with(own_kernel, own_kernel.manager.shutdown_kernel)


def test_unloading_closes_the_cluster_and_removes_the_magics_and_a_killed_kernel_leaves_none(own_kernel):
    own_kernel.ok("%load_ext jupyter_gpudask")
    own_kernel.ok("%gpudask start --cpu 1")
    supervisor = own_kernel.supervisor()
    own_kernel.ok("%%gpudask\nimport dask.array as da\nda.ones(3).sum().compute()\n%gpudask stop")
    assert pids_of_session(supervisor) == []
    assert "3.0" in own_kernel.ok("da.ones(3).sum().compute()").value, "in the kernel, where no cluster is left"
    own_kernel.ok("%gpudask start --cpu 1")
    supervisor = own_kernel.supervisor()
    own_kernel.ok("%unload_ext jupyter_gpudask")
    assert pids_of_session(supervisor) == []
    assert "not found" in own_kernel.run("%gpudask status").printed
    assert "not found" in own_kernel.run("%%gpudask\n1").printed
    own_kernel.ok("%load_ext jupyter_gpudask")
    assert "no cluster" in own_kernel.run("%gpudask status").printed
    own_kernel.ok("%gpudask start --cpu 1")
    assert_closed_with(own_kernel, lambda: own_kernel.manager.signal_kernel(9))


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
    assert "Started: CPU cluster, 1 worker" in done.stdout
    assert "total 10.0" in done.stdout
