"""Tables of the documentation that are made from docstrings and from the texts of rules. `make fix` writes them."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path

from jupyter_gpudask.errors import ProtocolError
from jupyter_gpudask.protocol.messages import PROTOCOL_VERSION, Closed, Progress, Ready, Refused
from jupyter_gpudask.protocol.verbs import parse_command

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
    reason = r"(cuDF|dask_cudf)('s)? .*[^.]|the engine is not .*"
    return {text for text in texts if re.fullmatch(reason, text)}


def _text(node: ast.AST) -> str:
    """A text of the code; empty if it is none."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.FormattedValue):
        return f"<{re.findall(r'[a-z]+', ast.unparse(node.value))[-1]}>"
    return "".join(map(_text, node.values)) if isinstance(node, ast.JoinedStr) else ""


def remaining_differences() -> str:
    """The statements of docs/differences.toml, whose proofs are run by tests/switch/test_differences.py."""
    rows = tomllib.loads((ROOT / "docs" / "differences.toml").read_text())["row"]
    lines = [f"| {row['what']} | {' '.join(part['text'] for part in row['part'])} |" for row in rows]
    return "\n".join(["| What | How it differs from the CPU |", "| --- | --- |", *lines])


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


def csv_keywords() -> str:
    """The keywords of ``read_csv`` that cuDF has, or that change nothing."""
    of_values: dict[str, bool] = {}  # whether only some values
    for node in ast.walk(ast.parse((FRAMES / "files" / "readers.py").read_text())):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) in ("_CHANGE_NOTHING", "_SAME_IN_CUDF"):
            assert isinstance(node.value, ast.Dict)
            for key, rule in zip(map(ast.literal_eval, filter(None, node.value.keys)), node.value.values, strict=True):
                of_values[key] = of_values.get(key, True) and not ast.unparse(rule).endswith(": True")
    lists = {some: ", ".join(f"`{name}`" for name in sorted(of_values) if of_values[name] == some) for some in (0, 1)}
    return f"{lists[0]}; and with some values, mostly the default ones, {lists[1]}."


def metrics(module: str) -> str:
    """The metrics for Prometheus of a module of the server."""
    kinds = {"CounterMetric": "_total", "GaugeMetricFamily": "", "Histogram": ""}
    rows = []
    for node in ast.walk(ast.parse((ROOT / "jupyter_gpudask" / "server" / module).read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in kinds:
            name, meaning, *rest = node.args
            given = ast.Tuple([*rest, *(each.value for each in node.keywords if each.arg == "labels")])
            labels = ["gpu", "uuid"] if "labels" in ast.unparse(given) else []
            labels += [each.value for each in ast.walk(given) if isinstance(each, ast.Constant)]
            full = ast.literal_eval(name) + kinds[ast.unparse(node.func)]
            rows.append(f"| `{full}` | {', '.join(f'`{label}`' for label in labels)} | {ast.literal_eval(meaning)} |")
    return "\n".join(["| Metric | Labels | Meaning |", "| --- | --- | --- |", *rows])


def protocol_example() -> str:
    """A short life of a supervisor: its commands, which begin with ``>``, and its events."""
    start = f'{{"type": "start", "id": 1, "protocol": {PROTOCOL_VERSION}, "spec": {{"engine": "cpu", "workers": 1}}}}'
    wrong, close = '{"type": "watch", "id": 3, "interval": -1}', '{"type": "close", "id": 4}'
    address = "unix:///tmp/jupyter-gpudask-k3x/sockets:46567"
    lines = []
    for line, answers in (
        (
            start,
            [
                Progress(engine="cpu", ready=1, total=1),
                Ready(engine="cpu", address=address, credentials=None, dashboard_port=None, workers=1, pid=662),
            ],
        ),
        (wrong, []),
        (close, [Closed()]),
    ):
        try:
            parse_command(line)
        except ProtocolError as error:
            answers = [Refused.from_error(error)]  # noqa: PLW2901
        lines += [f"> {line}", *(f"< {json.dumps(event.model_dump(mode='json'))}" for event in answers)]
    return "\n".join(["```", *lines, "```"])


def lines_of_cell(notebook: str, cell: str) -> str:
    """What this package showed for a cell of a saved notebook: the start of the cluster, and where the cell ran."""
    cells = {each["id"]: each for each in json.loads((ROOT / "docs" / "notebooks" / notebook).read_text())["cells"]}
    texts = ["".join(output.get("data", {}).get("text/plain", "")) for output in cells[cell]["outputs"]]
    return "\n".join(["```text", *(text for text in texts if re.match(r"Started: |CuPy and cuDF on ", text)), "```"])
