"""The table of tested releases in docs/versions.md, against the ranges in pyproject.toml."""

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

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PAGE = (ROOT / "docs" / "versions.md").read_text()
TESTED = {
    canonicalize_name(name): (Version(oldest), Version(newest))
    for name, oldest, newest in re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, flags=re.MULTILINE)
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
def test_no_release_of_dask_that_was_not_tested_yet_is_allowed(name):
    _, newest = TESTED[name]
    assert Version(f"{newest.major}.{newest.minor}.{newest.micro + 1}") not in REQUIRED[name]


def test_the_tested_releases_of_python_are_those_that_the_package_names():
    oldest, newest = TESTED["python"]
    assert SpecifierSet(PROJECT["requires-python"]) == SpecifierSet(f">={oldest}")
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert sorted(map(Version, named)) == [Version(f"3.{minor}") for minor in range(oldest.minor, newest.minor + 1)]


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
