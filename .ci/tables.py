"""Tables of the documentation that are made from docstrings and from the texts of rules. `make fix` writes them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FRAMES = ROOT / "jupyter_gpudask" / "patches" / "frames"
RULES = {
    "Operations": ["differences.py", "fewer_partitions.py", "methods.py", "missing_values.py", "query.py"],
    "Texts": ["texts.py"],
    "Reading files": ["files/readers.py", "files/gpu_readers.py"],
    "Writing files": ["files/writers.py"],
}
"""The modules with reasons why operations of dataframes run on the CPU."""


def differences() -> str:
    """The reasons of `RULES`, as a cell and `%gpudask fallbacks` show them; values stand in ``<...>``."""
    rows = []
    for kind, names in RULES.items():
        found = {reason for name in names for reason in _reasons(ast.parse((FRAMES / name).read_text()))}
        rows.append(f"| {kind} | {'<br>'.join(f'`{reason}`' for reason in sorted(found))} |")
    return "\n".join(["| | Reasons |", "| --- | --- |", *rows])


def _reasons(tree: ast.AST) -> set[str]:
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    texts = {_text(node) for node in ast.walk(tree) if id(node) not in within}
    return {text for text in texts if re.match(r"(cuDF|dask_cudf)('s)? ", text) and not text.endswith(".")}


def _text(node: ast.AST) -> str:
    """A text of the code; empty if it is none."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.FormattedValue):
        return f"<{re.findall(r'[a-z]+', ast.unparse(node.value))[-1]}>"
    return "".join(map(_text, node.values)) if isinstance(node, ast.JoinedStr) else ""


def programs(folder: str) -> str:
    """The scripts of a folder, with the first sentence of each."""
    rows = []
    for path in sorted((ROOT / folder).glob("*.py")):
        code = path.read_text()
        sentence = (ast.get_docstring(ast.parse(code)) or "").partition("\n")[0].replace("``", "`")
        if 'if __name__ == "__main__"' in code:
            rows.append(f"| `{folder}/{path.name}` | {sentence} |")
    return "\n".join(["| Program | What it does |", "| --- | --- |", *rows])


def simulated_gpus() -> str:
    """The variables of simulated GPUs, from the docstring of their module."""
    text = ast.get_docstring(ast.parse((ROOT / "tests" / "fake_gpus" / "sitecustomize.py").read_text())) or ""
    found = re.findall(r"^- ``(\w+)`` \((.*?)\): (.*(?:\n  .*)*)", text, re.MULTILINE)
    rows = [f"| `{name}` | {' '.join(meaning.split())} | {default} |" for name, default, meaning in found]
    return "\n".join(["| Variable | Meaning | Default |", "| --- | --- | --- |", *rows])
