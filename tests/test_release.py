"""Versions, dependencies and commands that the files of a release repeat, against where they come from."""

import json
import re
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
    headings = re.findall(r"^##+ \[?(\d[\w.]*)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[0] == VERSION
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == VERSION
    assert RECIPE["package"]["version"] == VERSION
    assert f"jupyter_gpudask-{VERSION}.tar.gz" in RECIPE["source"]["url"]


def test_the_recipe_requires_what_the_package_requires():
    required = conda_requirements(text for text in RECIPE["requirements"]["run"] if not text.startswith("__"))
    assert required.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert required == pip_requirements(PROJECT["dependencies"])


def test_the_recipe_constrains_what_the_extras_install():
    extras = PROJECT["optional-dependencies"]
    constrained = conda_requirements(RECIPE["requirements"]["run_constrained"])
    for extra in ("cu12", "cu13"):
        assert constrained == pip_requirements(extras[extra] + extras["lab"])


def test_the_recipe_builds_with_what_the_build_requires():
    host = conda_requirements(RECIPE["requirements"]["host"])
    del host["python"], host["pip"]
    hook = PYPROJECT["tool"]["hatch"]["build"]["hooks"]["jupyter-builder"]["dependencies"]
    assert host == pip_requirements(PYPROJECT["build-system"]["requires"] + hook)
    assert RECIPE["build"]["entry_points"] == [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]


def test_the_commands_before_a_commit_are_those_of_make_lint():
    recipe = "".join(re.findall(r"^lint-\w+:.*\n((?:\t.+\n)+)", MAKEFILE, flags=re.MULTILINE))
    linters = re.findall(r"(?:ruff (?:check|format --check)|mypy|jlpm \S+)$", recipe, flags=re.MULTILINE)
    assert len(linters) == recipe.count("\n")
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook, linter in zip(repository["hooks"], linters, strict=True):
        assert linter in hook["entry"]


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
    words = [re.sub(r"\$\{\{.*?\}\}", "%", command).split() for command in commands]
    made = [word for command, *rest in filter(None, words) if command == "make" for word in rest if word[0] != "-"]
    assert made
    assert set(made) <= set(re.findall(r"^([\w%-]+):", MAKEFILE, flags=re.MULTILINE))


def test_the_tests_run_on_each_python_that_the_package_names():
    python = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]["python"]
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert set(named) <= set(python["strategy"]["matrix"]["python"])


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
