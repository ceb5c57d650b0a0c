"""A `%%gpudask` cell is an ordinary cell, and its switch ends with it: on a real kernel."""

import ast
import re
import threading

import pytest
from helpers import promised

pytestmark = pytest.mark.cluster

BACKENDS = '(dask.config.get("array.backend"), dask.config.get("dataframe.backend"))'
OFF = "('numpy', 'pandas')"
ON = "('cupy', 'cudf')"


def assert_off(kernel):
    assert kernel.ok(BACKENDS).value == OFF
    running = "len(get_ipython().magics_manager.registry['GpuDaskMagics'].contexts._running)"
    assert kernel.ok(running).value == "1"


@pytest.fixture(autouse=True)
def the_switch_is_off_after_every_test(gpu_kernel):
    yield
    assert_off(gpu_kernel)


def test_both_backends_are_switched_in_the_cell_and_not_outside_and_each_can_be_chosen(gpu_kernel):
    assert gpu_kernel.ok(BACKENDS).value == OFF
    for options, backends in {
        "": ON,
        "--array numpy": "('numpy', 'cudf')",
        "--dataframe pandas": "('cupy', 'pandas')",
        "--array numpy --dataframe pandas": OFF,
        "--array=cupy": ON,
    }.items():
        assert gpu_kernel.ok(f"%%gpudask {options}\n{BACKENDS}").value == backends
        assert gpu_kernel.ok(BACKENDS).value == OFF


def test_the_value_of_the_last_expression_is_the_cells_and_is_kept(gpu_kernel):
    reply = gpu_kernel.ok("%%gpudask\nx = 20\nx + 22")
    assert reply.value == "42"
    assert gpu_kernel.ok("_").value == "42"
    assert gpu_kernel.ok(f"Out[{reply.count}]").value == "42"
    assert gpu_kernel.ok("%%gpudask\n42;").value is None, "after a semicolon"


VALUES = {
    "await": (f"import asyncio\nawait asyncio.sleep(0.05)\nasync def later(): return {BACKENDS}\nawait later()", ON),
    "several lines, strings and continuations": (
        'text = """\n%%gpudask\n  indented\n"""\nnumber = 1 + \\\n    2\n(text, number)',
        "('\\n%%gpudask\\n  indented\\n', 3)",
    ),
    "the shell, magics and help": (
        "!ls\nplace = %pwd\nfiles = !echo one\nlen?\n(bool(place), files[0])",
        "(True, 'one')",
    ),
    "the magic twice": (f"%%gpudask --array numpy\n{BACKENDS}", "('numpy', 'cudf')"),
    "a cell in a cell": (
        f"%%gpudask --array numpy\nx = get_ipython().run_cell('%%gpudask\\n{BACKENDS}').result\n(x, {BACKENDS})",
        f"({ON}, ('numpy', 'cudf'))",
    ),
    "names of the notebook": ("inside = outside + 1\ndef double(): return inside * 2\ndouble()", "4"),
}


@pytest.mark.parametrize("about", VALUES)
def test_the_body_is_an_ordinary_cell(gpu_kernel, about):
    gpu_kernel.ok("outside = 1")
    body, value = VALUES[about]
    assert gpu_kernel.ok(f"%%gpudask\n{body}").value == value
    gpu_kernel.ok(f"%%gpudask\nseen = {BACKENDS}", silent=True)
    assert gpu_kernel.ok("seen").value == ON


def plain(reply):
    return re.sub(r"\x1b\[[\d;]*m", "", reply.traceback)


@pytest.mark.parametrize("head", ["%%gpudask", "%%gpudask --array numpy", "%%gpudask --array numpy\n%%gpudask"])
def test_tracebacks_the_debugger_and_inspect_show_the_line_that_was_typed(gpu_kernel, head):
    first = head.count("\n") + 2
    cell = f"{head}\ndef fail(number):\n    return 1 + int(number)\nfail('x')"
    reply = gpu_kernel.run(cell)
    assert (reply.status, reply.error, reply.errors_shown) == ("error", "ValueError", 1)
    shown = [line.split(" ", 1)[1].strip() for line in plain(reply).splitlines() if "%%gpudask" in line]
    assert all(line.endswith(head.splitlines()[-1]) for line in shown[-1:])  # IPython 9.0 leaves comments out
    assert f"Cell In[{reply.count}], line {first + 2}\n" in plain(reply)
    assert f"----> {first + 2} fail('x')" in plain(reply)
    assert f"----> {first + 1}     return 1 + int(number)" in plain(reply)
    assert "run_line_magic" not in plain(reply)
    assert "jupyter_gpudask/" not in plain(reply)
    kept = gpu_kernel.ok("import inspect, linecache\nprint(''.join(linecache.getlines(fail.__code__.co_filename)))")
    assert kept.printed.strip().replace("# ", "") == cell
    ast.parse(kept.printed)  # as debuggers and others do
    assert gpu_kernel.ok("print(inspect.getsource(fail))").printed.startswith("def fail(number):\n    return")


