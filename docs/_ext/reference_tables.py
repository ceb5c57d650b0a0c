"""The tables of the reference as Markdown, made from the code: commands, options, settings, requests, models, files."""

from __future__ import annotations

import ast
import inspect
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from jupyter_gpudask.magics.arguments import CELL_OPTIONS
from jupyter_gpudask.magics.commands import COMMANDS
from jupyter_gpudask.magics.settings import MagicsSettings
from jupyter_gpudask.protocol import messages, verbs
from jupyter_gpudask.protocol.spec import start_options
from jupyter_gpudask.server.rest import openapi_document
from jupyter_gpudask.server.settings import ServerSettings

if TYPE_CHECKING:
    from traitlets.config import Configurable

PACKAGE = Path(__file__).parents[2] / "jupyter_gpudask"
PANEL_SETTINGS = Path(__file__).parents[2] / "labextension" / "schema" / "settings.json"

# What is code in a text for the terminal, which has no marks for it.
_CODE = re.compile(
    rf"""`[^`]*`|(?<![\w`])(%gpudask\ (?:{"|".join(COMMANDS)})\b|%%gpudask\b|--[a-z][\w-]*(?:\ x,df)?|[a-z]+://\w+(?::\w+)?
    |[A-Z_]+=\w+|compute\(\))""",
    re.VERBOSE,
)


class UnknownRowError(Exception):
    """A page adds a note to a row that the code does not have."""


@dataclass(frozen=True)
class Table:
    """A table of the reference.

    Attributes
    ----------
    header
        The names of the columns.
    rows
        The cells of each row, as Markdown, by the name that a note of a page has for it.
    meaning
        The column to which notes are added.
    """

    header: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]
    meaning: int = 1

    def markdown(self, notes: dict[str, str]) -> str:
        """The table, with what a page adds to its rows.

        Raises
        ------
        UnknownRowError
            There is no such row.
        """
        if unknown := sorted(notes.keys() - self.rows.keys()):
            raise UnknownRowError(f"no rows of the code: {', '.join(unknown)}")
        lines = [self.header, ("---",) * len(self.header)]
        for name, cells in self.rows.items():
            texts = list(cells)
            texts[self.meaning] = " ".join(filter(None, [texts[self.meaning], notes.get(name, "")]))
            lines.append(tuple(text.replace("|", "\\|") for text in texts))
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def notes_of(lines: list[str]) -> dict[str, str]:
    """The notes that a page adds to a table: ``NAME: TEXT``, continued on lines that are indented."""
    notes: dict[str, str] = {}
    name = ""
    for line in filter(str.strip, lines):
        if line[0].isspace():
            notes[name] += f" {line.strip()}"
        else:
            name, _, notes[name] = line.partition(": ")
    return notes


def commands() -> Table:
    """The commands of ``%gpudask``."""
    rows = {}
    for name, command in COMMANDS.items():
        uses = re.split(r" \| (?![^\[]*\])", command.arguments)  # of uses, and not within brackets
        usage = ", ".join(f"`{name} {arguments}`" if arguments else f"`{name}`" for arguments in uses)
        rows[name] = (usage, _sentence(command.help), command.value)
    return Table(("Command", "What it does", "Its value"), rows)


def options_of_start() -> Table:
    """The options of ``%gpudask start``, as `ClusterSpec` declares them."""
    rows = {}
    for flag, option in start_options().items():
        words = "|".join(sorted(map(re.escape, option.words), key=len, reverse=True))
        allowed = re.sub(rf"\b({words})\b", r"`\1`", option.allowed) if words else option.allowed
        if option.value_is_optional:
            allowed = f"nothing, {allowed}" if words else f"nothing, or {allowed}"
        text = _sentence(option.help) + (" May be repeated." if option.is_repeatable else "")
        rows[flag] = (f"`{flag}`", text, _code(allowed), f"`{option.default}`" if option.default else "")
    return Table(("Option", "Meaning", "Allowed values", "Default"), rows)


def options_of_cells() -> Table:
    """The options of ``%%gpudask``."""
    rows = {}
    for flag, option in CELL_OPTIONS.items():
        usage = f"`{flag} {option.metavar}`" if option.metavar else f"`{flag}`"
        rows[flag] = (usage, _sentence(option.help), f"`{option.default}`" if option.default else "")
    return Table(("Option", "What it does", "Default"), rows)


