"""`%%gpudask --compare`, on real clusters: one of the CPU, and one for pretend GPUs with the stand-in for CuPy."""

import re

import pytest
from helpers import Kernel, fake_gpu_environment, kernel_with_cupy, pids_of_session

pytestmark = pytest.mark.cluster

CELL = "%%gpudask --compare --dataframe pandas"


@pytest.fixture(scope="module")
def kernel():
    with kernel_with_cupy(gpus=1) as kernel:
        yield kernel


def test_it_shows_both_times_and_whether_each_result_agrees(kernel):
    reply = kernel.ok(
        f"{CELL}\nimport numpy as np\nx = da.arange(100, chunks=10)\ntotal = int(x.sum().compute())\n"
        "kind = type(x._meta).__module__\nmeans = [float(x.mean().compute())]\nif kind == 'cupy':\n    extra = 1\n"
        "class Odd:\n    def __repr__(self):\n        raise RuntimeError('no text')\nodd = np.array([Odd()])\n"
        "x.std().compute()"
    )
    assert re.search(r"\d\.\d\d s on the CPU stand-in, \d workers? with NumPy and pandas", reply.value)
    assert re.search(r"\d\.\d\d s on 1 × NVIDIA H200 with cupy and pandas", reply.value)
    assert re.search(r"\d\.\d times (faster|slower) on the GPUs", reply.value)
    rows = {row.split("  ")[0].strip(): row for row in reply.value.splitlines()[4:]}
    assert rows["value of the cell"].endswith("yes     equal to 1e-09")
    assert rows["total"].split()[1:] == ["yes", "equal"]
    assert rows["means"].split()[1] == "yes"
    assert "NO" in rows["kind"]
    assert "'numpy' and 'cupy'" in rows["kind"]
    assert rows["extra"].split(maxsplit=2)[1:] == ["NO", "only on the GPUs"]
    assert "–" in rows["x"]
    assert rows["odd"].split(maxsplit=2)[1:] == ["–", "cannot be compared: RuntimeError: no text"]


def test_the_time_on_the_cpu_is_that_of_a_cluster_that_has_imported_dask(kernel):
    has_imported = "lambda: 'dask.dataframe' in __import__('sys').modules"
    kernel.ok(
        f"{CELL}\nfrom distributed import default_client as current\nif type(da.ones(1)._meta).__module__ == 'numpy':\n"
        f"    assert all(current().run({has_imported}).values())\n    assert current().run_on_scheduler({has_imported})"
    )


def test_the_variables_of_the_notebook_stay_as_they_are(kernel):
    kernel.ok("numbers, outside = [1], da.ones(4, chunks=2)\nbefore = outside")
    kernel.ok(
        f"{CELL} --move all\nnumbers.append(len(numbers))\nnew = 1\noutside[0] = 5\nfloat(outside.sum().compute())"
    )
    assert kernel.ok("numbers, outside is before, float(outside.sum().compute()), 'new' in globals()").value == str(
        ([1], True, 4.0, False)
    )


def test_functions_of_the_notebook_see_the_copies(kernel):
    kernel.ok("shared = [1]\ndef append():\n    shared.append(len(shared))\n    return len(shared)")
    assert "yes     equal" in kernel.ok(f"{CELL}\nappend()").value
    assert kernel.ok("shared").value == "[1]"


def test_generators_and_objects_of_the_notebook_are_copied(kernel):
    kernel.ok(
        "import numpy as np\nfrom collections import defaultdict\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Box:\n    v: int = 0\n    log: tuple = ()\n"
        "box, gen, lazy = Box(log=([],)), np.random.default_rng(1), da.random.RandomState(1, np.random.RandomState)\n"
        "t, groups = (np.zeros(2),), defaultdict(list)\ngroups['all'].append(box)"
    )
    cell = (
        "box.v += 1\nbox.log[0].append(box.v)\nt[0][0] += 1\ngroups['new'].append(groups['all'][0].v)\n"
        "drawn = [gen.random(), lazy.random_sample(3, chunks=2).compute().tolist()]\n"
        "[box.v, box.log, float(t[0][0]), groups['new'], drawn]"
    )
    compared = kernel.ok(f"{CELL}\n{cell}").value
    assert compared.splitlines()[4].split()[:5] == ["value", "of", "the", "cell", "yes"]
    assert "NO" not in compared
    assert kernel.ok("box.v, box.log, t[0].tolist(), list(groups)").value == "(0, ([],), [0.0, 0.0], ['all'])"
    first = (
        "[np.random.default_rng(1).random(), da.random.RandomState(1).random_sample(3, chunks=2).compute().tolist()]"
    )
    expected = kernel.ok(f"[1, ([1],), 1.0, [1], {first}]").value
    assert kernel.ok(cell).value == expected  # as if it had not run before


