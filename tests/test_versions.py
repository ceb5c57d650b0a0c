"""The releases that the recorded runs had, against the ranges in pyproject.toml and those of the patches."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from jupyter_gpudask.patches.patch import DASK, RAPIDS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
RUNS = {name: run["versions"] for name, run in json.loads((ROOT / "docs" / "versions.json").read_text()).items()}
TESTED = {
    name: (Version(RUNS["oldest"][name]), Version(RUNS["newest"][name]))
    for name in RUNS["oldest"].keys() & RUNS["newest"].keys()
}
REQUIREMENTS = [Requirement(text) for text in [*PROJECT["dependencies"], *EXTRAS["test-with-gpu"]]]
REQUIRED = {canonicalize_name(each.name): each.specifier for each in REQUIREMENTS}
BASE = sorted(canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"])


@pytest.mark.parametrize("name", [*BASE, "jupyterlab", "notebook"])
def test_the_range_of_a_requirement_begins_with_the_oldest_release_that_was_tested_and_allows_the_newest(name):
    oldest, newest = TESTED[name]
    assert [Version(each.version) for each in REQUIRED[name] if each.operator == ">="] == [oldest]
    assert newest in REQUIRED[name]


@pytest.mark.parametrize("name", ["dask", "distributed"])
def test_a_dask_that_was_not_tested_can_be_installed_and_is_newer_than_the_patches_say(name):
    oldest, newest = TESTED[name]
    later = Version(f"{newest.major}.{newest.minor}.{newest.micro + 1}")
    assert later in REQUIRED[name]
    assert [each in SpecifierSet(DASK[name]) for each in (oldest, newest, later)] == [True, True, False]


def test_the_oldest_python_that_is_allowed_was_tested():
    oldest, _ = TESTED["python"]
    assert SpecifierSet(PROJECT["requires-python"]) == SpecifierSet(f">={oldest.major}.{oldest.minor}")


@pytest.mark.parametrize("extra", ["cu12", "cu13"])
def test_the_extras_allow_the_line_of_rapids_that_was_tested_and_the_next(extra):
    rapids = [Requirement(text) for text in EXTRAS[extra] if re.match(r"dask-cuda|cudf|dask-cudf|rmm", text)]
    releases = ["26.8.1", "26.10.0", "26.10.2", "26.12.0", "27.2.0"]
    for each in rapids:
        assert list(each.specifier.filter(releases)) == releases[1:4]
    assert len(rapids) == 4
    assert list(SpecifierSet(RAPIDS).filter(releases)) == releases[1:3]


def test_the_oldest_environment_has_the_oldest_release_of_each_requirement_that_names_one():
    command = [sys.executable, str(ROOT / ".ci" / "oldest.py")]
    pins = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    pinned = {canonicalize_name(name): Version(release) for name, _, release in (pin.partition("==") for pin in pins)}
    assert pinned == {
        name: Version(each.version)
        for name, specifier in REQUIRED.items()
        for each in specifier
        if each.operator == ">="
    }
    assert set(BASE) <= pinned.keys()