def settings_of_magics() -> Table:
    """The traits of the magics."""
    return _traits(MagicsSettings)


def settings_of_server() -> Table:
    """The traits of the server."""
    return _traits(ServerSettings)


def settings_of_panel() -> Table:
    """The settings of the front end, from their JSON schema."""
    rows = {}
    for name, setting in json.loads(PANEL_SETTINGS.read_text())["properties"].items():
        values = [
            f"`{each['const']}`: {each['title']}."
            for each in setting.get("oneOf", ())
            if each["const"] != each["title"]
        ]
        text = " ".join([setting["description"], *values])
        rows[name] = (setting["title"], text, f"`{name}`", _default(setting["default"]))
    return Table(("Setting", "Meaning", "Name", "Default"), rows)


def requests() -> Table:
    """The requests of the REST interface, from the OpenAPI document."""
    document = openapi_document("/")
    rows = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            request = f"{method.upper()} {path.removeprefix('/')}"
            responses = []
            for status, response in operation["responses"].items():
                model = _type(response.get("content", {}).get("application/json", {}).get("schema", {}))
                responses.append(f"{status} {model}".strip() if int(status) < 400 else status)
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            rows[request] = (f"`{request}`", operation["summary"], _type(body), ", ".join(responses))
    return Table(("Request", "Meaning", "Body", "Responses"), rows)


def models() -> dict[str, tuple[str, Table]]:
    """What each model of the REST interface is, and the table of its fields."""
    schemas = openapi_document("/")["components"]["schemas"]
    described = {}
    for name, schema in schemas.items():
        text = schema.get("description", "").partition("\n\nAttributes")[0]
        options = name in ("ClusterSpec", "ClusterOptions")
        meanings = _options_of_clusters() if options else _attributes(name) | _attributes_of_other(text)
        fields = schema.get("properties", {}).items()
        rows = {field: (f"`{field}`", meanings.get(field, ""), _type(value)) for field, value in fields}
        table = Table(("Field", "Meaning", "Type"), rows)
        if not any(meaning for _, meaning, _ in rows.values()):  # the text says it
            table = Table(("Field", "Type"), {field: (cells[0], cells[2]) for field, cells in rows.items()})
        described[name] = (" ".join(text.split()), table)
    return described


def protocol_commands() -> Table:
    """The commands to a supervisor: the first one, and the verbs."""
    rows = {}
    for command in verbs.COMMANDS:
        name = command.model_fields["type"].default
        verb = verbs.VERBS.get(name)
        answer = "`progress` ..., then `ready` or `failed`"
        if verb:
            answer = f"`{verb.answer.model_fields['type'].default}` or `refused`" if verb.answer else "none"
        rows[name] = (f"`{name}`", _summary(command), _fields(command, {"type", "id", "protocol"}), answer)
    return Table(("`type`", "Meaning", "Fields", "Answer"), rows)


def protocol_events() -> Table:
    """The events of a supervisor."""
    rows = {}
    for event in get_args(messages.Event):
        name = event.model_fields["type"].default
        rows[name] = (f"`{name}`", _summary(event), _fields(event, {"type", "answers", "protocol"}))
    return Table(("`type`", "Meaning", "Fields"), rows)


def files() -> Table:
    """The Python files of the package, with the first sentence of each."""
    rows = {}
    for path in sorted(PACKAGE.rglob("*.py"), key=lambda path: (path.parent, path.name)):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        if path.name not in {"__init__.py", "_version.py"} and "labextension" not in path.parts:
            name = path.relative_to(PACKAGE).as_posix()
            rows[name] = (f"`{name}`", " ".join(text.partition("\n\n")[0].split()).replace("``", "`"))
    return Table(("File", "What it does"), rows)


TABLES = {
    "commands": commands,
    "options-of-start": options_of_start,
    "options-of-cells": options_of_cells,
    "settings-of-magics": settings_of_magics,
    "settings-of-server": settings_of_server,
    "settings-of-panel": settings_of_panel,
    "requests": requests,
    "protocol-commands": protocol_commands,
    "protocol-events": protocol_events,
    "files": files,
}
"""The tables by the name of the directive that shows them."""


