"""What a worker imports after its start."""

import pytest

IMPORTING = """
import sys, types
from jupyter_gpudask.worker.imports import CudfPlugin, PathPlugin, import_cudf
sys.path.insert(0, OWN)
path, plugin = PathPlugin([OF_USER]), CudfPlugin()
worker = types.SimpleNamespace(plugins={each.name: each for each in (path, plugin)})
path.setup(worker)
plugin.setup(worker)
print([name for name in ("cudf", "dask_cudf") if name in sys.modules])
HOW
print([getattr(sys.modules.get(name), "order", None) for name in ("cudf", "dask_cudf")])
import of_user
print(sys.path[0] == OF_USER)
path.teardown(worker)
print(OF_USER in sys.path)
"""


@pytest.mark.parametrize("how", ["plugin.transition('x', 'released', 'waiting')", "import_cudf(worker)\n" * 2])
def test_cudf_is_imported_before_the_first_task_and_no_file_of_the_user_takes_its_place(run_python, tmp_path, how):
    own, of_user = tmp_path / "own", tmp_path / "of_user"
    own.mkdir()
    of_user.mkdir()
    (own / "cudf.py").write_text("import sys\nsys.count = order = getattr(sys, 'count', 0) + 1")
    (own / "dask_cudf.py").write_text("import sys\nsys.count = order = sys.count + 1")
    for name in ("cudf", "dask_cudf", "of_user"):
        (of_user / f"{name}.py").write_text("")
    code = f"OWN, OF_USER = {str(own)!r}, {str(of_user)!r}\n" + IMPORTING.replace("HOW", how)
    assert run_python(code).splitlines() == ["[]", "[1, 2]", "True", "False"]


def test_a_library_that_cannot_be_imported_does_not_end_the_worker(run_python, tmp_path):
    (tmp_path / "cudf.py").write_text("raise RuntimeError('no driver')")
    code = f"OWN, OF_USER = {str(tmp_path)!r}, ''\n" + IMPORTING.replace("HOW", "import_cudf(worker)")
    assert run_python(code.partition("import of_user")[0]).splitlines() == ["[]", "[None, None]"]
