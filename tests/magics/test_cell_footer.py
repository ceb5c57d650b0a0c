"""The line under a cell on pretended GPUs: progress, the summary, the counters of memory and energy, and the report."""

import re
import threading
import time

import pytest
from helpers import promised, wait_until

pytestmark = pytest.mark.cluster

CELL = "%%gpudask --dataframe pandas"


@pytest.fixture(scope="module")
def kernel(cupy_kernel):
    return cupy_kernel


def footer(reply):
    return reply.displayed[-1] if reply.displayed else ""


def test_the_footer_summarizes_the_cell_below_its_value(kernel):
    reply = kernel.ok(f"{CELL}\nda.ones((40, 40), chunks=10).sum().compute()")
    assert [line for line in reply.displayed if line and " done " not in line] == [
        footer(reply)
    ]  # the others show progress
    pattern = r"CuPy and pandas on 2 × NVIDIA H200 · \d+\.\d s · \d+ tasks · peak 3\.0 GiB on GPU [01]( · 2 Wh)?"
    assert re.fullmatch(pattern, footer(reply))
    assert "color: var(--jp-ui-font-color2" in reply.html[-1]
    shown = [kind for kind in reply.kinds if kind in ("execute_result", "display_data")]
    assert shown[-2:] == ["execute_result", "display_data"]


def test_the_footer_has_energy_and_cost(recorded):
    kernel = recorded
    cell = f"{CELL}\nda.ones(4, chunks=2).sum().compute()"
    assert "USD" not in footer(kernel.ok(cell))
    kernel.ok("%config GpuDask.price_per_gpu_hour = 3600000")
    for _ in range(100):  # a worker that is busy when a cell begins gives no energy
        line = footer(kernel.ok(cell))
        if " Wh" in line:
            break
    kernel.ok("%config GpuDask.price_per_gpu_hour = 0")
    seconds = float(re.search(r" · ([\d.]+) s · ", line)[1])
    cost = float(re.search(r" · 2 Wh · ([\d.]+) USD", line)[1])
    assert cost == pytest.approx(2000 * seconds, abs=2000 * 0.06)


def test_a_cell_that_nobody_watches_shows_no_progress(kernel):
    code = f"{CELL}\nimport time\nclient.submit(time.sleep, 3, pure=False).result()"
    (line,) = kernel.ok(code, allow_stdin=False).displayed
    assert " 1 task " in line


def test_tasks_that_a_later_graph_refers_to_are_counted_once(kernel, tmp_path):
    file = tmp_path / "file"
    kernel.ok("def wait_for(file, n):\n    import os, time\n    while not os.path.exists(file): time.sleep(0.05)")
    waiting = f"[client.submit(wait_for, {str(file)!r}, n) for n in range(4)]"
    code = f"{CELL}\nimport dask\ndask.delayed(len)(dask.persist({waiting})).compute()"
    lines = kernel.ok(code, on_display=file.touch).displayed
    assert "0 of 5 tasks done" in lines[0]
    assert " 5 tasks " in lines[-1]


def test_the_footer_stands_under_the_traceback_of_a_long_cell(kernel, tmp_path):
    file = tmp_path / "file"
    kernel.ok("def wait_for(file):\n    import os, time\n    while not os.path.exists(file): time.sleep(0.05)")
    reply = kernel.run(f"{CELL}\nclient.submit(wait_for, {str(file)!r}).result()\n1 / 0", on_display=file.touch)
    assert reply.error == "ZeroDivisionError"
    assert "0 of 1 task done" in reply.displayed[0]
    # The line of the progress becomes empty.
    assert reply.displayed[-2] == ""
    assert footer(reply).startswith("CuPy and pandas on 2 × NVIDIA H200")
    shown = [kind for kind in reply.kinds if kind in ("error", "display_data")]
    assert shown == ["display_data", "error", "display_data"]