def test_a_syntax_error_is_shown_once_at_its_line(gpu_kernel):
    reply = gpu_kernel.run("%%gpudask\nx = 1\ny = = 2")
    assert (reply.error, reply.errors_shown) == ("SyntaxError", 1)
    assert "line 3" in reply.traceback or ", 3)" in reply.error_value


def test_bad_arguments_are_one_sentence_and_the_body_does_not_run(gpu_kernel):
    gpu_kernel.ok("ran = False")
    for arguments in ("--array tensor", "--arrray cupy", "extra", '"', "--array"):
        reply = gpu_kernel.run(f"%%gpudask {arguments}\nran = True")
        assert (reply.status, reply.error, reply.errors_shown) == ("error", "UsageError", 0)
        assert reply.printed.startswith("UsageError: ")
        assert reply.printed.strip().count("\n") == 0
    assert gpu_kernel.ok("ran").value == "False"


def test_time_and_capture_work_above_and_below(gpu_kernel):
    for cell in (f"%%time\n%%gpudask\n{BACKENDS}", f"%%gpudask\n%%time\n{BACKENDS}"):
        reply = gpu_kernel.ok(cell)
        assert reply.value == ON
        assert "Wall time" in reply.printed
        assert_off(gpu_kernel)
    for cell in (f"%%capture kept\n%%gpudask\nprint({BACKENDS})", f"%%gpudask\n%%capture kept\nprint({BACKENDS})"):
        assert gpu_kernel.ok(cell).printed == ""
        assert gpu_kernel.ok("print(kept.stdout)").printed.strip() == ON
        assert_off(gpu_kernel)


NESTED = {
    "blank": "get_ipython().run_cell('  ')",
    "two blank ones": "get_ipython().run_cell('')\nget_ipython().run_cell('\\n')",
    "a comment": "get_ipython().run_cell('# nothing')",
    "a magic only": "get_ipython().run_cell('%pwd')",
    "one that fails": "get_ipython().run_cell('1 / 0')",
    "one with a syntax error": "get_ipython().run_cell('1 = = 2')",
    "one that exits": "get_ipython().run_cell('raise SystemExit')",
    "silent": "get_ipython().run_cell('1', silent=True)",
    "blank and silent": "get_ipython().run_cell(' ', silent=True)",
    "blank in one that is not": "get_ipython().run_cell('get_ipython().run_cell(\"  \")')",
    "a switched one with a blank one in it": "get_ipython().run_cell('%%gpudask\\nget_ipython().run_cell(\"  \")')",
    "a file of cells": "%run nested.ipy",
    "a file of Python": "%run nested.py",
    "blank after an await": "import asyncio\nawait asyncio.sleep(0)\nget_ipython().run_cell('  ')",
    "blank in a task": (
        "import asyncio\nasync def run(): get_ipython().run_cell('  ')\ntask = asyncio.create_task(run())\nawait task"
    ),
}


def test_a_cell_within_the_cell_does_not_end_its_switch(gpu_kernel, tmp_path):
    gpu_kernel.ok(f"%cd -q {tmp_path}")
    for name in ("nested.ipy", "nested.py"):
        (tmp_path / name).write_text("inner = 1\n\n\n")
    for kind, nested in NESTED.items():
        gpu_kernel.run(f"%%gpudask\n{nested}\nafter = {BACKENDS}")
        assert gpu_kernel.ok("after").value == ON, kind
        gpu_kernel.ok("del after")
        assert_off(gpu_kernel)


def test_a_cell_that_fails_after_a_blank_one_ends_its_switch(gpu_kernel):
    gpu_kernel.ok("  ")
    gpu_kernel.run("%%gpudask\nimport asyncio\nawait asyncio.sleep(0)\nraise asyncio.CancelledError")
    assert_off(gpu_kernel)
    blank = "get_ipython().run_cell('  ')"
    for end in ("1 / 0", "raise KeyboardInterrupt", "import asyncio\nraise asyncio.CancelledError", "raise SystemExit"):
        gpu_kernel.run(f"%%gpudask\n{end}")
        assert_off(gpu_kernel)
        gpu_kernel.run(f"%%gpudask\n{blank}\n{end}")
        assert_off(gpu_kernel)
        gpu_kernel.run(f"%%gpudask\nimport asyncio\nawait asyncio.sleep(0)\n{blank}\n{end}")
        assert_off(gpu_kernel)


