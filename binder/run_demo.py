"""Run quickstart.ipynb in a fresh kernel of this interpreter, and print what ran where."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from ipykernel.kernelspec import write_kernel_spec
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

NOTEBOOK = Path(__file__).with_name("quickstart.ipynb")


def run(notebook: nbformat.NotebookNode) -> None:
    """Execute all cells; their outputs are in `notebook` afterwards.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell failed; the text has its source and its traceback.
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


def text_of(notebook: nbformat.NotebookNode, tag: str) -> str:
    """What the cell with `tag` shows, as text."""
    cell = next(cell for cell in notebook.cells if tag in cell.metadata.get("tags", ()))
    return "\n".join(
        output.text.rstrip() if output.output_type == "stream" else output.data["text/plain"] for output in cell.outputs
    )


def main() -> int:
    """Run the demo; the exit status."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    try:
        run(notebook)
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    print(text_of(notebook, "runs-on"))
    print(text_of(notebook, "what-ran-where"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
