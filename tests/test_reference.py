"""The tables of the reference, which are made from the code when the website is built, and what pages add to them."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest

from jupyter_gpudask.magics.arguments import CELL_OPTIONS
from jupyter_gpudask.magics.commands import COMMANDS
from jupyter_gpudask.magics.settings import MagicsSettings
from jupyter_gpudask.protocol.spec import start_options
from jupyter_gpudask.server.settings import ServerSettings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

sys.path.insert(0, str(DOCS / "_ext"))
from reference_tables import TABLES, Table, UnknownRowError, models, notes_of  # noqa: E402

PAGES = sorted(DOCS.glob("*.md"))


def directives():
    """The page, the name and the lines of each directive that shows a table."""
    for page in PAGES:
        for name, content in re.findall(r"^```{([\w-]+)}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
            if name in TABLES:
                yield page.name, name, content.splitlines()


def test_each_table_is_on_one_page():
    assert sorted(name for _, name, _ in directives()) == sorted(TABLES)


@pytest.mark.parametrize(("page", "name", "lines"), list(directives()), ids=lambda value: str(value)[:20])
def test_what_a_page_adds_is_in_the_row_that_it_names(page, name, lines):
    notes = notes_of(lines)
    shown = TABLES[name]().markdown(notes).splitlines()
    assert all(any(note.replace("|", "\\|") in row for row in shown) for note in notes.values())
    assert len(shown) == 2 + len(TABLES[name]().rows)
    assert len({row.count(" | ") for row in shown}) == 1, f"a column is missing in {page}"


def test_a_note_on_a_row_that_the_code_does_not_have_is_an_error():
    table = Table(("Name", "Meaning"), {"first": ("`first`", "A | B.")})
    assert table.markdown(notes_of(["first: More", "  of it."])).splitlines()[2] == "| `first` | A \\| B. More of it. |"
    with pytest.raises(UnknownRowError, match="second"):
        table.markdown({"second": "x"})


@pytest.mark.parametrize("name", TABLES)
def test_every_row_has_a_meaning(name):
    table = TABLES[name]()
    assert table.rows
    for row, cells in table.rows.items():
        assert len(cells) == len(table.header), row
        assert re.fullmatch(r"[`A-Z1].*\.", cells[table.meaning]), row


def test_the_tables_have_what_the_code_declares():
    rows = {name: make().rows for name, make in TABLES.items()}
    assert list(rows["commands"]) == list(COMMANDS)
    assert list(rows["options-of-cells"]) == list(CELL_OPTIONS)
    assert {flag: cells[3].strip("`") for flag, cells in rows["options-of-start"].items()} == {
        flag: option.default for flag, option in start_options().items()
    }
    for name, settings in (("settings-of-magics", MagicsSettings), ("settings-of-server", ServerSettings)):
        assert {row: ast.literal_eval(cells[2].strip("`")) for row, cells in rows[name].items()} == {
            trait: value.default() for trait, value in settings.class_own_traits(config=True).items()
        }
    schema = json.loads((ROOT / "labextension" / "schema" / "settings.json").read_text())["properties"]
    defaults = {name: setting["default"] for name, setting in schema.items()}
    assert list(rows["settings-of-panel"]) == list(defaults)
    for name, default in defaults.items():
        shown = re.findall("`(.*?)`", rows["settings-of-panel"][name][3])
        assert shown == (list(default) if isinstance(default, list | dict) else [json.dumps(default)])
    paths = json.loads((ROOT / "labextension" / "openapi.json").read_text())["paths"]
    assert set(rows["requests"]) == {f"{method.upper()} {path[1:]}" for path in paths for method in paths[path]}


def test_the_fields_of_the_models_have_types_and_meanings_and_their_links_lead_to_models():
    described = models()
    links = {f"#model-{name.lower()}" for name in described}
    for name, (_, table) in described.items():
        for field, cells in table.rows.items():
            assert all(cells), (name, field)
            assert set(re.findall(r"\((#[\w-]+)\)", cells[-1])) <= links
    cluster, state = described["ClusterInfo"][1].rows, described["WorkerState"][1].rows
    assert cluster["state"][2] == "[ClusterState](#model-clusterstate) or null"
    assert "`starting`, `ready`" in cluster["status"][2]
    assert state["memory"][1] == "Host memory of the process, in bytes."
    assert described["WorkerMetrics"][1].rows["memory"][1] == state["memory"][1]
    assert described["GpuInfo"][1].rows["temperature"][1]
