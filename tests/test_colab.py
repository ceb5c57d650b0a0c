"""The notebook for Colab: its script runs plainly, and as the notebook runs it, on the CPU where there is no GPU."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

pytestmark = pytest.mark.cluster

NOTEBOOK = nbformat.read(Path(__file__).parents[1] / "colab" / "gpudask.ipynb", as_version=4)
CODE = {cell.id: cell.source for cell in NOTEBOOK.cells if cell.cell_type == "code"}


@pytest.mark.parametrize("cell", ["cpu", "gpu"])
def test_the_script_runs_as_in_the_notebook(tmp_path, cell):
    nbformat.validate(NOTEBOOK)
    name, script = re.fullmatch(r"%%writefile (\S+)\n(.*)", CODE["script"], flags=re.DOTALL).groups()
    (tmp_path / name).write_text(script)
    command = re.fullmatch(r"!gpudask/bin/python (.*) 5000", CODE[cell])[1].split()
    done = subprocess.run([sys.executable, *command, "200"], cwd=tmp_path, capture_output=True, text=True, check=True)
    first, later = done.stdout.splitlines()
    assert re.fullmatch(r"first run: \d+\.\d\d s, mean 0\.(4[89]|5[01])\d", first)
    assert later.rpartition(" ")[2] == first.rpartition(" ")[2]


def test_the_packages_are_those_of_the_driver():
    (line,) = re.findall(r"^cuda = .*\nextra = .*", CODE["install"], flags=re.MULTILINE)
    extras = {}
    for shown in ("", "| CUDA Version: 12.8 |", "| CUDA Version: 13.0 |", "| CUDA UMD Version: 14.1 |"):
        names = {"re": re, "driver": type("Lines", (), {"n": shown})}
        exec(line, names)  # noqa: S102 - a part of the cell that installs
        extras[shown[-7:-2]] = names["extra"]
    assert extras == {"": "", " 12.8": "[cu12]", " 13.0": "[cu13]", " 14.1": "[cu13]"}
