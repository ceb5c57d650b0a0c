"""Rewrite ``%%gpudask`` cells so that their body runs as an ordinary cell, and other cells after ``%gpudask on``.

A cell magic that ran its body itself would lose the value of the last expression, top-level ``await``, line numbers
and the error status. So an input transformer replaces the line ``%%gpudask ARGS`` with a call of a private line magic,
which enters a context until the cell ends; the other lines stay as they are.

After ``%gpudask on``, a transformer of syntax trees adds such a call to the cell. Unlike a line in front of the cell,
it changes neither line numbers nor the value of the last expression. A cell that runs before Dask is imported is
switched by its own imports; without Dask it stays an ordinary cell.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

from IPython.core.async_helpers import _should_be_async
from IPython.core.interactiveshell import InteractiveShell

from .settings import MagicsSettings

_CELL_MAGIC = "%%gpudask"
ENTER_MAGIC = "_gpudask_cell"
COMPARE_MAGIC = "_gpudask_compare"

AUTOMATIC_MAGIC = "_gpudask_on"
_RUNS_PYTHON = ("run",)  # %time, %timeit and %%time pass their code through this transformer themselves
_LIBRARIES = frozenset({"cudf", "cupy", "matplotlib", "numpy", "pandas"})
_REACH_ANYTHING = frozenset(
    {"__import__", "compile", "eval", "exec", "globals", "importlib", "locals", "runpy", "vars"}
)
_PLAIN = frozenset({bool, bytes, complex, float, int, range, slice, str, type(None)})
_DATA = frozenset({"cudf", "cupy", "datetime", "decimal", "matplotlib", "pandas", "pathlib", "re"})
"""Packages of classes whose objects hold data alone."""

_MOST_PARTS = 1000
_MAX_DEPTH = 3


class CellTransformer:
    """The input transformer for ``%%gpudask`` cells of a shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def transform(self, lines: list[str]) -> list[str]:
        """Replace the first line of a ``%%gpudask`` cell with a statement; other cells are not changed."""
        head, arguments = [*(lines[0] if lines else "").split(None, 1), "", ""][:2]
        body = "".join(lines[1:])
        if head != _CELL_MAGIC or not body.strip():
            return lines
        if "--compare" in arguments.split():
            # The body runs twice, so it becomes an argument; the blank line keeps the line numbers.
            source = "\n" + self._shell.transform_cell(body)
            wait = "await " if _should_be_async(source) else ""
            return [f"{wait}get_ipython().run_line_magic({COMPARE_MAGIC!r}, {arguments.strip() + source!r})\n"]
        call = f"get_ipython().run_line_magic({ENTER_MAGIC!r}, {arguments.strip()!r})\n"
        return [call, *self._shell.transform_cell(body).splitlines(keepends=True)]


def restore_source(namespace: dict[str, Any], arguments: str, body: str = "") -> tuple[str, str]:
    """Make tracebacks, the debugger and `inspect` show the ``%%gpudask`` line instead of the call that replaced it.

    The line is shown as a comment, because these tools must be able to parse the code.

    `body`: the part of the cell that has become an argument of the call. Returns the file name that IPython gave the
    running cell, and the code of the cell as the user wrote it.
    """
    frame = frame_of_cell(namespace)
    if frame is None:
        return "<cell>", f"\n{body}"
    file = frame.f_code.co_filename
    lines = linecache.getlines(file)  # IPython stores the code of each cell there
    if not lines:  # for example in a cell of `%%time`
        return file, f"\n{body}"
    lines[frame.f_lineno - 1 : frame.f_lineno] = [
        f"# {_CELL_MAGIC} {arguments}".rstrip() + "\n",
        *body.splitlines(keepends=True),
    ]
    source = "".join(lines)
    linecache.cache[file] = (len(source), None, lines, file)
    return file, source


