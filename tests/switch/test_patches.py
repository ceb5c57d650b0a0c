"""The table of patches: each fits the installed Dask, all can be undone, and nothing else changes other libraries."""

import ast
import inspect
import os
import re
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from dask._expr import Expr
from device import FAKE_CUPY

import jupyter_gpudask
from jupyter_gpudask.errors import PatchError
from jupyter_gpudask.patches import computation, mixed_operands
from jupyter_gpudask.patches.apply import missing_names
from jupyter_gpudask.patches.arrays import operand_placement
from jupyter_gpudask.patches.frames import differences
from jupyter_gpudask.patches.parameters import PARAMETERS
from jupyter_gpudask.patches.patch import Change, Patch, parameters_of, resolve
from jupyter_gpudask.patches.table import PATCHES

ROOT = Path(jupyter_gpudask.__file__).parent
TESTS = Path(__file__).parents[1]

# They make the changes of rows: by the table, and with functions that the table names.
# Those of `worker.host_threads` are states of Dask's threads, which its own functions change, too.
DOORS = {"patches/apply.py", "patches/interception.py", "worker/host_threads.py"} | {
    f"{change.wrapper.partition(':')[0].removeprefix('jupyter_gpudask.').replace('.', '/')}.py"
    for row in PATCHES
    for change in row.changes
    if change.how == "call"
}


def test_no_function_is_changed_twice_so_that_the_order_of_rows_means_nothing():
    assert len({row.name for row in PATCHES}) == len(PATCHES)
    rows = [row for row in PATCHES if is_installed(row)]
    changed = [resolve(change.target) for row in rows for change in row.changes if change.how != "call"]
    assert len({*map(id, changed)}) == len(changed)


def is_installed(row):
    return not row.module or find_spec(row.module.partition(".")[0]) is not None


@pytest.mark.parametrize("row", PATCHES, ids=lambda row: row.name)
def test_a_row_names_a_test_fits_the_installed_libraries_and_lists_the_parameters_of_each_function(row):
    path, _, name = row.test.partition("::")
    assert f"\ndef {name}(" in (TESTS / path).read_text()
    if not is_installed(row):
        pytest.skip(f"needs {row.module}")
    row.check(PARAMETERS)
    for change in row.changes if row.module != "cupy" else ():  # which is compiled
        listed = PARAMETERS.get(change.target, "").split(" | ")
        assert parameters_of(inspect.unwrap(resolve(change.target))) in listed


def test_parameters_are_listed_of_what_is_changed_and_of_nothing_else():
    assert PARAMETERS.keys() <= {change.target for row in PATCHES for change in row.changes}


def row_of(target, **versions):
    return Patch("a row", [Change(target, "builtins:print")], "It is wrong.", (), "", requires=versions)


@pytest.mark.parametrize(
    ("row", "parameters", "reason"),
    [
        (row_of("dask.array:eye", dask=">=9999"), {}, "it was written for dask>=9999"),
        (row_of("dask.array:eyes", dask=">1"), {}, "dask.array.eyes does not exist"),
        (row_of("dask.arrays:eye", dask=">1"), {}, "dask.arrays.eye does not exist"),
        (
            row_of("dask.array:eye", dask=">1"),
            {"dask.array:eye": "N M"},
            "dask.array.eye has other parameters (N, chunks, M, k, dtype)",
        ),
    ],
)
def test_a_row_that_does_not_fit_says_so_with_its_name(row, parameters, reason):
    with pytest.raises(PatchError) as refusal:
        row.check(parameters)
    assert refusal.value.reason.startswith("The patch 'a row' does not fit dask 2")
    assert refusal.value.reason.endswith(f": {reason}.")
    assert refusal.value.fix.startswith('Type: %pip install "dask>')


def test_the_private_names_of_dask_exist():
    assert missing_names(import_all=True) == []