RMM = """
import types
class Counters:
    stack = [[0, 0], [0, 0]]
    def push_counters(self): self.stack.append([0, 0])
    @property
    def allocation_counts(self):
        return types.SimpleNamespace(current_bytes=self.stack[-1][0], peak_bytes=self.stack[-1][1])
    def pop_counters(self):
        current, peak = self.stack.pop()
        before = self.stack[-1][0]
        self.stack[-1] = [before + current, max(self.stack[-1][1], before + peak)]
def count():
    import rmm
    rmm.counters, rmm.before = Counters(), rmm.mr.get_current_device_resource
    rmm.mr.get_current_device_resource = lambda: rmm.counters
def count_no_more():
    import rmm
    rmm.mr.get_current_device_resource = rmm.before
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


def test_logs_are_headed_by_the_gpus_of_the_workers_and_a_cell_leaves_nothing_in_them(kernel):
    assert kernel.ok("logs = %gpudask logs\nlist(logs.logs)").value == "['Scheduler', 'GPU 0', 'GPU 1']"
    kernel.ok("client.submit(print, 'the last line of a log').result()")
    before = kernel.ok("%gpudask logs --lines 1000").value
    assert "the last line of a log" in before
    kernel.ok(f"{CELL}\nda.ones(4, chunks=2).sum().compute()")
    assert kernel.ok("%gpudask logs --lines 1000").value == before


def test_there_is_no_footer_without_work_after_a_semicolon_or_if_it_is_switched_off(kernel):
    for cell in ("1 + 1", "x = da.ones(4)", "da.ones(4).sum().compute();"):
        assert kernel.ok(f"{CELL}\n{cell}").displayed == []
    kernel.ok("%config GpuDask.footer = False")
    assert kernel.ok(f"{CELL}\nda.ones(4).sum().compute()").displayed == []
    kernel.ok("%config GpuDask.footer = True")
    assert kernel.ok(f"{CELL}\nda.ones(4).sum().compute()").displayed


def test_while_a_cell_runs_longer_its_line_is_live(kernel):
    cell = "import time\nclient.gather(client.map(lambda n: time.sleep(0.4), range(18), pure=False))"
    reply = kernel.ok(f"{CELL}\n{cell}\nNone")
    live = [line for line in reply.displayed if "done" in line]
    line, _, seen = live[0].partition(" · last seen ")
    assert re.fullmatch(
        r"\d+ of 18 tasks done · 2 s · about \d s left · GPU 0 37 % 1\.0 GiB · GPU 1 37 % 1\.0 GiB", line
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+", seen)  # where the kernel is killed, it is saved
    done = [int(line.split()[0]) for line in live]
    assert done == sorted(done)
    assert 4 <= done[0] < 18
    assert "18 tasks" in footer(reply)


WAIT_FOR = """
import distributed
def wait_for(file):
    while not os.path.exists(file):
        time.sleep(0.05)
    time.sleep(2.5)
gate = distributed.Event("earlier")
first = client.submit(lambda: distributed.Event("earlier").wait())
later = client.map(lambda n, _: n, range(100), _=first)
"""


@pytest.mark.parametrize("which", ["cupy_kernel", "with_cluster"], ids=["GPUs", "stand-in"])
def test_the_line_of_a_cell_does_not_count_the_tasks_of_earlier_cells(request, tmp_path, which):
    kernel, file = request.getfixturevalue(which), tmp_path / "file"
    kernel.ok(f"{CELL}\nNone")
    kernel.ok(WAIT_FOR)
    tasks = "client.gather(client.map(lambda n: 2 * n, range(6)))"
    cell = f"{CELL}\n{tasks}\nclient.submit(wait_for, {str(file)!r}).result()"
    lines = kernel.ok(cell, on_display=file.touch).displayed
    assert kernel.ok("{task.status for task in later}").value == "{'pending'}"
    kernel.ok("gate.set(); client.gather(later); gate.clear(); del first, later")
    assert "0 of 1 task done" in [line.partition(" · ")[0] for line in lines]


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


def test_after_a_change_of_scale_also_inside_a_cell_the_gpus_that_have_a_worker_are_named(kernel):
    cell = f"{CELL}\nda.ones(4, chunks=2).sum().compute()"
    seen = "type(da.ones(1)._meta).__module__"
    scale = f"{CELL}\nfirst = {seen}\nscaled = %gpudask scale {{}}\nfirst, {seen}, len(client.nthreads())"
    assert kernel.ok(scale.format(1)).value == "('cupy', 'cupy', 1)"
    assert " on 1 of 2 × NVIDIA H200 · " in footer(kernel.ok(cell))
    assert kernel.ok("%gpudask start").value.startswith("1 of 2 × NVIDIA H200: already running")
    assert kernel.ok(scale.format(2)).value == "('cupy', 'cupy', 2)"
    assert " on 2 × NVIDIA H200 · " in footer(kernel.ok(cell))
    assert kernel.run("%gpudask scale 3").error == "UsageError"
    assert kernel.ok(f"{seen}, client.submit(abs, -3).result()").value == "('numpy', 3)"


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
    kernel.ok("client.wait_for_workers(2, timeout=60)")


def test_a_worker_whose_work_was_not_done_again_is_named_under_the_error(kernel):
    kernel.ok("def allow_failures(number, dask_scheduler): dask_scheduler.allowed_failures = number")
    kernel.ok("client.run_on_scheduler(allow_failures, 0)")
    cell = "client.submit(lambda: os.kill(os.getpid(), signal.SIGKILL)).result()"
    reply = kernel.run(f"{CELL}\nimport os, signal\n{cell}", timeout=120)
    kernel.ok("client.run_on_scheduler(allow_failures, 3)\nclient.wait_for_workers(2, timeout=60)")
    assert reply.error == "WorkersEndedError"
    assert "was killed by signal 9. Type: %gpudask logs" in reply.error_value
    assert re.search(r" · lost the worker on GPU [01] \(was killed by signal 9.*\)$", footer(reply))


RECORD = """
def record(dask_worker):
    from jupyter_gpudask.worker import memory
    memory._SHORTEST = 0  # the energy of these short cells is read, too
    if not hasattr(memory, "events"):
        begin = dask_worker.stream_handlers[memory.BEGIN_CELL]
        def note_and_begin(**message):
            memory.events.append("begin")
            begin(**message)
        dask_worker.stream_handlers[memory.BEGIN_CELL] = note_and_begin
    memory.events = []