def frame_of_cell(namespace: dict[str, Any]) -> FrameType | None:
    """The innermost stack frame of the running cell, whose global variables are `namespace`."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None and frame.f_globals is not namespace:
        frame = frame.f_back
    return frame


def is_value_dropped(namespace: dict[str, Any]) -> bool:
    """Whether IPython does not show the value of the running statement: it is not the last one of its cell."""
    frame = frame_of_cell(namespace)
    if frame is None:
        return False
    try:
        *others, _ = ast.parse("".join(linecache.getlines(frame.f_code.co_filename))).body
    except (SyntaxError, ValueError):  # code that IPython has not stored, or of an asynchronous cell
        return False
    return any(isinstance(each, ast.Expr) and each.lineno == frame.f_lineno for each in others)


class AutomaticCells(ast.NodeTransformer):
    """The transformer of the syntax trees of a shell."""

    def __init__(self, shell: InteractiveShell, settings: MagicsSettings) -> None:
        self._shell = shell
        self._settings = settings

    def visit(self, node: ast.AST) -> Any:
        """Add the call to a cell that may use Dask; IPython calls this for each cell."""
        if (
            self._settings.on
            and isinstance(node, ast.Module)
            and not all(map(_is_magic, node.body))
            and ("dask" not in sys.modules or may_use_dask(node.body, self._shell.user_ns))
        ):
            node.body = _with_calls(node.body)
        return node


def source_of_cell(namespace: dict[str, Any]) -> str:
    """The code of the running cell; empty if IPython has not stored it, as of code in ``%%time``."""
    frame = frame_of_cell(namespace)
    return "" if frame is None else "".join(linecache.getlines(frame.f_code.co_filename))


def describe_on(options: str) -> str:
    """What ``%gpudask on`` means with these options of ``%%gpudask``, as one line."""
    head = f"%%gpudask {options}".strip()
    return f"Every cell that uses Dask runs as if {head} stood above it. To end that, type: %gpudask off"


def _with_calls(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a cell with the call: at the start, or after each import that may import Dask."""
    if _magic_of(body[0]) in (ENTER_MAGIC, COMPARE_MAGIC):
        return body
    first = _position_after_future_imports(body)
    if "dask" in sys.modules:
        return [*body[:first], _call_at(body[min(first, len(body) - 1)]), *body[first:]]
    changed: list[ast.stmt] = []
    for position, statement in enumerate(body):
        changed.append(statement)
        if position >= first and any(isinstance(part, ast.Import | ast.ImportFrom) for part in ast.walk(statement)):
            changed.append(_call_at(statement))
    return changed


def _position_after_future_imports(body: list[ast.stmt]) -> int:
    """Imports from ``__future__`` must stay the first statements."""
    position = 0
    for number, statement in enumerate(body, 1):
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            position = number
    return position


def _call_at(statement: ast.stmt) -> ast.stmt:
    call = ast.parse(f"get_ipython().run_line_magic({AUTOMATIC_MAGIC!r}, '')").body[0]
    for part in ast.walk(call):
        ast.copy_location(part, statement)
    return call


def _is_magic(statement: ast.stmt) -> bool:
    """Whether this is a magic that runs no Python code, which this transformer would not see."""
    name = _magic_of(statement)
    return name is not None and name not in _RUNS_PYTHON


def _magic_of(statement: ast.stmt) -> str | None:
    """The name of the magic that a statement calls, as IPython writes it; ``""`` for another command of IPython."""
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    call = value.value if isinstance(value, ast.Await) else value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    owner = call.func.value
    if not (isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "get_ipython"):
        return None
    name = call.args[0] if call.args and call.func.attr in ("run_line_magic", "run_cell_magic") else None
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""


def may_use_dask(body: list[ast.stmt], namespace: Mapping[str, Any]) -> bool:
    """Whether statements can reach Dask through what they import or name.

    Plain values, and modules and functions of the standard library and of a few others, do not lead to Dask. Every
    other function or object may use it inside.
    """
    nodes = [node for statement in body for node in ast.walk(statement)]
    if any(not _is_apart(module) for module in _imported_modules(nodes)):
        return True
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return any(name in _REACH_ANYTHING or (name in namespace and not _is_harmless(namespace[name])) for name in names)


def _imported_modules(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


def _is_apart(module: str) -> bool:
    package = module.partition(".")[0]
    return package not in _REACH_ANYTHING and (package in _LIBRARIES or package in sys.stdlib_module_names)


def _is_harmless(value: Any, depth: int = 0) -> bool:
    """Whether a value neither is of Dask nor can call it. A container is if its parts are."""
    kind = type(value)
    if kind is dict:
        value, kind = [*value, *value.values()], list
    if kind in (list, tuple, set, frozenset):
        is_small = depth < _MAX_DEPTH and len(value) <= _MOST_PARTS
        return is_small and all(_is_harmless(part, depth + 1) for part in value)
    if kind is ModuleType:
        return _is_apart(value.__name__)
    if kind in (type, FunctionType, BuiltinFunctionType):
        return _is_apart(value.__module__ or "") and value.__name__ not in _REACH_ANYTHING
    if (kind.__module__, kind.__name__) == ("numpy", "ndarray"):
        return not value.dtype.hasobject
    return kind in _PLAIN or kind.__module__.partition(".")[0] in _DATA