def test_clients_and_other_things_are_not_copied(kernel):
    kernel.ok(f"{CELL}\nlink = client.dashboard_link\nda.ones(4).sum().compute()")
    assert kernel.ok("client.submit(abs, -3).result()").value == "3"


@pytest.mark.slow
def test_annotations_are_those_of_the_cell(kernel):
    assert "yes" in kernel.ok(f"{CELL}\ndef g(x: int): pass\ng.__annotations__['x'] is int").value
    assert kernel.ok("_.agreements['value of the cell'].agrees").value == "True"


def test_what_the_workers_of_the_gpus_keep_is_refused_before_anything_runs(kernel):
    kernel.ok("kept = da.ones(4, chunks=2).persist()\nran = []")
    reply = kernel.run(f"{CELL}\nran.append(1)\nkept.sum().compute()")
    assert "The data of kept is on the GPU workers" in reply.printed
    reply = kernel.run(f"{CELL}\nimport asyncio\nawait asyncio.sleep(0)\nkept.sum().compute()")
    assert (reply.error, reply.traceback) == ("UsageError", "")
    assert kernel.ok("ran").value == "[]"


@pytest.mark.parametrize(
    ("code", "command"),
    [
        ("%gpudask restart --gpus 1", "%gpudask restart"),
        ("if ran is not None:\n    status = %gpudask status", "%gpudask status"),
        ("%time %gpudask stop", "%gpudask stop"),
        ("import asyncio\nawait asyncio.sleep(0)\n%gpudask", "%gpudask"),
    ],
)
def test_commands_are_refused_before_anything_runs(kernel, code, command):
    kernel.ok("import threading\nran = threading.Event()")  # both runs would set it
    supervisor = kernel.supervisor()
    reply = kernel.run(f"{CELL}\nran.set()\n{code}")
    assert (reply.error, reply.traceback, reply.displayed) == ("UsageError", "", [])
    assert f"{command} cannot run in a cell with --compare, which runs twice. Run it in a cell" in reply.printed
    assert kernel.ok("ran.is_set()").value == "False"
    assert kernel.supervisor() == supervisor
    assert kernel.ok("client.submit(abs, -3).result()").value == "3"


def test_help_and_texts_about_commands_are_not_refused(kernel):
    code = "%gpudask?\ntext = '''\n%gpudask restart\n'''\n# %gpudask stop\nprint('%gpudask stop')\ntext"
    assert "value of the cell  yes" in kernel.ok(f"{CELL}\n{code}").value


@pytest.mark.parametrize(
    ("options", "sentence"),
    [("--comp", "Unrecognized arguments: --comp"), ("--compare --report x.html", "are mutually exclusive")],
)
def test_options_that_cannot_be_are_refused(kernel, options, sentence):
    reply = kernel.run(f"%%gpudask {options}\n1")
    assert reply.error == "UsageError"
    assert sentence in reply.printed


def test_a_syntax_error_is_the_users(kernel):
    reply = kernel.run(f"{CELL}\nx = 1\ny = = 2")
    assert (reply.error, reply.errors_shown) == ("SyntaxError", 1)


@pytest.mark.slow
def test_a_cell_of_comments_has_nothing_to_compare(kernel):
    assert "times" in kernel.ok(f"{CELL}\n# nothing").value


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


def test_a_failure_on_the_gpus_alone_is_shown_beside_the_time_of_the_cpu(kernel):
    reply = kernel.ok(f"{CELL}\nimport numpy as np\nnp.asarray(da.ones(3).compute())")
    assert "where it failed: TypeError: Implicit conversion to a NumPy array is not allowed" in reply.value


def test_the_cluster_of_the_cpu_is_gone_afterwards_and_that_of_the_gpus_still_there(kernel):
    count = "import psutil; len(psutil.Process().children(recursive=True))"
    before = kernel.ok(count).value
    kernel.ok(f"{CELL}\nda.ones(4).sum().compute()")
    assert kernel.ok(count).value == before
    assert len(pids_of_session(kernel.supervisor())) > 1
    assert kernel.ok("import distributed; distributed.default_client() is client").value == "True"


def test_without_gpus_there_is_nothing_to_compare_with():
    kernel = Kernel(fake_gpu_environment(FAKE_NVML_ERROR="LIBRARY_NOT_FOUND"))
    kernel.ok("%load_ext jupyter_gpudask")
    reply = kernel.run("%%gpudask --compare\n1")
    kernel.shutdown()
    assert "--compare needs GPUs" in reply.printed