def events():
    from jupyter_gpudask.worker import memory
    return memory.events
def compute(number):
    from jupyter_gpudask.worker import memory
    memory.events.append("task")
    return number
def block_event_loop(dask_worker):
    dask_worker.loop.call_later(0.05, time.sleep, 1)
"""
COMPUTE = f"{CELL}\nclient.submit(compute, 1, pure=False).result()"


@pytest.fixture
def recorded(kernel):
    """The kernel, in whose workers the events of the next cells are recorded."""
    kernel.ok(RECORD)
    kernel.ok("client.run(record); None")
    return kernel


def events(kernel):
    return kernel.ok("print(*sorted(map(' '.join, client.run(events).values())), sep=', ', end='')").printed


def test_the_counters_of_memory_and_energy_begin_in_each_worker_before_the_first_task(recorded):
    assert "2 Wh" in recorded.ok(COMPUTE).displayed[-1]
    assert events(recorded) == "begin, begin task"


SLOW = """
def slow(shortest):
    import time
    from jupyter_gpudask.worker import memory
    def read_slowly(name):
        time.sleep(1)
        return 1.0
    memory._SHORTEST, memory.read_energy = shortest, read_slowly if shortest else memory.read_fast
def keep():
    from jupyter_gpudask.worker import memory
    memory.read_fast = memory.read_energy
"""


def test_a_short_cell_does_not_wait_for_its_energy(recorded):
    recorded.ok(SLOW)
    recorded.ok("client.run(keep)\nclient.run(slow, 60)")
    try:
        with promised(0.7):
            assert "Wh" not in recorded.ok(COMPUTE).displayed[-1]
    finally:
        recorded.ok("client.run(slow, 0)")


def test_cells_without_a_graph_do_not_wait_and_open_no_connections(recorded):
    before = int(recorded.ok("client.rpc.open").value)
    recorded.ok("client.run(block_event_loop); time.sleep(0.2)")
    with promised(0.7):
        for _ in range(5):
            recorded.ok(f"{CELL}\npass")
    assert int(recorded.ok("client.rpc.open").value) <= max(before, 1)
    wait_until(lambda: events(recorded) == ", ".join([" ".join(["begin"] * 5)] * 2))


def test_the_energy_of_a_part_of_a_cell_is_not_shown(recorded):
    recorded.ok("client.run(block_event_loop); time.sleep(0.2)")
    reply = recorded.ok(COMPUTE)
    assert "1 task" in reply.displayed[-1]
    assert "Wh" not in reply.displayed[-1]
    assert events(recorded) == "begin, begin task"
    assert "2 Wh" in recorded.ok(COMPUTE).displayed[-1]


def test_a_worker_that_starts_later_has_the_counters_too_and_the_cell_in_which_it_starts_has_no_energy(recorded):
    restart = "client.restart_workers(list(client.scheduler_info()['workers'])[:1])\nclient.run(record)"
    submit = "client.submit(len, [1], pure=False).result()"
    assert "Wh" not in recorded.ok(f"{CELL}\n{restart}\n{submit}").displayed[-1]
    assert "2 Wh" in recorded.ok(f"{CELL}\n{submit}").displayed[-1]


WAIT_FOR_FILES = """
def touch_and_wait(block, folder, file):
    import os, tempfile, time
    os.close(tempfile.mkstemp(dir=folder)[0])
    while len(os.listdir(folder)) > 60 and not os.path.exists(file): time.sleep(0.05)
    return block
"""


def test_the_progress_counts_the_blocks_of_fused_tasks_also_after_an_interrupt(kernel, tmp_path):
    folder, file = tmp_path / "blocks", tmp_path / "file"
    folder.mkdir()
    kernel.ok(WAIT_FOR_FILES)
    cell = f"{CELL}\nda.ones(640, chunks=1).map_blocks(touch_and_wait, {str(folder)!r}, {str(file)!r}).sum().compute()"

    def interrupt_when_all_wait():
        wait_until(lambda: len(list(folder.iterdir())) > 60, 30)
        time.sleep(3)  # a heartbeat of the worker, and an update of the line
        kernel.interrupt()

    interrupting = threading.Thread(target=interrupt_when_all_wait)
    interrupting.start()
    reply = kernel.run(cell)
    interrupting.join()
    assert reply.error == "KeyboardInterrupt"
    assert "touch_and_wait" in reply.traceback  # the line of the user, and none of Dask
    assert "dask/base.py" not in reply.traceback
    lines = [match for line in reply.displayed if (match := re.match(r"(\d+) of (\d+) blocks done · ", line))]
    done, blocks = map(int, lines[-1].groups())
    assert 30 < done <= 61
    assert 640 <= blocks < 720  # and the sums of several
    assert "left" in lines[-1].string
    assert f" · {done} of {blocks} blocks, {blocks - done} cancelled" in footer(reply)