def test_blank_cells_and_comments_disturb_nothing(gpu_kernel):
    for cell in ("", "\n\n", "# nothing", "   "):
        gpu_kernel.ok(cell)
        assert_off(gpu_kernel)
    assert gpu_kernel.ok(f"\n\n%%gpudask\n{BACKENDS}").value == ON


def test_an_empty_body_is_a_usage_error(gpu_kernel):
    reply = gpu_kernel.run("%%gpudask")
    assert reply.error == "UsageError"
    assert "%%gpudask" in reply.printed


def test_an_exported_script_runs_the_same_cell(gpu_kernel):
    reply = gpu_kernel.ok(f"get_ipython().run_cell_magic('gpudask', '--array numpy', 'seen = {BACKENDS}')\nseen")
    assert reply.value == "('numpy', 'cudf')"
    failed = gpu_kernel.run("get_ipython().run_cell_magic('gpudask', '', '1 / 0')")
    assert failed.error == "ZeroDivisionError"


def test_the_users_own_setting_is_restored_and_not_the_default(gpu_kernel):
    gpu_kernel.ok("dask.config.set({'dataframe.backend': 'mine'})")
    try:
        assert gpu_kernel.ok(f"%%gpudask\n{BACKENDS}").value == ON
        assert gpu_kernel.ok(BACKENDS).value == "('numpy', 'mine')"
    finally:
        gpu_kernel.ok("dask.config.set({'dataframe.backend': 'pandas'})")


@pytest.mark.parametrize("body", ["time.sleep(30)", "import asyncio\nawait asyncio.sleep(30)"])
def test_an_interrupt_stops_the_cell_and_switches_back(gpu_kernel, body):
    gpu_kernel.ok("import time")
    timer = threading.Timer(1, gpu_kernel.interrupt)
    timer.start()
    with promised(5):
        reply = gpu_kernel.run(f"%%gpudask\n{body}")
    timer.join()
    assert reply.error in ("KeyboardInterrupt", "CancelledError")
    assert_off(gpu_kernel)


def test_an_interrupt_that_comes_in_a_finalizer_stops_the_cell(gpu_kernel):
    gpu_kernel.ok("import signal, sys, time\nhook = sys.unraisablehook")
    gpu_kernel.ok("class Interrupting:\n    def __del__(self):\n        signal.raise_signal(signal.SIGINT)")
    with promised(5):
        reply = gpu_kernel.run("%%gpudask\nInterrupting()\ntime.sleep(30)")
    assert reply.error == "KeyboardInterrupt"
    assert gpu_kernel.ok("sys.unraisablehook is hook").value == "True"


def test_an_interrupt_does_not_leave_a_module_half_set_up_and_a_second_one_does_not_wait(gpu_kernel, tmp_path):
    (tmp_path / "slow_import.py").write_text("import time\ntime.sleep(3)\nis_set_up = True\n")
    (tmp_path / "endless_import.py").write_text("import time\ntime.sleep(60)\n")
    gpu_kernel.ok(f"import sys, time\nsys.path.append({str(tmp_path)!r})")
    threading.Timer(1, gpu_kernel.interrupt).start()
    reply = gpu_kernel.run("%%gpudask\nimport slow_import\ntime.sleep(30)")
    assert reply.error == "KeyboardInterrupt"
    assert gpu_kernel.ok("slow_import.is_set_up").value == "True"
    for delay in (1, 2):
        threading.Timer(delay, gpu_kernel.interrupt).start()
    with promised(4):
        reply = gpu_kernel.run("%%gpudask\nimport endless_import")
    assert reply.error == "KeyboardInterrupt"
    assert_off(gpu_kernel)


def test_what_was_typed_is_what_the_history_keeps(gpu_kernel):
    reply = gpu_kernel.ok("%%gpudask\n'remember'")
    assert gpu_kernel.ok(f"In[{reply.count}].splitlines()[1], _ih[{reply.count}][:3]").status == "ok"
    assert "%%gpudask" in gpu_kernel.ok(f"get_ipython().history_manager.input_hist_raw[{reply.count}]").value


