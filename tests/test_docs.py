"""The pages of the documentation: their size, their links, and what they say about files, errors and measurements."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from jupyter_gpudask.magics.arguments import parse_cell
from jupyter_gpudask.magics.commands import parse_line
from jupyter_gpudask.protocol.messages import PROTOCOL_VERSION
from jupyter_gpudask.protocol.spec import ClusterSpec

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "RELEASING")), *sorted(DOCS.glob("*.md"))]
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


def test_the_website_and_the_list_for_assistants_have_every_page():
    pages = sorted({page.stem for page in DOCS.glob("*.md")} - {"index"})
    trees = re.findall(r"^```{toctree}$(.*?)^```$", (DOCS / "index.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    assert sorted(name for tree in trees for name in re.findall(r"^[\w-]+$", tree, re.MULTILINE)) == pages
    listed = re.findall(r"^- .*\]\((.*)\.html\)", (DOCS / "llms.txt").read_text(), flags=re.MULTILINE)
    assert sorted(listed) == pages


def test_the_readme_has_the_measurements_that_were_recorded():
    text = (ROOT / "README.md").read_text()
    measured = json.loads((RESULTS / "2026-11-27-fallback-h100.json").read_text())["rows"]
    titles = {
        "Median filter of an image": "SciPy: median filter",
        "Gaussian filter of an image": "SciPy: Gaussian filter",
        "Predictions of a random forest": "scikit-learn: predict of a random forest",
    }
    for title, name in titles.items():
        row = measured[name]
        cpu = min(seconds for side, seconds in row["seconds"].items() if side.startswith("plain Dask"))
        expected = [cpu, row["runs"]["jupyter_gpudask"][0], row["seconds"]["jupyter_gpudask"]]
        shown = next(line for line in text.splitlines() if line.startswith(f"| {title}")).split("|")[2:5]
        assert [cell.strip() for cell in shown] == [f"{seconds:.2f}" for seconds in expected]
    queries = json.loads((RESULTS / "2026-11-27-pdsh-h100.json").read_text())["table"]
    assert re.findall(r"(\d+\.\d)(?: s\b)", text.partition("PDS-H")[2])[:2] == [
        f"{queries[side]['seconds']:.1f}" for side in ("ours", "polars")
    ]
    counts = json.loads((RESULTS / "2026-11-27-dask-tests-dataframes-h100.json").read_text())["counts"]
    assert f"{counts['pass on the CPU and ran under the switch']:,} dataframe tests" in text
    assert (
        f"{counts['agree, or differ only in types or the graph, in percent']} % pass, or differ only in types" in text
    )


def test_the_readme_shows_a_cell_of_a_notebook_with_the_output_of_its_run():
    text = (ROOT / "README.md").read_text()
    code, shown = re.search(r"^```python\n(.*?)\n```\n+```text\n(.*?)\n```", text, re.MULTILINE | re.DOTALL).groups()
    notebook = cells(DOCS / "notebooks" / "unchanged.ipynb", "code")
    (last,) = [cell for cell in notebook if "Started: " in json.dumps(cell["outputs"])]
    source, outputs = ("".join(last["source"]), json.dumps(last["outputs"], ensure_ascii=False))
    assert code.partition("import dask.dataframe as dd\n")[2].replace('"measurements"', "str(path)", 1) in source
    assert [line for line in shown.splitlines() if line not in outputs] == []


NOTEBOOKS = [path for path in sorted((ROOT / "binder").glob("*.ipynb")) if path.stem != "index"]
SAVE = "run it again, see docs/testing.md: .ci/notebooks.py --only "

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


@pytest.mark.parametrize(
    "page",
    [DOCS / "architecture.md", DOCS / "testing.md", ROOT / "CONTRIBUTING.md", ROOT / "RELEASING.md"],
    ids=lambda page: page.name,
)
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
        command, arguments = parse_line(rest)
        if command in ("start", "restart"):
            ClusterSpec.parse(arguments)


@pytest.mark.parametrize("name", ["patches", "errors"])
def test_a_page_is_made_from_its_table_in_the_code(name):
    made = subprocess.check_output([sys.executable, ROOT / ".ci" / f"{name}_page.py"], text=True)
    assert (DOCS / f"{name}.md").read_text() == made


def test_the_description_of_the_protocol_has_its_version():
    page = (DOCS / "supervisor.md").read_text()
    named = re.findall(r'Version (\d+)\.|`protocol`: integer \((\d+)\)|"protocol": (\d+)|of protocol (\d+)', page)
    assert {int("".join(each)) for each in named} == {PROTOCOL_VERSION}
