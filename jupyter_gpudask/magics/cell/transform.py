"""Rewrite ``%%gpudask`` cells so that their body runs as an ordinary cell.

A cell magic that ran its body itself would lose the value of the last expression, top-level ``await``, line numbers
and the error status. So an input transformer replaces the line ``%%gpudask ARGS`` with a call of a private line magic,
which enters a context until the cell ends; the other lines stay as they are.
"""

from __future__ import annotations

import linecache
import sys
from typing import TYPE_CHECKING, Any

from IPython.core.async_helpers import _should_be_async

if TYPE_CHECKING:
    from types import FrameType

    from IPython.core.interactiveshell import InteractiveShell

_CELL_MAGIC = "%%gpudask"
ENTER_MAGIC = "_gpudask_cell"
COMPARE_MAGIC = "_gpudask_compare"


class CellTransformer:
    """The input transformer for ``%%gpudask`` cells of a shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def install(self) -> None:
        """Transform the cells of the shell from now on."""
        self._shell.input_transformers_cleanup.append(self.transform)

    def uninstall(self) -> None:
        """Stop transforming cells."""
        self._shell.input_transformers_cleanup.remove(self.transform)

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

    Parameters
    ----------
    namespace
        The global variables of the running cell.
    arguments
        The arguments of ``%%gpudask``.
    body
        The part of the cell that has become an argument of the call.

    Returns
    -------
    (str, str)
        The file name that IPython gave the running cell, and the code of the cell as the user wrote it.
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
