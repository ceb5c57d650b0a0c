"""``%gpudask on``: run cells as if ``%%gpudask`` were their first line.

A transformer of syntax trees adds a call of a private line magic to the cell. Unlike a line in front of the cell, it
changes neither line numbers nor the value of the last expression. A cell that runs before Dask is imported is switched
by its own imports; without Dask it stays an ordinary cell.
"""

from __future__ import annotations

import ast
import linecache
import sys
from typing import TYPE_CHECKING

from .dask_use import may_use_dask
from .transform import COMPARE_MAGIC, ENTER_MAGIC, frame_of_cell

if TYPE_CHECKING:
    from typing import Any

    from IPython.core.interactiveshell import InteractiveShell

    from ..settings import MagicsSettings

AUTOMATIC_MAGIC = "_gpudask_on"
_RUNS_PYTHON = ("run",)  # %time, %timeit and %%time pass their code through this transformer themselves


class AutomaticCells(ast.NodeTransformer):
    """The transformer of the syntax trees of a shell.

    Parameters
    ----------
    shell
        The shell that runs the cells.
    settings
        Its setting ``on`` says whether cells are switched.
    """

    def __init__(self, shell: InteractiveShell, settings: MagicsSettings) -> None:
        self._shell = shell
        self._settings = settings

    def install(self) -> None:
        """Transform the cells of the shell from now on."""
        self._shell.ast_transformers.append(self)

    def uninstall(self) -> None:
        """Stop transforming cells."""
        if self in self._shell.ast_transformers:
            self._shell.ast_transformers.remove(self)

    def visit(self, node: ast.AST) -> Any:
        """Add the call to a cell that may use Dask; IPython calls this for each cell."""
        if self._settings.on and isinstance(node, ast.Module) and self._is_to_be_switched(node.body):
            node.body = _with_calls(node.body)
        return node

    def _is_to_be_switched(self, body: list[ast.stmt]) -> bool:
        if all(map(_is_magic, body)):
            return False
        return "dask" not in sys.modules or may_use_dask(body, self._shell.user_ns)


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
    """The call, with the line number of `statement`."""
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
