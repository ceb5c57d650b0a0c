"""Run quickstart.ipynb in a fresh kernel of this interpreter, and print what its `%%gpudask` cells say they ran on."""

from __future__ import annotations

import os
import sys
import tempfile
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
    """The id of each `%%gpudask` cell, with each text that is displayed below it."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.startswith("%%gpudask"):
            for output in cell.outputs:
                if output.output_type == "display_data" and output.data:  # none where a line was replaced
                    yield cell.id, output.data["text/plain"]


def main() -> int:
    """Run the demo; the exit status."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    try:
        run(notebook)
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    for name, text in what_ran_where(notebook):
        for line in text.splitlines():
            print(f"{name:12} {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
