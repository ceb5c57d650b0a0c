"""jupyter_gpudask/patches/private_names.py: the private names of Dask that the package uses. `make fix` writes it."""

from __future__ import annotations

import ast
import textwrap
from collections import defaultdict
from importlib import import_module
from pathlib import Path

LIBRARIES = ("dask", "distributed")
WIDTH = 120
ROOT = Path(__file__).parents[1] / "jupyter_gpudask"


def is_private(path: str) -> bool:
    """Whether a name of a dotted path begins with an underscore."""
    return any(part.startswith("_") and not part.startswith("__") for part in path.split("."))


def imported(tree: ast.AST) -> dict[str, str]:
    """The dotted path of each name that a file imports from the libraries."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.asname or each.name.split(".")[0]: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return {name: path for name, path in found.items() if path.split(".")[0] in LIBRARIES}


def used(tree: ast.AST) -> set[str]:
    """The private names that a file imports, or looks up in what it imports."""
    names = imported(tree)
    found = {path for path in names.values() if is_private(path)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, _, attributes = ast.unparse(node).partition(".")
            path = f"{names.get(root, '')}.{attributes}"
            if root in names and is_private(path) and attributes.replace(".", "").isidentifier() and "__" not in path:
                found.add(path)
    return found


def in_module(path: str) -> tuple[str, str]:
    """The module of a dotted path, and the path in it; empty for a module."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            import_module(".".join(parts[:end]))
        except ImportError:
            continue
        return ".".join(parts[:end]), ".".join(parts[end:])
    raise ModuleNotFoundError(path)


def entry(module: str, names: list[str]) -> list[str]:
    """The lines of a module, as `ruff format` writes them."""
    if len(line := f'    "{module}": "{" ".join(names)}",') <= WIDTH:
        return [line]
    lines = textwrap.wrap(" ".join(names), WIDTH - 11)
    spaced = [*(f"{line} " for line in lines[:-1]), lines[-1]]
    return [f'    "{module}": (', *(f'        "{line}"' for line in spaced), "    ),"]


def page() -> str:
    """The text of the file."""
    paths = set().union(*(used(ast.parse(file.read_text())) for file in ROOT.rglob("*.py")))
    modules = defaultdict(set)
    for module, name in map(in_module, paths):
        modules[module].add(name)
    lines = [
        '"""The private names of Dask that this package uses, by module; `make fix` writes this file."""',
        "",
        "PRIVATE_NAMES = {",
        *(line for module in sorted(modules) for line in entry(module, sorted(modules[module] - {""}))),
        "}",
        "",
    ]
    return "\n".join(lines)
