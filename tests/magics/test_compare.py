"""`%%gpudask --compare`, on real clusters: one of the CPU, and one for pretend GPUs with the stand-in for CuPy."""

import re

import pytest
from helpers import pids_of_session

pytestmark = pytest.mark.cluster

CELL = "%%gpudask --compare --dataframe pandas"


@pytest.fixture(scope="module")
def kernel(cupy_kernel):
    return cupy_kernel


BEFORE = """
from collections import defaultdict
from dataclasses import dataclass
numbers, shared = [1], [1]
def append():
    shared.append(len(shared))
    return len(shared)
@dataclass
class Box:
    v: int = 0
    log: tuple = ()
box, gen, lazy = Box(log=([],)), np.random.default_rng(1), da.random.RandomState(1, np.random.RandomState)
t, groups = (np.zeros(2),), defaultdict(list)
groups['all'].append(box)
"""
CHANGES = """
numbers.append(len(numbers))
new = 1
appended = append()
box.v += 1
box.log[0].append(box.v)
t[0][0] += 1
groups['new'].append(groups['all'][0].v)
drawn = [gen.random(), lazy.random_sample(3, chunks=2).compute().tolist()]
link = client.dashboard_link
seen = [numbers, appended, box.v, box.log, float(t[0][0]), groups['new'], drawn]
"""
CELL_OF_ALL_KINDS = f"""
from distributed import default_client as current
x = da.arange(100, chunks=10)
total = int(x.sum().compute())
kind = type(x._meta).__module__
means = [float(x.mean().compute())]
if kind == 'cupy':
    extra = 1
else:
    has_imported = lambda: 'dask.dataframe' in __import__('sys').modules
    assert all(current().run(has_imported).values()) and current().run_on_scheduler(has_imported)
class Odd:
    def __repr__(self):
        raise RuntimeError('no text')
odd = np.array([Odd()])
text = '''
%gpudask restart
'''
# %gpudask stop
%gpudask?
{CHANGES}
x.std().compute()
"""


def test_it_shows_both_times_and_whether_each_result_agrees_and_changes_nothing_of_the_notebook(kernel):
    kernel.ok(BEFORE)
    count = "import psutil; len(psutil.Process().children(recursive=True))"
    children, supervisor = kernel.ok(count).value, kernel.supervisor()
    reply = kernel.ok(f"{CELL}{CELL_OF_ALL_KINDS}")
    assert re.search(r"\d\.\d\d s on the CPU cluster, \d workers? with NumPy and pandas", reply.value)
    assert re.search(r"\d\.\d\d s on 2 × NVIDIA H200 with cupy and pandas", reply.value)
    assert re.search(r"\d\.\d times (faster|slower) on the GPUs", reply.value)
    rows = {row.split("  ")[0].strip(): row for row in reply.value.splitlines()[4:]}
    assert rows["value of the cell"].endswith("yes     equal to 1e-09")
    for name in ("total", "means", "text", "appended", "drawn", "seen"):
        assert rows[name].split()[1] == "yes"
    assert "NO" in rows["kind"]
    assert "'numpy' and 'cupy'" in rows["kind"]
    assert rows["extra"].split(maxsplit=2)[1:] == ["NO", "only on the GPUs"]
    assert "–" in rows["x"]
    assert rows["odd"].split(maxsplit=2)[1:] == ["–", "cannot be compared: RuntimeError: no text"]
    # The notebook's variables are as they were, and so are its cluster and its client.
    assert kernel.ok("numbers, shared, box.v, box.log, t[0].tolist(), list(groups), 'new' in globals()").value == str(
        ([1], [1], 0, ([],), [0.0, 0.0], ["all"], False)
    )
    lazy = "da.random.RandomState(1).random_sample(3, chunks=2).compute().tolist()"
    expected = kernel.ok(f"[[1, 1], 2, 1, ([1],), 1.0, [1], [np.random.default_rng(1).random(), {lazy}]]").value
    assert kernel.ok(f"{CHANGES}seen").value == expected, "as if it had not run before"
    assert (kernel.ok(count).value, kernel.supervisor()) == (children, supervisor)
    assert len(pids_of_session(supervisor)) > 1
    assert kernel.ok("import distributed; distributed.default_client() is client").value == "True"
    assert kernel.ok("client.submit(abs, -3).result()").value == "3"