def _traits(settings: type[Configurable]) -> Table:
    """The settings of a class, in the order in which they are declared."""
    traits = settings.class_own_traits(config=True)
    rows = {}
    for name in vars(settings):
        if trait := traits.get(name):
            rows[name] = (f"`c.GpuDask.{name}`", _code(" ".join(trait.help.split())), f"`{trait.default()!r}`")
    return Table(("Setting", "Meaning", "Default"), rows)


def _code(text: str) -> str:
    return _CODE.sub(lambda found: f"`{found[1]}`" if found[1] else found[0], text)


def _summary(model: type[BaseModel]) -> str:
    """The docstring of a message, without its list of fields, on one line."""
    text = re.split(r"\n\n?- ", inspect.getdoc(model) or "")[0]
    return " ".join(text.replace("``", "`").split())


def _fields(model: type[BaseModel], left_out: set[str]) -> str:
    """The fields of a message, with their types, limits and meanings."""
    meanings: dict[str, str] = {}
    for base in reversed(model.__mro__):
        meanings |= _attributes_in(inspect.cleandoc(vars(base).get("__doc__") or ""))
    texts = []
    described = openapi_document("/")["components"]["schemas"]
    for name, schema in model.model_json_schema().get("properties", {}).items():
        if name not in left_out:
            limits = " to ".join(f"{schema[key]:g}" for key in ("minimum", "maximum") if key in schema)
            allowed = f"{_type(schema)} from {limits}" if limits else _type(schema)
            allowed = re.sub(r"\[(\w+)\]\(#.*?\)", lambda link: link[0] if link[1] in described else link[1], allowed)
            meaning = meanings.get(name, "").rstrip(".").replace("``", "`")
            texts.append(f"`{name}` ({allowed}): {meaning}." if meaning else f"`{name}` ({allowed}).")
    return " ".join(texts)


def _sentence(text: str) -> str:
    """A text of the help as a sentence."""
    return f"{_code(text[:1].upper() + text[1:]).rstrip('.')}."


def _default(value: Any) -> str:
    """A default from a JSON schema; of lists and objects, the items and names."""
    values = value if isinstance(value, list | dict) else [json.dumps(value)]
    return ", ".join(f"`{each}`" for each in values)


def _type(schema: dict[str, Any]) -> str:
    """The type of a value in words, with a link to the model if it is one."""
    match schema:
        case {"$ref": reference}:
            name = reference.rpartition("/")[2]
            text = f"[{name}](#model-{name.lower()})"
        case {"anyOf": types}:
            text = " or ".join(dict.fromkeys(map(_type, types)))
        case {"enum": values}:
            text = ", ".join(f"`{value}`" for value in values)
        case {"const": value}:
            text = f"`{value}`"
        case {"type": "array", "items": items}:
            text = f"list of {_type(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            text = f"object of {_type(values)}"
        case _:
            text = str(schema.get("type", ""))
    return text


def _options_of_clusters() -> dict[str, str]:
    return {option.field: _sentence(option.help) for option in start_options().values()}


def _attributes(name: str) -> dict[str, str]:
    """The meanings of the fields of a model, from the docstrings of its class and of those it is derived from."""
    meanings: dict[str, str] = {}
    for model in _models(BaseModel):
        if model.__name__ == name:
            for base in reversed(model.__mro__):
                meanings |= _attributes_in(inspect.cleandoc(vars(base).get("__doc__") or ""))
    return meanings


def _attributes_of_other(text: str) -> dict[str, str]:
    """Those of the model to which a description refers."""
    other = re.search(r"see `(\w+)`", text)
    return _attributes(other[1]) if other else {}


def _models(base: type[BaseModel]) -> list[type[BaseModel]]:
    found = [model for model in base.__subclasses__() if model.__module__.startswith("jupyter_gpudask.")]
    return found + [deeper for model in base.__subclasses__() for deeper in _models(model)]


def _attributes_in(docstring: str) -> dict[str, str]:
    """The list of fields of a docstring: ``- `a`, `b`: what they mean``."""
    meanings = {}
    for names, text in re.findall(r"^- (`\w+`(?:, `\w+`)*): (.*(?:\n  .*)*)", docstring, re.MULTILINE):
        sentence = " ".join(text.split())
        meanings |= dict.fromkeys(re.findall(r"\w+", names), sentence[0].upper() + sentence[1:])
    return meanings
