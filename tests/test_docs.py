"""The pages of the documentation: their size, their links, and what they say about files, errors and measurements."""

import json
import re
from pathlib import Path

import pytest

from jupyter_gpudask.magics.arguments import parse_cell
from jupyter_gpudask.magics.commands import COMMANDS, parse_line
from jupyter_gpudask.protocol.messages import PROTOCOL_VERSION
from jupyter_gpudask.protocol.spec import ClusterSpec

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "RELEASING")), *sorted(DOCS.glob("*.md"))]

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


def magics_of(page):
    """The lines of code on a page, and code within its sentences, that begin with one of the magics."""
    for block in re.findall(r"^```[^\n]*$(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL):
        yield from (found[1] for line in block.splitlines() if (found := re.match(r"(?:In:|)\s*(%%?gpudask .*)", line)))
    text = "" if page.name == "errors.md" else without_blocks(page.read_text())  # there, messages begin so
    yield from (" ".join(code.split()) for code in re.findall(r"`(%%?gpudask [^`]*)`", text))


@each_page
def test_magics_that_pages_show_are_accepted(page):
    for line in magics_of(page):
        magic, _, rest = line.partition(" ")
        if rest in COMMANDS or re.search(r"[\[<]", rest):  # the name of a command, or a pattern of what may be typed
            continue
        if magic == "%%gpudask":
            parse_cell(rest)
            continue
        command, arguments = parse_line(rest)
        if command in ("start", "restart"):
            ClusterSpec.parse(arguments)


def test_the_description_of_the_protocol_has_its_version():
    page = (DOCS / "supervisor.md").read_text()
    named = re.findall(r'Version (\d+)\.|`protocol`: integer \((\d+)\)|"protocol": (\d+)|of protocol (\d+)', page)
    assert {int("".join(each)) for each in named} == {PROTOCOL_VERSION}
