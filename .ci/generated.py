"""Writes each file that is made from the code: ``generated.py``; with ``--check`` it only lists those that are stale.

PYTHONPATH=. .venv/bin/python .ci/generated.py [--check]
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import errors_page
import patches_page
import private_names
import scoreboard
import tables
import translations
import versions_page
import words

from jupyter_gpudask.server.rest import openapi_document

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "node_modules" / ".bin"


def types(document: str) -> str:
    """The types of TypeScript for an OpenAPI document."""
    made = subprocess.run(
        [PROGRAMS / "openapi-typescript", "--export-type"], input=document, capture_output=True, text=True, check=True
    )
    command = [PROGRAMS / "prettier", "--stdin-filepath", "labextension/src/model/openapi.ts"]
    return subprocess.run(command, input=made.stdout, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def with_tables(page: str, **tables: str) -> str:
    """The text of a page whose tables, each between two comments with its name, are made again."""
    text = (ROOT / page).read_text()
    for name, table in tables.items():
        begin, end = f"<!-- {name}: made by make fix -->", f"<!-- end of {name} -->"
        made = "\n\n".join(filter(None, [begin, table, end]))
        text, count = re.subn(f"{begin}.*?{end}", lambda _, made=made: made, text, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"{page} has {count} places for the table {name}, and not one.")
    return text


def badges() -> str:
    """The badges of README.md, and buttons for Binder and Colab; none as long as package.json names no repository."""
    repository = json.loads((ROOT / "package.json").read_text()).get("repository", {}).get("url", "")
    name = re.fullmatch(r"git\+https://github\.com/([\w.-]+/[\w.-]+?)\.git", repository)
    if name is None:
        return ""
    page = f"https://github.com/{name[1]}"
    buttons = {
        "PyPI": ("https://img.shields.io/pypi/v/jupyter_gpudask", "https://pypi.org/project/jupyter_gpudask/"),
        "Tests": (f"{page}/actions/workflows/test.yml/badge.svg", f"{page}/actions/workflows/test.yml"),
        "Nightly": (f"{page}/actions/workflows/nightly.yml/badge.svg", f"{page}/actions/workflows/nightly.yml"),
        "Try it on Binder, without a GPU": (
            "https://mybinder.org/badge_logo.svg",
            f"https://mybinder.org/v2/gh/{name[1]}/main?urlpath=lab/tree/binder/index.ipynb",
        ),
        "Run it on a GPU of Colab": (
            "https://colab.research.google.com/assets/colab-badge.svg",
            f"https://colab.research.google.com/github/{name[1]}/blob/main/colab/gpudask.ipynb",
        ),
    }
    return "\n".join(f"[![{text}]({picture})]({target})" for text, (picture, target) in buttons.items())


def files() -> Iterator[tuple[str, str]]:
    """The path of each file, and what is to be in it."""
    document = json.dumps(openapi_document("/"), indent=2) + "\n"
    yield "docs/errors.md", errors_page.page()
    yield "docs/patches.md", patches_page.page()
    yield "docs/scoreboard.md", scoreboard.page()
    lines = tables.lines_of_cell("unchanged.ipynb", "frames-2")
    readme = with_tables("README.md", badges=badges(), lines=lines, times=scoreboard.first_runs())
    yield "README.md", re.sub(r"changes \d+ functions", f"changes {len(patches_page.CHANGES)} functions", readme)
    yield "docs/versions.md", with_tables("docs/versions.md", versions=versions_page.table())
    yield (
        "docs/what-runs-where.md",
        with_tables(
            "docs/what-runs-where.md",
            differences=tables.differences(),
            csv=tables.csv_keywords(),
            remaining=tables.remaining_differences(),
        ),
    )
    metrics = {"server": tables.metrics("prometheus.py"), "waiting": tables.metrics("commands.py")}
    yield "docs/server.md", with_tables("docs/server.md", **metrics)
    yield "docs/supervisor.md", with_tables("docs/supervisor.md", example=tables.protocol_example())
    made = {name: tables.programs(name) for name in ("benchmarks", "oracle")}
    yield "docs/testing.md", with_tables("docs/testing.md", **made, simulated=tables.simulated_gpus())
    yield "CONTRIBUTING.md", with_tables("CONTRIBUTING.md", words=words.table())
    yield "jupyter_gpudask/patches/private_names.py", private_names.page()
    yield "labextension/openapi.json", document
    yield "labextension/src/model/openapi.ts", types(document)
    for path, text in translations.files():
        yield path.relative_to(ROOT).as_posix(), text


def main(*arguments: str) -> int:
    """Write the files, or list those that are stale; then the exit status is 1."""
    made = [(ROOT / name, text) for name, text in files()]
    stale = [(path, text) for path, text in made if not path.exists() or path.read_text() != text]
    for path, text in stale:
        print(f"{path.relative_to(ROOT)} is {'stale; type: make fix' if arguments else 'written again'}")
        if not arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return int(bool(arguments and stale))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
