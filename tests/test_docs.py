"""The pages of the documentation: their size, their links, and what they say about files, errors and measurements."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from jupyter_gpudask.magics.arguments import parse_cell, parse_line
from jupyter_gpudask.protocol import PROTOCOL_VERSION, ClusterSpec

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
RESULTS = ROOT / "benchmarks" / "results"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def without_blocks(text):
    """The text of a page without its fenced blocks of code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def headings(page):
    return [line for line in without_blocks(page.read_text()).splitlines() if line.startswith("#")]


def anchor(heading):
    """The anchor of a heading, as GitHub makes it."""
    text = re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower())
    return text.replace(" ", "-")


def links(page):
    """The targets of the links on a page, to other sites excepted."""
    targets = re.findall(r"\]\(([^)\s]+)\)", without_blocks(page.read_text()))
    return [target for target in targets if not re.match(r"[a-z]+://", target)]


@each_page
def test_a_page_says_each_of_its_sections_once(page):
    assert [heading for heading, count in Counter(headings(page)).items() if count > 1] == []


@each_page
def test_links_lead_to_files_and_headings_that_exist(page):
    broken = []
    for target in links(page):
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (fragment and fragment not in [anchor(heading) for heading in headings(file)]):
            broken.append(target)
    assert broken == []


def test_the_index_lists_every_page():
    listed = {target.partition("#")[0] for target in links(DOCS / "README.md")}
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md", "index.md"} <= listed


def test_the_website_has_every_page():
    pages = {page.stem for page in DOCS.glob("*.md")} - {"README", "index"}
    trees = re.findall(r"^```{toctree}$(.*?)^```$", (DOCS / "index.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    assert sorted(name for tree in trees for name in re.findall(r"^[\w-]+$", tree, re.MULTILINE)) == sorted(pages)


def test_the_readme_has_the_measurements_that_were_recorded():
    text = (ROOT / "README.md").read_text()
    steps = json.loads((RESULTS / "2026-11-22-eight-h200-x4.json").read_text())["steps"]
    by_hand, ours = steps["by hand 4"], steps["tls 4"]
    rows = {"Start the cluster": (by_hand["start"], ours["start"])}
    for title, work in {"Sum over 2 TB": "cell", "the same, CuPy": "verbatim"}.items():
        rows[title] = by_hand["works"][work]["seconds"], ours["works"][work]["seconds"]
    for title, measured in rows.items():
        cells = next(line for line in text.splitlines() if line.startswith(f"| {title}")).split("|")[2:4]
        for cell, seconds in zip(cells, measured, strict=True):
            number = cell.removesuffix(" s ").strip()
            assert number == f"{seconds:.{len(number.partition('.')[2])}f}"


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "index.md"], ids=lambda page: page.name)
def test_a_first_page_shows_only_output_that_its_cell_had_on_gpus(page):
    text = page.read_text()
    cell = re.search(r"^```python\n(.*?)\n```", text, flags=re.MULTILINE | re.DOTALL)[1]
    recordings = [json.loads(path.read_text()) for path in RESULTS.glob("*readme-cell*.json")]
    recorded = [each["output"] for each in recordings if each["gpus"] and each["cell"] == cell]
    shown = re.findall(r"^```text\n(.*?)\n```", text, flags=re.MULTILINE | re.DOTALL)
    assert [output for output in shown if output not in recorded] == []


NOTEBOOKS = [path for path in sorted((ROOT / "binder").glob("*.ipynb")) if path.stem != "index"]
SAVE = "run it again, see CONTRIBUTING.md: .ci/notebooks.py --only "

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(notebook, kind):
    return [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == kind]


@each_notebook
def test_the_website_has_the_outputs_of_the_code_in_a_notebook(path):
    saved = DOCS / "notebooks" / path.name
    assert f"]({saved.relative_to(DOCS)})" in (DOCS / "notebooks.md").read_text()
    assert saved.stat().st_size <= 2**20
    code = [cell["source"] for cell in cells(saved, "code")]
    assert code == [cell["source"] for cell in cells(path, "code")], SAVE + path.stem
    assert any(cell["outputs"] for cell in cells(saved, "code"))


