"""The texts to file upstream: each reproduction prints what its text says, until upstream has mended it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpudask.patches.table import PATCHES

TEXTS = sorted((Path(__file__).parents[1] / "docs" / "upstream").glob("*.md"))

GPU = "cupy|cudf"


def block(text, language):
    """The only block of code in that language."""
    (code,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return code


def marked(path):
    needs_gpu = re.search(GPU, block(path.read_text(), "python"))
    return pytest.param(path, id=path.stem, marks=[pytest.mark.gpu] if needs_gpu else [])


def test_each_text_belongs_to_a_row_and_each_row_has_a_text():
    texts = {row.name: {each for each in row.upstream if not each.startswith("https://")} for row in PATCHES}
    assert [name for name, of_row in texts.items() if not of_row] == []
    assert set().union(*texts.values()) == {path.stem for path in TEXTS}


@pytest.mark.parametrize("path", list(map(marked, TEXTS)))
def test_upstream_has_not_mended_it(path, tmp_path):
    """When this fails, the library has mended it: the row of the table has a version from which it is not needed."""
    code, said = (block(path.read_text(), language) for language in ("python", "text"))
    if re.search(GPU, code):
        pytest.importorskip("cudf", reason="needs CuPy and cuDF")
    for library in re.findall(r"^from (dask_\w+)", code, re.MULTILINE):
        pytest.importorskip(library)
    (tmp_path / "reproduction.py").write_text(code)
    options = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": ""}, "timeout": 120}
    done = subprocess.run([sys.executable, "reproduction.py"], check=False, capture_output=True, text=True, **options)
    assert done.stdout == said, done.stderr
    assert len(code.splitlines()) < 20