def test_help_shows_usage_with_examples(gpu_kernel):
    for name in ("%gpudask", "%%gpudask"):
        content = gpu_kernel.client.execute_interactive(f"{name}?", output_hook=lambda message: None)["content"]
        text = content["payload"][0]["data"]["text/plain"]
        expected = ["--array NAME"] if name == "%%gpudask" else ["%gpudask start --gpus 2", "--spill-threshold AMOUNT"]
        assert all(part in text for part in expected)


COMMANDS = ["start", "stop", "restart", "scale", "adapt", "status", "gpus", "held", "keep", "free", "doctor", "logs"]
COMMANDS += ["on", "off", "fallbacks", "accelerate", "connect", "disconnect", "help", "version"]
START = ["--gpus", "--cpu", "--engine", "--pool", "--spilling", "--spill-threshold", "--memory-limit", "--threads"]
START += ["--share", "--wait", "--adapt", "--protocol", "--resources", "--environment", "--start-timeout"]
START += ["--dashboard", "--preset"]
CELL = ["--array", "--dataframe", "--move", "--results", "--strict", "--profile", "--report", "--compare"]


COMPLETIONS = {
    "%gpudask ": COMMANDS,
    "%gpudask st": ["start", "stop", "status"],
    "%gpudask start --": START,
    "%gpudask start ": START,
    "%gpudask start --gp": ["--gpus"],
    "%gpudask start --gpus 2 --resources GPU=1 --": [option for option in START if option != "--gpus"],
    "%gpudask start --gpus 2 --spilling ": ["dask", "cudf", "off"],
    "%gpudask start --spilling=c": ["cudf"],
    "%gpudask start --cpu --memory-limit ": ["auto", "none"],
    "%gpudask restart --dashboard --share=": ["yes", "no"],
    "%gpudask logs --": ["--lines"],
    "%gpudask held --": ["--release"],
    "%gpudask held --release collection,o": ["other_one"],
    "%gpudask on --array numpy --": ["--dataframe", "--move", "--results", "--strict", "--profile"],
    "%gpudask on --move ": ["all"],
    "  %gpudask re": ["restart"],
    "cluster = %gpudask st": ["start", "stop", "status"],
    "cluster = %gpudask start --sp": ["--spilling", "--spill-threshold"],
    "first = 1\n%gpudask start --prot": ["--protocol"],
    "gpudask sto": ["stop"],
    "%%gpudask --": CELL,
    "%%gpudask ": CELL,
    "%%gpudask --strict --co": ["--compare"],
    "%%gpudask --array ": ["cupy", "numpy"],
    "%%gpudask --results ": ["host", "gpu"],
    "%%gpudask --array=c": ["cupy"],
    "%%gpudask --move ": ["all", "collection", "other_one"],
    "%%gpudask --move collection,o": ["other_one"],
}


def test_completion_offers_what_can_stand_there_and_nothing_else(gpu_kernel):
    gpu_kernel.ok("import dask.bag\ncollection = other_one = dask.bag.from_sequence([1])")
    for code, expected in COMPLETIONS.items():
        for text in (code, f"{code}\nrest = 1"):
            content = gpu_kernel.client.complete(text, cursor_pos=len(code), reply=True, timeout=30)["content"]
            assert (content["matches"], content["cursor_end"]) == (expected, len(code)), code
            typed = code[content["cursor_start"] :]
            assert all(match.startswith(typed) for match in expected)
    gpu_kernel.ok("del collection, other_one")


def test_completion_elsewhere_is_ipythons(gpu_kernel, tmp_path):
    (tmp_path / "nested.ipy").touch()
    gpu_kernel.ok(f"%cd -q {tmp_path}")
    for code, expected in {
        "%%gpud": "%%gpudask",
        "%%gpudask\nimport th": "threading",
        "gpudask_value = 1\ngpudask_v": "gpudask_value",
        "%%gpudask --report ./nest": "./nested.ipy",
    }.items():
        assert expected in gpu_kernel.client.complete(code, reply=True, timeout=30)["content"]["matches"]


def test_a_setting_that_comes_too_late_for_array_expressions_changes_nothing(gpu_kernel):
    gpu_kernel.ok("import dask.array\ndask.config.set({'array.query-planning': True})")
    reply = gpu_kernel.ok(f"%%gpudask\n{BACKENDS}")
    gpu_kernel.ok("dask.config.set({'array.query-planning': None})")
    assert reply.value == ON
