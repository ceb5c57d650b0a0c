"""What to type to install the package, and where its documentation is, as the metadata of the package say."""

import json
import os

import pytest
from helpers import fake_gpu_environment

SCRIPT = """
import importlib.metadata
from jupyter_gpudask.installation import pip_install
print(importlib.metadata.distribution("jupyter_gpudask").read_text("direct_url.json"))
print(pip_install("cu13"))
print(pip_install())
"""
WHEEL = "file:///builds/jupyter_gpudask-0.1.0-py3-none-any.whl"
COMMIT = "0123456789012345678901234567890123456789"


@pytest.mark.parametrize(
    ("source", "requirement"),
    [
        ({}, ""),
        ({"url": WHEEL, "archive_info": {}}, f" @ {WHEEL}"),
        ({"url": "file:///home/me/source", "dir_info": {"editable": True}}, " @ file:///home/me/source"),
        (
            {"url": "https://example.org/it.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            f" @ git+https://example.org/it.git@{COMMIT}",
        ),
        (
            {"url": "https://example.org/it.zip", "archive_info": {}, "subdirectory": "python"},
            " @ https://example.org/it.zip#subdirectory=python",
        ),
    ],
)
def test_the_command_names_where_the_package_came_from(tmp_path, run_python, source, requirement):
    folder = tmp_path / "jupyter_gpudask-0.1.0.dist-info"  # the first on the path is the one that counts
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.4\nName: jupyter_gpudask\nVersion: 0.1.0\n")
    if source:
        (folder / "direct_url.json").write_text(json.dumps(source))
    printed = run_python(f"import sys; sys.path.insert(0, {str(tmp_path)!r}){SCRIPT}").splitlines()
    assert printed[1:] == [
        f'%pip install "jupyter_gpudask[cu13]{requirement}"',
        f'%pip install "jupyter_gpudask{requirement}"',
    ]


LINKED = """
import traceback
from IPython.core.interactiveshell import InteractiveShell
from jupyter_gpudask.errors import MixedBackendsError, NoClusterError
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "jupyter_gpudask")
print(NoClusterError().address)
print(shell.run_cell("%gpudask scale 2", silent=True).error_in_exec)
print(shell.run_cell("%gpudask start --gpu=2", silent=True).error_in_exec)
print(*MixedBackendsError("x", "y", movable=True)._render_traceback_()[-1:])
"""


WEBSITE = {"JUPYTER_GPUDASK_DOCUMENTATION": "https://docs.example.org/gpudask/"}


@pytest.mark.parametrize(
    ("repository", "variables", "page"),
    [
        ("", {}, ""),
        ("git+https://example.org/it.git", {}, "https://example.org/it/blob/main/docs/errors.md"),
        ("git+https://example.org/it.git", WEBSITE, "https://docs.example.org/gpudask/errors.html"),
    ],
)
def test_the_last_line_of_an_error_in_a_notebook_is_the_address_of_its_sentence(
    tmp_path, run_python, repository, variables, page
):
    folder = tmp_path / "jupyter_gpudask-0.1.0.dist-info"
    folder.mkdir()
    url = f"Project-URL: repository, {repository}\n" if repository else ""
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: jupyter_gpudask\nVersion: 0.1.0\n{url}")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}){LINKED}"
    printed = run_python(script, os.environ | variables).splitlines()
    no_cluster, unknown, mixed = (
        [f"{page}#{anchor}"] if page else [] for anchor in ("no-cluster", "misspelt-arguments", "mixed-movable")
    )
    assert printed[:-1] == [
        *(no_cluster or [""]),
        "This kernel has no cluster. Type: %gpudask start",
        *no_cluster,
        "Unrecognized arguments: --gpu=2. Did you mean --gpus? Type %gpudask? for help.",
        *unknown,
    ]
    assert (printed[-1:] == mixed) == bool(page)


LACKING = """
import asyncio
from jupyter_gpudask.launcher.cluster import ClusterProcess
from jupyter_gpudask.errors import ClusterStartError
from jupyter_gpudask.protocol.spec import ClusterSpec
from pathlib import Path
python = Path("python")
python.write_text("#!/bin/sh\\necho No module named jupyter_gpudask >&2; exit 1")
python.chmod(0o700)
try:
    asyncio.run(ClusterProcess.start(ClusterSpec.parse({}), python=str(python.absolute())))
except ClusterStartError as error:
    print(error.fix)
"""


@pytest.mark.parametrize(("driver", "name"), [("", "jupyter_gpudask[cu13]"), ("LIBRARY_NOT_FOUND", "jupyter_gpudask")])
def test_for_an_environment_without_the_package_the_extra_is_that_of_the_driver(
    tmp_path, monkeypatch, run_python, driver, name
):
    monkeypatch.chdir(tmp_path)
    fix = run_python(LACKING, fake_gpu_environment(FAKE_NVML_ERROR=driver))
    assert fix.startswith(f'Type in the notebook: %pip install "{name}')
    assert fix.strip().endswith('" and restart the kernel.')
