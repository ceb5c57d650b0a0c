"""Run quickstart.ipynb in a fresh kernel of this interpreter; print what its `%%gpudask` cells gave, and where."""

from __future__ import annotations

import os
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from ipykernel.kernelspec import write_kernel_spec
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTEBOOK = Path(__file__).with_name("quickstart.ipynb")


def run(notebook: nbformat.NotebookNode) -> None:
    """Execute all cells; their outputs are in `notebook` afterwards.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell failed that is not marked with ``raises-exception``; the text has its source and its traceback.
    """
    with tempfile.TemporaryDirectory() as folder:
        # The first place that is searched: a kernel "python3" that the user has installed may be another interpreter.
        os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("JUPYTER_PATH")]))
        write_kernel_spec(Path(folder) / "kernels" / "python3")
        client = NotebookClient(
            notebook,
            kernel_name="python3",
            timeout=300,
            # Every kernel that talks over TCP warns that it does; here it only hides the result.
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": str(NOTEBOOK.parent)}},
        )
        client.execute()


def what_ran_where(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    """The last line of each `%%gpudask` cell, with its value and what is displayed below it."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.startswith("%%gpudask"):
            texts = [output.data["text/plain"] for output in cell.outputs if output.get("data")]
            if texts:  # a cell with an error has none
                yield cell.source.splitlines()[-1], "\n".join(texts)


def main() -> int:
    """Run the demo; the exit status."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    began = time.monotonic()
    try:
        run(notebook)
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    ran = list(what_ran_where(notebook))
    for line, text in ran:
        print(f"{line}\n{textwrap.indent(text, '    ')}")
    print(f"{len(ran)} cells in {time.monotonic() - began:.0f} s, with the start of the cluster. Next: make lab")
    return 0


if __name__ == "__main__":
    sys.exit(main())