@each_notebook
def test_what_the_website_says_of_the_run_of_a_notebook_was_recorded(path):
    said = "".join(cells(DOCS / "notebooks" / path.name, "markdown")[1]["source"])
    date, gpus, seconds = re.search(r"as it ran on (\S+) on (.+?) and .* in (\d+) s", said).groups()
    runs = [json.loads(file.read_text()) for file in RESULTS.glob("*notebooks*.json")]
    recorded = {
        (run["date"], bool(run["gpus"]), f"{run['notebooks'][path.stem]['seconds']:.0f}")
        for run in runs
        if path.stem in run["notebooks"]
    }
    assert (date, gpus != "a machine without a GPU", seconds) in recorded


PLACES = [
    ROOT,
    DOCS,
    ROOT / "jupyter_gpudask",
    ROOT / "labextension" / "src",
    ROOT / "labextension" / "ui-tests" / "tests",
    ROOT / ".ci" / "pictures",
    ROOT / "tests",
]
MADE_BY_COMMANDS = {"dist/", "site/", "fluid-simulation.ipynb"}
FILE = re.compile(r"(?<![\w/.])[\w./-]+\.(?:pyi?|tsx?|mjs|ipynb|md|toml)\b")
FOLDER = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/)`")


def named_paths(page):
    """The files and folders that a page names; addresses of other sites, and NAME for any name, excepted."""
    text = re.sub(r"https?://\S+", "", page.read_text())
    paths = {path for path in FILE.findall(text) if not path.startswith("..")} | set(FOLDER.findall(text))
    return {path for path in paths if "NAME" not in path}


@pytest.mark.parametrize("page", [DOCS / "architecture.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_files_and_folders_that_are_named_exist(page):
    missing = [
        path for path in named_paths(page) - MADE_BY_COMMANDS if not any((place / path).exists() for place in PLACES)
    ]
    assert sorted(missing) == []


def test_pytorch_allocates_from_rmm_in_the_notebook_as_on_the_page_of_short_answers():
    (block,) = re.findall(
        r"^```python\n(.*?TorchOnRmm.*?)^```", (DOCS / "how-to.md").read_text(), re.MULTILINE | re.DOTALL
    )
    code = "\n".join("".join(cell["source"]) for cell in cells(ROOT / "binder" / "pytorch.ipynb", "code"))
    (shown,) = re.findall(r"^class TorchOnRmm.*?(?=^\S)", block, re.MULTILINE | re.DOTALL)
    assert shown in code


def test_the_architecture_has_a_row_for_every_package():
    rows = re.findall(r"^\| `(\w+)/` \|", (DOCS / "architecture.md").read_text(), flags=re.MULTILINE)
    packages = [path.parent.name for path in (ROOT / "jupyter_gpudask").glob("*/__init__.py")]
    assert sorted(set(rows) - {"labextension"}) == sorted(packages)


def magics_of(page):
    """The lines of code on a page that begin with one of the magics."""
    for block in re.findall(r"^```[^\n]*$(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL):
        yield from (found[1] for line in block.splitlines() if (found := re.match(r"(?:In:|)\s*(%%?gpudask .*)", line)))


@each_page
def test_magics_that_pages_show_are_accepted(page):
    for line in magics_of(page):
        magic, _, rest = line.partition(" ")
        if "[" in rest:  # a pattern of what may be typed
            continue
        if magic == "%%gpudask":
            parse_cell(rest)
            continue
        given = parse_line(rest)
        if given.command in ("start", "restart"):
            ClusterSpec.parse(given.options)


@pytest.mark.parametrize("name", ["patches", "errors"])
def test_a_page_is_made_from_its_table_in_the_code(name):
    made = subprocess.check_output([sys.executable, ROOT / ".ci" / f"{name}_page.py"], text=True)
    assert (DOCS / f"{name}.md").read_text() == made


def test_the_description_of_the_protocol_has_its_version():
    page = (DOCS / "supervisor.md").read_text()
    named = re.findall(r'Version (\d+)\.|`protocol`: integer \((\d+)\)|"protocol": (\d+)|of protocol (\d+)', page)
    assert {int("".join(each)) for each in named} == {PROTOCOL_VERSION}
