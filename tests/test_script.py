"""`python -m jupyter_gpudask script.py`: a script runs as with `python script.py`, on the GPUs."""

import subprocess
import sys
from contextlib import nullcontext

import pytest
from helpers import fake_gpu_environment

import jupyter_gpudask.__main__ as program

REPORTS = """
from __future__ import annotations
import pickle, sys
class Kept: pass
def line(x: Missing): pass
print(__name__, __file__, sys.argv, sys.path[0], type(pickle.loads(pickle.dumps(Kept()))).__name__)
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a script in this process, without a cluster; its status, and what it wrote."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(program, "gpu", lambda **options: nullcontext(options))

    def run_source(source, *arguments):
        file = tmp_path / "script.py"
        file.write_text(source)
        try:
            status = program.run_script(str(file), list(arguments), {})
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return run_source


def test_the_script_is_main_with_its_own_arguments(run, tmp_path):
    file = str(tmp_path / "script.py")
    assert run(REPORTS, "--gpus", "a b") == (0, f"__main__ {file} {[file, '--gpus', 'a b']} {tmp_path} Kept\n", "")


FAILS = "import sys\ndef fail():\n    raise KeyError('gone')\ntry:\n    1 / 0\nfinally:\n    fail()\n"


@pytest.mark.parametrize("source", [FAILS, "def (:\n", "import sys\nsys.exit('said')", "raise SystemExit(3)", ""])
def test_its_status_and_its_traceback_are_those_of_python(run, tmp_path, source):
    status, _, errors = run(source)
    plain = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    if isinstance(status, str):  # the interpreter writes it, and ends with 1
        status, errors = 1, f"{status}\n"
    assert (status, errors) == (plain.returncode, plain.stderr)


def test_an_interrupt_has_the_status_that_shells_report(run):
    status, _, errors = run("raise KeyboardInterrupt")
    assert (status, errors.splitlines()[-1]) == (130, "KeyboardInterrupt")


def test_a_script_that_is_not_there_is_one_sentence(capsys):
    assert program.run_script("no/such.py", [], {}) == 2
    assert capsys.readouterr().err == (
        "The script no/such.py cannot be read: No such file or directory. Give the path of a Python file.\n"
    )


def test_the_options_before_the_script_are_those_of_the_switch_and_the_others_its_own():
    parsed = program.parse_arguments(
        ["--gpus", "2", "--results", "gpu", "--pool", "0.5", "job.py", "--gpus", "7", "-x"]
    )
    options = {"array": "cupy", "dataframe": "cudf", "results": "gpu", "gpus": "2", "pool": "0.5"}
    assert parsed == ("job.py", ["--gpus", "7", "-x"], options)


@pytest.mark.cluster
def test_a_plain_script_computes_on_gpus(tmp_path):
    (tmp_path / "helper.py").write_text("def kind(x):\n    return type(x).__module__\n")
    (tmp_path / "job.py").write_text(
        "import dask.array as da, helper\n"
        "if __name__ == '__main__':\n"
        "    x = da.ones(4, chunks=2)\n"
        "    print(helper.kind(x.sum().compute()), float(x.map_blocks(lambda block: block * 2).sum().compute()))\n"
        "    raise SystemExit(5)\n"
    )
    options = ["--dataframe", "pandas", "--results", "gpu", "--gpus", "1"]
    command = [sys.executable, "-m", "jupyter_gpudask", *options, str(tmp_path / "job.py")]
    environment = fake_gpu_environment(cupy=True, FAKE_GPUS="1")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (5, "cupy 8.0\n"), done.stderr