def test_a_moved_collection_stays_as_it_is_and_a_failure_on_the_gpus_alone_is_shown_beside_the_time_of_the_cpu(kernel):
    kernel.ok("outside = da.ones(4, chunks=2)\nbefore = outside")
    cell = "outside[0] = 5\nassert float(outside.sum().compute()) == 8\nnp.asarray(da.ones(3).compute())"
    reply = kernel.ok(f"{CELL} --move all\n{cell}")
    assert "where it failed: TypeError: Implicit conversion to a NumPy array is not allowed" in reply.value
    assert kernel.ok("outside is before, float(outside.sum().compute())").value == "(True, 4.0)"


def test_what_the_workers_of_the_gpus_keep_is_refused_before_anything_runs(kernel):
    kernel.ok("kept = da.ones(4, chunks=2).persist()\nran = []")
    reply = kernel.run(f"{CELL}\nran.append(1)\nkept.sum().compute()")
    assert "The data of kept is on the GPU workers" in reply.printed
    reply = kernel.run(f"{CELL}\nimport asyncio\nawait asyncio.sleep(0)\nkept.sum().compute()")
    assert (reply.error, reply.traceback) == ("UsageError", "")
    assert kernel.ok("ran").value == "[]"


def test_commands_are_refused_before_anything_runs(kernel):
    kernel.ok("import threading\nran = threading.Event()")  # both runs would set it
    supervisor = kernel.supervisor()
    for code, command in {
        "%gpudask restart --gpus 1": "%gpudask restart",
        "if ran is not None:\n    status = %gpudask status": "%gpudask status",
        "%time %gpudask stop": "%gpudask stop",
        "import asyncio\nawait asyncio.sleep(0)\n%gpudask": "%gpudask",
    }.items():
        reply = kernel.run(f"{CELL}\nran.set()\n{code}")
        assert (reply.error, reply.traceback, reply.displayed) == ("UsageError", "", [])
        assert f"{command} cannot run in a cell with --compare, which runs twice. Run it in a cell" in reply.printed
    assert kernel.ok("ran.is_set()").value == "False"
    assert kernel.supervisor() == supervisor


def test_options_that_cannot_be_are_refused_and_a_syntax_error_is_the_users(kernel):
    for options, sentence in {
        "--comp": "Unrecognized arguments: --comp",
        "--compare --report x.html": "are mutually exclusive",
    }.items():
        reply = kernel.run(f"%%gpudask {options}\n1")
        assert (reply.error, sentence in reply.printed) == ("UsageError", True)
    reply = kernel.run(f"{CELL}\nx = 1\ny = = 2")
    assert (reply.error, reply.errors_shown) == ("SyntaxError", 1)


@pytest.mark.slow
def test_a_cell_that_awaits_is_compared_too(kernel):
    reply = kernel.ok(f"{CELL}\nimport asyncio\nawait asyncio.sleep(0.1)\ntotal = 3\ntotal")
    assert "value of the cell  yes" in reply.value
    assert float(reply.value.split()[0]) >= 0.1


def test_an_error_of_the_cell_is_the_users_at_its_line(kernel):
    reply = kernel.run(f"{CELL}\nx = 1\n1 / 0")
    assert (reply.error, reply.errors_shown) == ("ZeroDivisionError", 1)
    plain = re.sub(r"\x1b\[[\d;]*m", "", reply.traceback)
    assert f"Cell In[{reply.count}], line 3\n" in plain
    assert CELL in plain
    assert "run_line_magic" not in plain


def test_without_gpus_there_is_nothing_to_compare_with(with_cluster):
    assert "--compare needs GPUs" in with_cluster.run("%%gpudask --compare\n1").printed
