"""The line under a cell on pretended GPUs: progress, the summary, the peak of device memory, and the report."""

import re

import pytest
from helpers import Kernel, kernel_with_cupy

pytestmark = pytest.mark.cluster

CELL = "%%gpudask --dataframe pandas"


@pytest.fixture(scope="module")
def kernel():
    with kernel_with_cupy(gpus=2) as kernel:
        yield kernel


def footer(reply):
    return reply.displayed[-1] if reply.displayed else ""


def test_the_footer_summarizes_the_cell(kernel):
    reply = kernel.ok(f"{CELL}\nda.ones((40, 40), chunks=10).sum().compute()")
    assert [line for line in reply.displayed if line and " done " not in line] == [
        footer(reply)
    ]  # the others show progress
    pattern = r"CuPy and pandas on 2 × NVIDIA H200 · \d+\.\d s · \d+ tasks · peak 3\.0 GiB on GPU [01]"
    assert re.fullmatch(pattern, footer(reply))
    assert "color: var(--jp-ui-font-color2" in reply.html[-1]


def test_the_footer_stands_under_the_traceback_of_a_long_cell(kernel, tmp_path):
    file = tmp_path / "file"
    kernel.ok("def wait_for(file):\n    import os, time\n    while not os.path.exists(file): time.sleep(0.05)")
    reply = kernel.run(
        f"{CELL}\nclient.submit(wait_for, {str(file)!r}).result()\n1 / 0",
        on_display=file.touch,
    )
    assert reply.error == "ZeroDivisionError"
    assert "0 of 1 task done" in reply.displayed[0]
    # The line of the progress becomes empty.
    assert reply.displayed[-2] == ""
    assert footer(reply).startswith("CuPy and pandas on 2 × NVIDIA H200")
    shown = [kind for kind in reply.kinds if kind in ("error", "display_data")]
    assert shown == ["display_data", "error", "display_data"]


def test_gpus_that_do_not_exist_are_named_on_a_running_cluster(kernel):
    reply = kernel.run("%gpudask start --gpus 5")
    assert reply.printed.startswith(
        "UsageError: --gpus 5 asks for 5 GPUs, and this kernel sees 2. Use at most 2; for the one GPU with"
    )
    assert "other options" in kernel.run("%gpudask start --gpus 1").printed


RMM = """
import types
class Counters:
    stack = [[0, 0], [0, 0]]
    def push_statistics(self): self.stack.append([0, 0])
    def get_statistics(self):
        return types.SimpleNamespace(current_bytes=self.stack[-1][0], peak_bytes=self.stack[-1][1])
    def pop_statistics(self):
        current, peak = self.stack.pop()
        before = self.stack[-1][0]
        self.stack[-1] = [before + current, max(self.stack[-1][1], before + peak)]
def count():
    import rmm
    rmm.counters, rmm.before = Counters(), dict(vars(rmm.statistics))
    for name in ("push_statistics", "pop_statistics", "get_statistics"):
        setattr(rmm.statistics, name, getattr(rmm.counters, name))
def count_no_more():
    import rmm
    vars(rmm.statistics).update(rmm.before)
def use_for_a_while(gib):
    import rmm
    rmm.counters.stack[-1][1] = max(rmm.counters.stack[-1][1], gib * 2**30)
"""


def test_the_peak_is_that_of_the_cell_alone(kernel):
    kernel.ok(f"{RMM}\nclient.run(count)")
    kernel.ok("client.submit(use_for_a_while, 100).result()")
    reply = kernel.ok(f"{CELL}\nclient.submit(use_for_a_while, 2, pure=False).result()")
    kernel.ok("client.run(count_no_more)")
    assert "peak 2.0 GiB on GPU " in footer(reply)


def test_logs_are_headed_by_the_gpus_of_the_workers(kernel):
    logs = kernel.ok("logs = %gpudask logs\nlist(logs.logs)").value
    assert logs == "['Scheduler', 'GPU 0', 'GPU 1']"


def test_a_cell_leaves_nothing_in_the_logs(kernel):
    kernel.ok("client.submit(print, 'the last line of a log').result()")
    before = kernel.ok("%gpudask logs --lines 1000").value
    assert "the last line of a log" in before
    kernel.ok(f"{CELL}\nda.ones(4, chunks=2).sum().compute()")
    assert kernel.ok("%gpudask logs --lines 1000").value == before


@pytest.mark.parametrize("cell", ["1 + 1", "x = da.ones(4)", "da.ones(4).sum().compute();"])
def test_there_is_no_footer_without_work_or_after_a_semicolon(kernel, cell):
    assert kernel.ok(f"{CELL}\n{cell}").displayed == []


def test_the_footer_can_be_switched_off(kernel):
    kernel.ok("%config GpuDask.footer = False")
    assert kernel.ok(f"{CELL}\nda.ones(4).sum().compute()").displayed == []
    kernel.ok("%config GpuDask.footer = True")
    assert kernel.ok(f"{CELL}\nda.ones(4).sum().compute()").displayed


