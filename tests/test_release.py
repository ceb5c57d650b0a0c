"""Versions, dependencies and commands that the files of a release repeat, against where they come from."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import jinja2
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
VERSION = json.loads((ROOT / "package.json").read_text())["version"]
RECIPE = yaml.safe_load(jinja2.Template((ROOT / "recipe" / "meta.yaml").read_text()).render(PYTHON="python"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def pip_requirements(texts):
    """Specifiers by name, as conda names the packages: those for one version of CUDA without it."""
    found = {}
    for text in texts:
        requirement = Requirement(text)
        name = re.sub(r"-(cu\d+|cuda\d+x)$", "", canonicalize_name(requirement.name))
        found[name] = requirement.specifier
    return found


def conda_requirements(texts):
    """Specifiers by name; ``26.10.*`` means ``==26.10.*``."""
    found = {}
    for text in texts:
        name, _, specifier = text.partition(" ")
        found[canonicalize_name(name)] = SpecifierSet(re.sub(r"^(?=\d)", "==", specifier))
    return found


def test_changes_citation_and_recipe_have_the_version_of_the_package():
    unreleased, *released = re.findall(r"^## (.*)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert unreleased == "[Unreleased]"
    assert [heading for heading in released if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading)] == []
    assert not released or released[0].startswith(f"[{VERSION}]")
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == VERSION
    assert RECIPE["package"]["version"] == VERSION
    assert f"jupyter_gpudask-{VERSION}.tar.gz" in RECIPE["source"]["url"]


@pytest.fixture
def copy(tmp_path):
    """The files that repeat the version, and the program that writes it."""
    for name in ("package.json", "CHANGELOG.md", "CITATION.cff", "recipe/meta.yaml", ".ci/release.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def release(folder, version):
    command = [sys.executable, folder / ".ci" / "release.py", version]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_release_writes_the_version_into_each_file_and_says_what_is_left(copy):
    done = release(copy, "7.8.9")
    assert done.returncode == 0, done.stderr
    assert "git tag v7.8.9" in done.stdout
    assert json.loads((copy / "package.json").read_text())["version"] == "7.8.9"
    citation = yaml.safe_load((copy / "CITATION.cff").read_text())
    assert citation["version"] == "7.8.9"
    assert '{% set version = "7.8.9" %}' in (copy / "recipe" / "meta.yaml").read_text()
    before, after = (ROOT / "CHANGELOG.md").read_text(), (copy / "CHANGELOG.md").read_text()
    heading = f"## [7.8.9] - {citation['date-released']}\n\n"
    assert after == before.replace("## [Unreleased]\n\n", f"## [Unreleased]\n\n{heading}")


def test_a_release_is_refused_without_changes_or_with_a_version_that_is_none(copy):
    assert release(copy, "1.2").stderr == "VERSION=1.2 is not a version such as 0.2.0.\n"
    assert release(copy, "7.8.9").returncode == 0
    assert release(copy, "7.8.9").stderr == "CHANGELOG.md has the version 7.8.9 already.\n"
    assert release(copy, "7.9.0").stderr == "CHANGELOG.md names no change under [Unreleased].\n"
    assert json.loads((copy / "package.json").read_text())["version"] == "7.8.9"


def test_the_sdist_has_what_is_listed_and_nothing_else_that_lies_in_a_checkout(tmp_path):
    sdist = pytest.importorskip("hatchling.builders.sdist")
    listed = PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    assert [name for name in listed if not (ROOT / name).exists()] == []
    for name in ("pyproject.toml", "package.json", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in (
        "jupyter_gpudask/__init__.py",
        "docs/index.md",
        "docs/notebooks/arrays.ipynb",
        ".gpu-environment/large",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    packed = {file.distribution_path for file in sdist.SdistBuilder(str(tmp_path)).recurse_included_files()}
    assert packed >= {"jupyter_gpudask/__init__.py", "docs/index.md", "package.json"}
    assert {name.partition("/")[0] for name in packed} <= {name.partition("/")[0] for name in listed} | {
        "pyproject.toml",
        "README.md",
        "LICENSE",
    }
    assert "docs/notebooks/arrays.ipynb" not in packed


def test_a_wheel_that_is_built_from_an_sdist_has_the_front_end_once(tmp_path):
    wheel = pytest.importorskip("hatchling.builders.wheel")
    for name in ("pyproject.toml", "package.json", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("PKG-INFO", "jupyter_gpudask/__init__.py", "jupyter_gpudask/labextension/package.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    packed = [file.distribution_path for file in wheel.WheelBuilder(str(tmp_path)).recurse_included_files()]
    assert packed == ["jupyter_gpudask/__init__.py"]


def test_the_recipe_requires_constrains_and_builds_with_what_the_package_does():
    run, host, constrained = (
        conda_requirements(text for text in RECIPE["requirements"][part] if not text.startswith("__"))
        for part in ("run", "host", "run_constrained")
    )
    assert run.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert run == pip_requirements(PROJECT["dependencies"])
    extras = PROJECT["optional-dependencies"]
    for extra in ("cu12", "cu13"):
        assert constrained == pip_requirements(extras[extra] + extras["lab"])
    del host["python"], host["pip"]
    hook = PYPROJECT["tool"]["hatch"]["build"]["hooks"]["jupyter-builder"]["dependencies"]
    assert host == pip_requirements(PYPROJECT["build-system"]["requires"] + hook)
    assert RECIPE["build"]["entry_points"] == [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]


@pytest.mark.parametrize("extra", ["cu12", "cu13", "polars-cu12", "polars-cu13"])
def test_the_extras_for_gpus_take_both_lines_of_rapids_and_no_other(extra):
    required = pip_requirements(PROJECT["optional-dependencies"][extra])
    of_rapids = {
        name: wanted for name, wanted in required.items() if re.match("cudf|dask-c|rmm|distributed-ucxx", name)
    }
    assert of_rapids
    for name, wanted in of_rapids.items():
        allowed = ("0.52.0", "0.53.0", "0.53.0a3") if "ucxx" in name else ("26.10.2", "26.12.0", "26.12.0a3")
        others = ("0.51.0", "0.54.0") if "ucxx" in name else ("26.8.1", "27.2.0")
        assert list(wanted.filter((*allowed, *others), prereleases=True)) == list(allowed), name


def test_binder_has_the_packages_of_the_extras_for_the_notebooks():
    extras = PROJECT["optional-dependencies"]
    notebooks = {*extras["notebooks"], *extras["notebooks-cpu"]} - {"jupyter_gpudask[notebooks]"}
    named = yaml.safe_load((ROOT / "binder" / "environment.yml").read_text())["dependencies"]
    packages = {each.replace("py-xgboost", "xgboost") for each in named if not re.match(r"(python|pip|nodejs)\b", each)}
    assert notebooks | set(extras["lab"]) == packages


@each_workflow
def test_a_workflow_may_read_the_code_and_pins_the_actions_of_others(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert "concurrency" in workflow
    used = re.findall(r"uses: (\S+)", path.read_text())
    assert [name for name in used if not name.startswith("./") and not re.search(r"@(release/)?v\d+$", name)] == []
    assert [name for name in used if name.startswith("./") and not (ROOT / name).exists()] == []


@each_workflow
def test_a_workflow_makes_targets_that_exist(path):
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    commands = [step.get("run", "") for job in jobs for step in job.get("steps", [])]
    lines = [re.sub(r"\$\{\{.*?\}\}", "%", command) for command in commands]
    words = [word for line in lines for word in line.partition("make ")[2].split()]
    made = [word for word in words if word[0] != "-" and "=" not in word]
    assert made
    assert set(made) <= set(re.findall(r"^([\w%-]+):", MAKEFILE, flags=re.MULTILINE))


def test_the_tests_run_on_each_python_that_the_package_names():
    python = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]["python"]
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert set(named) <= set(python["strategy"]["matrix"]["python"])
    nightly = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())["jobs"]
    assert set(named) <= set(nightly["install"]["strategy"]["matrix"]["python"])
    assert set(named) <= set(re.search(r"for version in (.*);", MAKEFILE)[1].split())


def package(name, **more):
    return {"name": name, "version": "1", "vulns": [], **more}


FOUND = {"vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
SKIPPED = {"skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "error", "status", "expected", "said"),
    [
        ([package("dask"), package("jupyter_gpudask", **SKIPPED)], "", 0, 0, "Audited 1 of 1 packages."),
        ([package("dask", **FOUND), package("bokeh")], "", 1, 1, "dask 1 has CVE-1, corrected in: 2."),
        ([package("dask"), package("bokeh", **SKIPPED)], "", 0, 1, "Dependency not found on PyPI"),
        ([package("dask", **SKIPPED), package("bokeh", **SKIPPED)], "", 0, 0, "Not audited:"),
        ([], "requests.exceptions.ProxyError: Max retries exceeded", 1, 0, "Not audited:"),
        ([], "error: unrecognized arguments", 2, 2, "unrecognized"),
    ],
)
def test_an_audit_fails_for_a_vulnerability_and_not_for_the_lack_of_a_network(
    tmp_path, packages, error, status, expected, said
):
    program = tmp_path / "pip-audit"
    output = json.dumps({"dependencies": packages}) if packages else ""
    program.write_text(f"#!/bin/sh\nprintf %s '{output}'\necho '{error}' >&2\nexit {status}\n")
    program.chmod(0o700)
    command = [sys.executable, ROOT / ".ci" / "audit.py", program, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == expected
    assert said in done.stdout
