"""The quickstart, run on a kernel of a server with the extension."""

from pathlib import Path

import nbformat
import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NOTEBOOK = Path(__file__).parents[2] / "binder" / "quickstart.ipynb"


def test_the_quickstart_runs_unchanged_and_the_server_holds_its_cluster(server, gone):
    kernel = server.kernel("quickstart.ipynb")
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells[:-1]:
        if cell.cell_type == "code":
            run = kernel.run if "raises-exception" in cell.metadata.get("tags", ()) else kernel.ok
            run(cell.source, timeout=100)
    supervisors = server.supervisors()
    assert [server.cluster(kernel)["pid"]] == supervisors or supervisors == []
    server.fetch(f"kernels/{kernel.id}", "DELETE", prefix="api/")
    gone(*supervisors)
