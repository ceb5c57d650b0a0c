"""The catalogues of labextension/locale with the texts of the front end, and what JupyterLab reads; for `make fix`.

A new language begins with an empty file, such as labextension/locale/fr_FR.po. Texts that are not translated are
English in JupyterLab.
"""

from __future__ import annotations

import json
import re
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from jupyter_gpudask import errors
from jupyter_gpudask.protocol.spec import start_options

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
DOMAIN = "jupyter_gpudask"
SOURCES = ROOT / "labextension" / "src"
KERNEL_ONLY = (
    *("Acceleration", "Arguments", "Backend", "Broken", "Comparison", "Connect", "Mixed", "Move", "NotO", "Patch"),
    *("Pickling", "Protocol", "Report", "Result", "Switch", "WorkersEnded"),
)
"""How the names of errors begin that only cells and commands show."""

CATALOGUE_OF_ERRORS = "errors.toml"
CATALOGUES = ROOT / "labextension" / "locale"


@cache
def extract() -> Catalog:
    """The texts of the front end: the arguments of `trans.__` and `trans._n`, errors, and options of the start form."""
    catalogue = Catalog(domain=DOMAIN)
    files = [("**/__tests__/**", "ignore"), ("**.ts", "javascript"), ("**.tsx", "javascript")]
    options = {pattern: {"parse_template_string": "true"} for pattern in ("**.ts", "**.tsx")}
    for file, _, text, *_ in extract_from_dir(SOURCES, files, options, keywords={"__": None, "_n": (1, 2)}):
        catalogue.add(text, locations=[(file, 1)])
    for name, entries in errors.catalog().items():
        for text in (text for entry in entries.values() for text in (entry.reason, entry.fix) if text):
            if not name.startswith(KERNEL_ONLY):
                catalogue.add(text, locations=[(CATALOGUE_OF_ERRORS, 1)])
    for option in start_options().values():
        for text in (option.title, option.help, option.allowed) if option.title else ():
            catalogue.add(text, locations=[("spec.py", 1)])
    return catalogue


def updated(path: Path) -> Catalog:
    """The catalogue of a language with the texts of the front end, and without others."""
    with path.open("rb") as file:
        catalogue = read_po(file, locale=path.stem, domain=DOMAIN)
    created = catalogue.creation_date
    catalogue.update(extract(), no_fuzzy_matching=True)
    catalogue.creation_date = created
    catalogue.obsolete.clear()
    return catalogue


def as_json(catalogue: Catalog) -> str:
    """What JupyterLab reads: the translations of each text, two if it has a plural."""
    data: dict[str, object] = {
        "": {
            "domain": DOMAIN,
            "language": str(catalogue.locale).replace("_", "-"),
            "plural_forms": catalogue.plural_forms,
            "version": json.loads((ROOT / "package.json").read_text())["version"],
        }
    }
    for message in catalogue:
        translations = list(message.string) if message.pluralizable else [message.string]
        if message.id and all(translations):
            data[message.id if isinstance(message.id, str) else message.id[0]] = translations
    return json.dumps(data, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def target(path: Path) -> Path:
    """Where JupyterLab looks for a language in a Python package."""
    return ROOT / "jupyter_gpudask" / "locale" / path.stem / "LC_MESSAGES" / f"{DOMAIN}.json"


def files() -> Iterator[tuple[Path, str]]:
    """The files of each language, and what is to be in them; texts that are not translated are printed."""
    for path in sorted(CATALOGUES.glob("*.po")):
        catalogue = updated(path)
        written = BytesIO()
        write_po(written, catalogue, width=120, sort_output=True, include_lineno=False)
        yield path, re.sub(r'"Generated-By:.*\n', "", written.getvalue().decode())
        yield target(path), as_json(catalogue)
        for message in catalogue:
            if message.id and not (all(message.string) if message.pluralizable else message.string):
                print(f"{path.stem}: {message.id!r} is not translated")