def test_while_a_cell_runs_longer_its_line_is_live(kernel):
    cell = "import time\nclient.gather(client.map(lambda n: time.sleep(0.4), range(18), pure=False))"
    reply = kernel.ok(f"{CELL}\n{cell}\nNone")
    live = [line for line in reply.displayed if "done" in line]
    line, _, seen = live[0].partition(" · last seen ")
    assert re.fullmatch(r"\d+ of 18 tasks done · 2 s · GPU 0 37 % 1\.0 GiB · GPU 1 37 % 1\.0 GiB", line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+", seen)  # where the kernel is killed, it is saved
    done = [int(line.split()[0]) for line in live]
    assert done == sorted(done)
    assert 4 <= done[0] < 18
    assert "18 tasks" in footer(reply)


def live_lines_beside_earlier_tasks(kernel, file):
    """What a cell of seven tasks shows, of which the last one runs, while 101 tasks of an earlier cell do not end."""
    kernel.ok(f"{CELL}\nNone")
    kernel.ok("""
import distributed, os, time
def wait_for(file):
    while not os.path.exists(file):
        time.sleep(0.05)
    time.sleep(2.5)
gate = distributed.Event("earlier")
first = client.submit(lambda: distributed.Event("earlier").wait())
later = client.map(lambda n, _: n, range(100), _=first)""")
    tasks = "client.gather(client.map(lambda n: 2 * n, range(6)))"
    cell = f"{CELL}\n{tasks}\nclient.submit(wait_for, {str(file)!r}).result()"
    lines = kernel.ok(cell, on_display=file.touch).displayed
    assert kernel.ok("{task.status for task in later}").value == "{'pending'}"
    kernel.ok("gate.set(); client.gather(later); gate.clear()")
    return [line.partition(" · ")[0] for line in lines]


def test_the_line_of_a_cell_does_not_count_the_tasks_of_earlier_cells(kernel, tmp_path):
    lines = live_lines_beside_earlier_tasks(kernel, tmp_path / "file")
    assert "6 of 7 tasks done" in lines


def test_the_line_of_a_cell_on_the_stand_in_does_not_count_the_tasks_of_earlier_cells(tmp_path):
    kernel = Kernel()
    try:
        kernel.ok("%load_ext jupyter_gpudask\nstarted = %gpudask start --cpu 2\nclient = started.client")
        assert "6 of 7 tasks done" in live_lines_beside_earlier_tasks(kernel, tmp_path / "file")
    finally:
        kernel.shutdown()


def test_a_report_is_written_where_it_was_asked_for(kernel, tmp_path):
    cell = "da.ones((40, 40), chunks=10).sum().compute()"
    reply = kernel.ok(f"{CELL} --report {tmp_path}/report.html\n{cell}")
    assert "Dask Performance Report" in (tmp_path / "report.html").read_text()
    assert f"Dask's performance report: {tmp_path}/report.html" in reply.displayed
    assert "<a " not in "".join(reply.html)  # Jupyter does not serve what is outside of the notebook's folder
    kernel.ok(f"import os\nold = os.getcwd()\nos.chdir({str(tmp_path)!r})")
    reply = kernel.ok(f"{CELL} --report 'a report.html'\n{cell}")
    assert '<a href="a%20report.html" target="_blank">a report.html</a>' in "".join(reply.html)
    kernel.ok("os.chdir(old)")
    reply = kernel.run(f"{CELL} --report {tmp_path}/no/report.html\nran = True")
    assert "cannot be written" in reply.printed


def test_after_a_change_of_scale_the_gpus_that_have_a_worker_are_named(kernel):
    cell = f"{CELL}\nda.ones(4, chunks=2).sum().compute()"
    kernel.ok("%gpudask scale 1")
    assert " on 1 of 2 × NVIDIA H200 · " in footer(kernel.ok(cell))
    assert kernel.ok("%gpudask start").value.startswith("1 of 2 × NVIDIA H200: already running")
    kernel.ok("%gpudask scale 2")
    assert " on 2 × NVIDIA H200 · " in footer(kernel.ok(cell))


DIE = """
import os, pathlib, signal, time
def die_once(file):
    file = pathlib.Path(file)
    if not file.exists():
        file.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1)
    return "done"
"""


def test_a_worker_that_is_lost_during_a_cell_is_named_where_its_work_was_done_again(kernel, tmp_path):
    kernel.ok(DIE)
    reply = kernel.ok(f"{CELL}\nclient.submit(die_once, {str(tmp_path / 'file')!r}).result()", timeout=120)
    assert reply.value == "'done'"
    assert re.search(
        r" · lost the worker on GPU [01] \(was killed by signal 9\): its work was done again$", footer(reply)
    )
    assert " lost " not in footer(kernel.ok(f"{CELL}\nclient.submit(abs, -1).result()"))


def test_a_worker_whose_work_was_not_done_again_is_named_under_the_error(kernel):
    cell = "client.submit(lambda: os.kill(os.getpid(), signal.SIGKILL)).result()"
    reply = kernel.run(f"{CELL}\nimport os, signal\n{cell}", timeout=120)
    assert reply.error == "WorkersEndedError"
    assert re.search(r" · lost the worker on GPU [01] \(was killed by signal 9.*\)$", footer(reply))