def test_names_of_dask_that_rules_have_as_text_exist():
    import_module("dask.dataframe.tseries.resample")  # which Dask imports when it is used
    classes = {each.__name__ for each in subclasses(Expr)}
    assert classes >= {*mixed_operands._MAY_MIX, *differences._OF_EXPRESSIONS}
    assert classes >= differences._WITH_ALL_COLUMNS | differences._OF_ALL_DTYPES
    sources = (path.read_text() for path in Path(dask.__file__).parent.rglob("*.py") if "tests" not in path.parts)
    functions = {name for source in sources for name in re.findall(r"^ *def (\w+)\(", source, re.MULTILINE)}
    assert {*names_compared_as_text()} <= classes | functions | {*dir(pd), *dir(dd)}
    assert functions >= {*computation._RETURN_RESULTS, *mixed_operands._INDEXING} - {"getitem"}  # of Python
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # of scikit-image, about its plugins
        for name in (*operand_placement._ON_HOST_ONLY, *(each.rstrip(".") for each in operand_placement._READERS)):
            assert import_module(name)


def names_compared_as_text():
    for path in (*ROOT.glob("patches/**/*.py"), *ROOT.glob("fallback/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and any(
                getattr(part, "attr", "") == "__name__" for part in ast.walk(node.left)
            ):
                others = [part for each in node.comparators for part in ast.walk(each)]
                yield from (each.value for each in others if isinstance(each, ast.Constant))


def subclasses(kind):
    return {each for child in kind.__subclasses__() for each in (child, *subclasses(child))}


def test_a_row_is_skipped_where_the_fault_is_mended():
    mended = Patch("a row", [], "", (), "", requires={}, needed={"dask": "<1"})
    assert mended.why_skipped().startswith("dask 2")
    assert Patch("a row", [], "", (), "", requires={}, needed={"dask": ">1"}).why_skipped() == ""


UNDO = """
from jupyter_gpudask.patches.apply import patches
from jupyter_gpudask.patches.patch import owner_of
from jupyter_gpudask.patches.table import PATCHES

def state():
    found = {}
    for row in PATCHES:
        if row.process == "kernel":
            for change in () if row.waits or row.why_skipped() else row.changes:
                owner, name = owner_of(change.target)
                held = vars(owner).get(name)
                found[change.target] = held, getattr(held, "__code__", None), dict(getattr(held, "__dict__", {}))
    config = [type(dask.config.config.get(section)) for section in ("array", "dataframe")]
    frames = [sorted(dispatch._lookup) for dispatch in cudf_backend._DISPATCHES]
    return found, config, array_creation_dispatch.dispatch("cupy"), frames

import dask.config
from dask.array.backends import array_creation_dispatch
from jupyter_gpudask.patches.frames import cudf_backend
before = state()
patches.apply("kernel")
def is_as_before(target):
    return all(now is then for now, then in zip(state()[0][target][:2], before[0][target][:2]))

unchanged = list(filter(is_as_before, before[0]))
patches.undo()
after = state()
for target, (held, code, attributes) in before[0].items():
    assert after[0][target][0] is held, target
    assert after[0][target][1] is code, target
    if not isinstance(held, dict):
        assert after[0][target][2] == attributes, target
assert after[1:] == before[1:]
patches.apply("kernel")
assert list(filter(is_as_before, before[0])) == unchanged
print(sorted(unchanged), len(before[0]))
"""


def test_after_undo_every_target_is_the_object_with_the_code_that_it_was(run_python):
    printed = run_python(UNDO)
    # What these rows change is the configuration and the registries of backends.
    assert printed.startswith(
        "['dask.array.backends:array_creation_dispatch.register_backend', 'dask.config:update', "
        "'dask.dataframe.backends:dataframe_creation_dispatch.register_backend']"
    )


AFTER_IMPORT = """
import sys, warnings
from jupyter_gpudask.patches.apply import Patches
from jupyter_gpudask.patches.patch import Change, Patch

def row(name, **of_wrapper):
    target = of_wrapper.pop("target", "function")
    change = Change(f"{name}:{target}", "wrappers:doubled", how="code")
    return Patch(f"of {name}", [change], "It is wrong.", (), "", module=name, **of_wrapper)

rows = [row("imported"), row("later"), row("never"), row("other", target="none")]
import imported
patches = Patches(rows)
patches.apply("kernel")
print(patches.applied, imported.function(1), [name for name, *_ in patches.examine("kernel")])
from later import function
import wrappers
print(patches.applied, function(1))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import other
print([str(each.message)[:25] for each in caught], other.function(1))
finders = len(sys.meta_path)
patches.undo()
print(patches.applied, function(1), finders - len(sys.meta_path))
import never
print(never.function(1))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    patches.apply("kernel")
print(function(1), never.function(1))
"""


def test_the_row_of_a_library_is_applied_when_it_has_been_imported(run_python, tmp_path, monkeypatch):
    for name in ("imported", "later", "never", "other"):
        (tmp_path / f"{name}.py").write_text("def function(number):\n    return number + 1\n")
    (tmp_path / "wrappers.py").write_text("def doubled(original, /, number):\n    return 2 * original(number)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert run_python(AFTER_IMPORT).splitlines() == [
        "('of imported',) 4 ['of imported']",
        "('of imported', 'of later') 4",
        "[\"The patch 'of other' does\"] 2",
        "() 2 1",
        "2",
        "4 4",
    ]


DRILL = """
import dask.array as da
linspace = da.linspace
da.linspace = lambda start, stop, steps: linspace(start, stop, steps)
from jupyter_gpudask.errors import PatchError
from jupyter_gpudask.patches.apply import patches
from jupyter_gpudask.switch.context import check_backends, switched_to
import jupyter_gpudask.switch.context as context
context.check_backends = lambda *names: None
for _ in range(2):
    try:
        with switched_to("cupy", "cudf"):
            raise SystemExit("The cell ran.")
    except PatchError as error:
        print(error.reason)
    assert not patches.applied
with switched_to("numpy", "pandas"):
    assert float(da.linspace(0, 1, 5).sum().compute(scheduler="sync")) == 2.5
assert patches.applied == (
    "configuration per cell",
    "context of threads",
    "storing of arrays",
)
"""


def test_with_another_dask_a_gpu_cell_names_the_patch_and_cells_for_the_cpu_go_on(run_python):
    lines = run_python(DRILL).splitlines()
    assert lines[0].startswith("The patch 'creation functions' does not fit dask 2")
    assert lines[0].endswith(": dask.array.linspace has other parameters (start, stop, steps).")
    assert lines == [lines[0]] * 2


NEWER = """
import dataclasses
import warnings
import dask.array as da
import dask.array.reductions
from jupyter_gpudask.patches import apply, table
from jupyter_gpudask.switch import context

del da.coarsen, dask.array.reductions._nanargmin
of_old = {"dask": ">=2020,<2021"}
rows = [dataclasses.replace(row, requires=of_old if row.requires else {}) for row in table.PATCHES]
context.patches = apply.Patches(rows)
context.check_backends = lambda *names: None
with warnings.catch_warnings(record=True) as caught:
    for _ in range(2):
        with context.switched_to("cupy", "pandas"):
            array = da.ones(3) + 1
print(type(array._meta).__module__.partition(".")[0])
print(sorted({row.name for row in rows if row.process == "kernel" and not row.waits} - {*context.patches.applied}))
print(*(each.message for each in caught if "Dask" in str(each.message)), sep=chr(10))
print({name: str(misfit) for name, _, misfit in context.patches.examine("kernel") if misfit}.keys())
"""


def test_a_newer_dask_is_one_warning_and_what_does_not_fit_is_off(run_python):
    path = os.pathsep.join([str(FAKE_CUPY), os.environ.get("PYTHONPATH", "")])
    lines = run_python(NEWER, {**os.environ, "PYTHONPATH": path}).splitlines()
    assert lines[:2] == ["cupy", "['metadata', 'numeric functions of CuPy']"]
    (warning,) = lines[2:-1]
    assert warning.startswith(f"dask {dask.__version__} is newer than the tested versions. The patch 'metadata' does ")
    assert ": dask.array.coarsen does not exist. The patch 'numeric functions of CuPy' does not fit dask " in warning
    assert "Dask has no longer: dask.array.reductions._nanargmin." in warning
    assert warning.endswith('To be safe, type: %pip install "dask>=2020,<2021" and restart the kernel.')
    assert lines[-1] == "dict_keys(['metadata', 'numeric functions of CuPy'])"


RAPIDS = """
import warnings
from jupyter_gpudask.switch import context
context.check_backends = lambda *names: None
with warnings.catch_warnings(record=True) as caught:
    for names in (("numpy", "pandas"), ("cupy", "pandas"), ("cupy", "pandas")):
        with context.switched_to(*names):
            print(len(caught))
print(*(each.message for each in caught))
"""


@pytest.mark.parametrize(("version", "is_newer"), [("26.10.3", False), ("26.12.0", True)])
def test_a_newer_rapids_is_one_warning_in_the_first_cell_for_gpus(run_python, tmp_path, version, is_newer):
    folder = tmp_path / f"dask_cuda-{version}.dist-info"  # the first on the path is the one that counts
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: dask-cuda\nVersion: {version}\n")
    path = os.pathsep.join([str(tmp_path), str(FAKE_CUPY), os.environ.get("PYTHONPATH", "")])
    *counts, warning = run_python(RAPIDS, {**os.environ, "PYTHONPATH": path}).split("\n")[:4]
    assert counts == ["0", str(int(is_newer)), str(int(is_newer))]
    assert warning.startswith("RAPIDS 26.12.0 is newer than the tested versions. ") == is_newer
    assert not is_newer or '%pip install "dask-cuda>=26.10,<26.11"' in warning


STATE_OF_THE_PROCESS = ("os.environ", "sys.path", "sys.argv", "sys.modules['__main__']", "linecache.cache")


def foreign_names(tree):
    """What a module imports from other libraries, by the names that it has for them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (alias.asname or alias.name for alias in node.names)


def assignments(tree):
    """The targets of all assignments and deletions, those by `setattr` and `delattr` too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.Delete):
            yield from node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            yield node.target
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr"):
            yield ast.Attribute(node.args[0], "...")


