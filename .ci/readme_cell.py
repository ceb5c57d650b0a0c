"""Runs the cell that README.md shows, in a notebook on a real kernel, and records what it displays.

    python .ci/readme_cell.py --out benchmarks/results/NAME-readme-cell.json

The cell runs twice, because the first run imports and compiles; the output of the second is recorded and printed. With
``--small`` the array is 100 times smaller, for a machine without a GPU.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from harness import header, publish

README = Path(__file__).parents[1] / "README.md"


def cell_of_readme() -> str:
    """The first ``%%gpudask`` cell of README.md."""
    match = re.search(r"^```python\n(%%gpudask\n.*?)^```", README.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1].rstrip("\n")


def output_of(cell: nbformat.NotebookNode) -> str:
    """What a cell displayed, as plain text."""
    texts = [
        output.text if output.output_type == "stream" else output.data.get("text/plain", "") for output in cell.outputs
    ]
    return "\n".join(text.rstrip("\n") for text in texts)


def run(source: str) -> str:
    """The output of the second run of `source`."""
    sources = ["%load_ext jupyter_gpudask", "%gpudask start", source, source, "%gpudask stop"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in sources])
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    return output_of(notebook.cells[3])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--small", action="store_true", help="an array of 10,000 by 10,000")
    arguments = parser.parse_args()
    source = cell_of_readme()
    if arguments.small:
        source = source.replace("(100_000, 100_000)", "(10_000, 10_000)").replace(
            "(10_000, 10_000))", "(1_000, 1_000))"
        )
    output = run(source)
    publish({**header(), "cell": source, "output": output}, arguments.out)
