"""The table of docs/versions.md: what pyproject.toml requires, and what the recorded runs had.

.venv/bin/python .ci/versions_page.py NAME...    # record that the tests of these environments in .venv-versions passed

`make test-versions` records its runs in docs/versions.json. The runs on GPUs are those in benchmarks/results.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "versions.json"
EXTRAS = ("lab", "cu13", "polars-cu13")
NONE = "–"


def requirements() -> dict[str, str]:
    """What the package and its extras require, by the names of the packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(text for extra in EXTRAS for text in project["optional-dependencies"][extra])]
    found = {canonicalize_name(each.name): _range(each) for each in map(Requirement, texts)}
    found.pop("jupyter-gpudask")
    return {"python": project["requires-python"], "numpy": "", "pandas": "", **found}


def _range(requirement: Requirement) -> str:
    """The releases that are allowed, the oldest first."""
    parts = sorted(requirement.specifier, key=lambda part: (part.operator != ">=", part.version))
    return ", ".join(map(str, parts))


def recorded(name: str) -> dict[str, str]:
    """The versions in an environment of `make test-versions`."""
    python = ROOT / ".venv-versions" / name / "bin" / "python"
    printed = subprocess.check_output([python, "-c", "import platform; print(platform.python_version())"], text=True)
    lines = (python.parents[1] / "versions.txt").read_text().splitlines()
    frozen = {canonicalize_name(each): version for each, _, version in (line.partition("==") for line in lines)}
    frozen |= {"python": printed.strip()}
    return {each: frozen[each] for each in requirements() if frozen.get(each)}


def on_gpus() -> dict[str, str]:
    """The versions of the newest measurement with each package, by date."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")):
        run = json.loads(path.read_text())
        versions = run.get("versions", {}) if isinstance(run, dict) else {}
        if any(name.startswith("cudf") for name in versions):
            found |= {canonicalize_name(name): version for name, version in versions.items()}
            found |= {"python": run["python"]} if "python" in run else {}
    return found


def table() -> str:
    """The table, as Markdown."""
    runs = json.loads(RECORD.read_text())
    columns = [f"{name}, {run['date']}" for name, run in runs.items()]
    rows = [f"| Package | Required | {' | '.join(columns)} | On GPUs |", "| --- |" + " --- |" * (len(runs) + 2)]
    gpus = on_gpus()
    for name, required in sorted(requirements().items(), key=lambda item: (item[0] != "python", item[0])):
        versions = [run["versions"].get(name, NONE) for run in runs.values()]
        short = re.sub(r"-(cu|cuda)13x?$", "", name)
        rows.append(f"| {short} | {required or NONE} | {' | '.join(versions)} | {gpus.get(name, NONE)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    runs = json.loads(RECORD.read_text())
    today = dt.datetime.now(dt.UTC).date().isoformat()
    runs |= {name: {"date": today, "versions": recorded(name)} for name in sys.argv[1:]}
    RECORD.write_text(json.dumps(runs, indent=1) + "\n")