def foreign_assignments(path):
    """Where a file assigns to an attribute of what it imports from another library, or exchanges code."""
    tree = ast.parse(path.read_text())
    foreign = set(foreign_names(tree))
    for target in assignments(tree):
        root = target
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        is_code = isinstance(target, ast.Attribute) and target.attr == "__code__"
        text = ast.unparse(target)
        is_foreign = root is not target and getattr(root, "id", "") in foreign
        if is_code or (is_foreign and not text.startswith(STATE_OF_THE_PROCESS)):
            yield text


def test_no_other_file_changes_another_library():
    files = {str(path.relative_to(ROOT)): path for path in ROOT.rglob("*.py")}
    changing = {place: text for place, path in files.items() for text in foreign_assignments(path)}
    hooks = {"sys.unraisablehook"}  # which Python has for this
    assert {place: text for place, text in changing.items() if place not in DOORS and text not in hooks} == {}


def test_the_doors_are_seen_by_that_test():
    for door in ("patches/interception.py", "overlay.py"):
        assert list(foreign_assignments(ROOT / door))


def test_the_patches_of_dataframes_do_not_depend_on_cudf():
    """The kernel plans with pandas and needs no cuDF; only workers import it."""
    assert not [row.name for row in PATCHES if {"cudf", "dask_cudf"} & {*row.requires, *row.needed}]
