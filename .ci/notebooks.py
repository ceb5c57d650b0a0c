"""Executes the notebooks in binder/ and saves them with their outputs, as the website of the documentation shows them.

    python .ci/notebooks.py --to docs/notebooks --out benchmarks/results/NAME-notebooks.json [--only arrays,...]

A notebook with a cell that fails, and is not marked to fail, is not saved. One that lacks a package is saved as far as
it ran. The second cell of a saved notebook says where it ran. The file of ``--out`` has the same in JSON, and is
written after each notebook; a second run on the same machine and day adds to it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
from harness import header

BINDER = Path(__file__).parents[1] / "binder"
LIMIT = 2**20  # bytes of a saved notebook
SECONDS = 300  # for one cell
MISSING = re.compile("No module named|cannot open shared object file")
SHOWN = {"dask": "Dask", "cupy-cuda13x": "CuPy", "cupy-cuda12x": "CuPy", "cudf-cu13": "cuDF", "cudf-cu12": "cuDF"}


def execute(path: Path, facts: dict[str, Any]) -> tuple[nbformat.NotebookNode, dict[str, Any]]:
    """The notebook with its outputs, and what is known of this run of it.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell failed, and not because a package is missing.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=SECONDS,
        record_timing=False,
        store_widget_state=False,
        extra_arguments=["--log-level=ERROR"],  # not the warning that a kernel talks over TCP
        resources={"metadata": {"path": str(path.parent)}},
    )
    missing = ""
    begin = time.monotonic()
    try:
        client.execute()
    except CellExecutionError as error:
        if not MISSING.search(error.evalue):
            raise
        missing = error.evalue
    run = {"seconds": round(time.monotonic() - begin, 1), "missing": missing}
    clean(notebook)
    notebook.cells.insert(1, note(path, facts, run))
    return notebook, run


def clean(notebook: nbformat.NotebookNode) -> None:
    """Remove what needs a kernel, and the error of a cell that lacks a package; links begin in a folder of docs/."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = cell.source.replace("](../docs/", "](../").replace("](index.ipynb)", "](../notebooks.md)")
            continue
        if any(output.output_type == "error" and MISSING.search(output.evalue) for output in cell.outputs):
            cell.outputs = []
        cell.outputs = [output for output in cell.outputs if output.get("data", True)]  # without replaced lines
        for output in cell.outputs:
            if "text" in output:  # a warning names the file that it comes from
                output.text = re.sub(r"\S+/site-packages/", "site-packages/", output.text)
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
    notebook.metadata.pop("widgets", None)


def note(path: Path, facts: dict[str, Any], run: dict[str, Any]) -> nbformat.NotebookNode:
    """The cell that says what the notebook ran on."""
    gpus = ", ".join(f"{count} × {name}" for name, count in Counter(facts["gpus"]).items())
    python = f"Python {facts['python']}"
    versions = [f"{SHOWN[name]} {version}" for name, version in facts["versions"].items() if name in SHOWN]
    text = (
        f"*`binder/{path.name}`, as it ran on {facts['date']} on {gpus or 'a machine without a GPU'} and "
        f"{facts['cores']} processor cores, in {run['seconds']:.0f} s with the start of the kernel and the cluster: "
        f"{', '.join([python, *versions])}.*"
    )
    if run["missing"]:
        text += f"\n\n*The cells without output were not run: {run['missing']}.*"
    return nbformat.v4.new_markdown_cell(text, id="where-it-ran")


def save(notebook: nbformat.NotebookNode, target: Path) -> None:
    """Write the notebook.

    Raises
    ------
    ValueError
        It is larger than `LIMIT`.
    """
    text = nbformat.writes(notebook)
    if len(text.encode()) > LIMIT:
        raise ValueError(f"{target.name} is larger than {LIMIT} bytes: make its figures smaller.")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n")


def continued(facts: dict[str, Any], out: Path | None) -> dict[str, Any]:
    """The facts with the notebooks that an earlier run has written to the file `out`.

    Raises
    ------
    ValueError
        That run was on another day, or with other GPUs or versions.
    """
    if out is None or not out.exists():
        return {**facts, "notebooks": {}, "failed": {}}
    earlier = json.loads(out.read_text())
    if different := [name for name in ("date", "gpus", "cores", "python", "versions") if earlier[name] != facts[name]]:
        raise ValueError(f"{out} is of a run with another {', '.join(different)}. Name another file.")
    return {**facts, "notebooks": earlier["notebooks"], "failed": earlier["failed"]}


def main() -> int:
    """Execute them all; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--out", type=Path, metavar="FILE")
    parser.add_argument("--only", default="", help="names of notebooks, separated by commas")
    options = parser.parse_args()
    names = [path.stem for path in sorted(BINDER.glob("*.ipynb")) if path.stem != "index"]
    wanted = [name for name in options.only.split(",") if name] or names
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"There is no notebook {', '.join(unknown)}. Choose from: {', '.join(names)}.")
    try:
        facts = continued(header(), options.out)
    except ValueError as error:
        parser.error(str(error))
    for name in wanted:
        facts["failed"].pop(name, None)
        try:
            notebook, run = execute(BINDER / f"{name}.ipynb", facts)
            save(notebook, options.to / f"{name}.ipynb")
            facts["notebooks"][name] = run
            print(f"{name}: {run['seconds']} s {run['missing']}", flush=True)
        except (CellExecutionError, CellTimeoutError, DeadKernelError, ValueError) as error:
            facts["failed"][name] = re.sub(r"\x1b\[[0-9;]*m", "", str(error))[-2000:]
            print(f"{name}: failed\n{error}", flush=True)
        if options.out:
            options.out.write_text(json.dumps(facts, indent=1) + "\n")
    return int(bool(facts["failed"]))


if __name__ == "__main__":
    sys.exit(main())
