"""The lines of the design that imports must not cross."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import jupyter_gpudask

ROOT = Path(jupyter_gpudask.__file__).parent

# Who may import whom. Everybody may import COMMON.
COMMON = {"errors", "device_errors", "quantities", "installation"}
ALLOWED = {
    "installation": set(),
    "device_errors": set(),
    "quantities": set(),
    "errors": set(),
    # In every process.
    "protocol": set(),
    "machine": {"protocol"},
    # In the supervisor, its scheduler and its workers.
    "worker": {"comm", "fallback", "graph", "inspection", "patches", "machine", "protocol"},
    "scheduler": {"graph", "worker", "protocol"},
    "comm": {"machine"},
    "supervisor": {"comm", "scheduler", "worker", "patches", "machine", "protocol", "_version"},
    # In whoever starts a supervisor.
    "launcher": {"machine", "protocol"},
    # In the kernel. What it sends to the scheduler and to workers it imports to name it.
    "graph": set(),
    "fallback": {"graph", "inspection"},
    "client": {"graph", "fallback", "patches", "overlay", "scheduler", "worker", "inspection", "protocol"},
    "inspection": set(),
    "random_numbers": {"inspection"},
    "overlay": {"inspection"},
    "patches": {"fallback", "random_numbers", "inspection", "overlay"},
    "gpu_libraries": {"comm", "worker"},
    "polars": {"client", "fallback", "inspection", "overlay", "patches", "scheduler", "worker"},
    "switch": {"patches", "polars", "inspection", "overlay", "machine"},
    # Where cells with --profile are measured: in workers, in the scheduler and in the kernel.
    "profiling": {"graph", "fallback", "worker", "inspection"},
    "session": {"polars", "launcher", "client", "switch", "overlay", "inspection", "machine", "protocol"},
    "magics": {
        "polars",
        "session",
        "fallback",
        "client",
        "profiling",
        "patches",
        "gpu_libraries",
        "switch",
        "overlay",
        "inspection",
        "machine",
        "protocol",
    },
    # In the Jupyter server.
    "server": {"launcher", "machine", "protocol", "_version"},
    "__main__": {"session", "worker", "protocol"},
    "__init__": {"magics", "session", "server", "_version"},
}

# Libraries, and the only places that may name them.
ONLY = {
    "dask_gateway": ["client/connect.py", "session/joined_target.py"],
    "dask_cuda": ["supervisor/engines.py", "worker/command.py"],
    "cupy": [
        "comm/device_memory.py",
        "gpu_libraries.py",
        "patches/",
        "random_numbers/",
        "inspection/",
        "fallback/",
        "worker/first_kernels.py",
    ],
    "cudf": ["patches/", "random_numbers/", "inspection/", "fallback/", "worker/preload.py", "worker/first_kernels.py"],
    "rmm": ["worker/memory.py", "worker/polars_rank.py"],
    "polars": ["polars/"],
    "pynvml": ["machine/gpus.py", "machine/nvml.py"],
    "IPython": ["magics/", "errors.py", "__init__.py"],
}

# The server and the kernel load these at once; they must stay light.
LIGHT = [
    "__init__.py",
    "errors.py",
    "installation.py",
    "quantities.py",
    "magics/__init__.py",
    "magics/magics.py",
    "session/session.py",
]
HEAVY = {"dask", "distributed", "dask_cuda", "cupy", "cudf", "rmm", "pandas", "numpy", "pydantic", "psutil"}


def files():
    return [path for path in ROOT.rglob("*.py") if path.name != "_version.py"]


def imports(path, *, at_import_only=False):
    """Full names of what a file imports; relative ones start with a dot."""
    tree = ast.parse(path.read_text())
    skipped = set()
    for node in ast.walk(tree):
        is_type_checking = isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if at_import_only and (is_type_checking or is_function):
            skipped |= set(ast.walk(node))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = path.relative_to(ROOT).parent.parts
            if not node.level:
                yield node.module
                continue
            base = package[: len(package) - node.level + 1]
            module = [*base, node.module] if node.module else base
            yield from (".".join(["", *module, *name]) for name in ([], *([alias.name] for alias in node.names)))


def test_imports_run_one_way():
    against = set()
    for place, name in ((path.relative_to(ROOT), name) for path in files() for name in imports(path)):
        part = place.parts[0].removesuffix(".py")
        if name.startswith(".") and name.split(".")[1] not in ALLOWED[part] | COMMON | {part}:
            against.add(f"{place} imports {name}")
    assert sorted(against) == []


def test_no_files_import_each_other_not_even_for_types():
    modules = {".".join(["", *path.relative_to(ROOT).with_suffix("").parts]): path for path in files()}
    sorter = TopologicalSorter({name: modules.keys() & set(imports(path)) for name, path in modules.items()})
    sorter.prepare()  # raises CycleError with the files of a cycle


def test_gpu_libraries_are_named_where_they_belong():
    elsewhere = set()
    for place, name in ((str(path.relative_to(ROOT)), name) for path in files() for name in imports(path)):
        library = name.split(".")[0]
        if library in ONLY and not place.startswith(tuple(ONLY[library])):
            elsewhere.add(f"{place} imports {library}")
    assert sorted(elsewhere) == []


def test_what_is_loaded_at_once_is_light():
    loaded = [(place, name) for place in LIGHT for name in imports(ROOT / place, at_import_only=True)]
    assert [f"{place} imports {name}" for place, name in loaded if name.split(".")[0] in HEAVY] == []


LOADED = {
    "the extension": (
        """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic('load_ext', 'jupyter_gpudask')
assert shell.find_line_magic('gpudask') and shell.find_cell_magic('gpudask')
""",
        "jupyter_gpudask",
        HEAVY - {"psutil"},  # IPython's own
    ),
    "the server": (
        "import jupyter_gpudask\njupyter_gpudask._jupyter_server_extension_points()",
        "jupyter_server",
        HEAVY - {"psutil", "pydantic"},
    ),
    "a worker": (
        "import jupyter_gpudask.comm.unix, jupyter_gpudask.worker.plugins, jupyter_gpudask.worker.preload",
        "distributed",
        {"pydantic"},  # which takes each worker a quarter of a second
    ),
    "a worker that imports CuPy": (
        """
from jupyter_gpudask.patches.patch import resolve
from jupyter_gpudask.patches.table import PATCHES
wrappers = [resolve(change.wrapper) for row in PATCHES if row.module == "cupy" for change in row.changes]
assert wrappers
""",
        "numpy",
        {"dask.array"},  # whose import can be what imports CuPy
    ),
}


@pytest.mark.parametrize("what", LOADED)
def test_what_a_process_does_not_need_is_not_imported(run_python, what):
    script, needed, avoided = LOADED[what]
    loaded = run_python(f"{script}\nimport sys\nprint(*sys.modules)").split()
    assert needed in loaded
    assert avoided & {*loaded} == set()
