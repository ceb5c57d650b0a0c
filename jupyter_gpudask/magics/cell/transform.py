"""``%%gpudask`` leaves its body an ordinary cell: its line becomes a statement, whose effect ends with the cell.

A cell magic that ran its body itself would lose the value of the last expression, top-level ``await``, line numbers,
or the error status. So an input transformer turns the line ``%%gpudask ARGS`` into one call of a private line magic,
line for line, and that call enters a context on a stack which belongs to the running cell and is closed when the cell
ends, however it ends.
"""

from __future__ import annotations

import linecache
import sys
import threading
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

from IPython.core.async_helpers import _should_be_async
from IPython.core.error import UsageError

if TYPE_CHECKING:
    from types import FrameType

    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

_HEAD = "%%gpudask"


class Cells:
    """The contexts of the cells that are running, innermost last.

    Parameters
    ----------
    shell
        The shell whose cells these are.
    line_magic
        The name of the private line magic that enters a context for the running cell.
    """

    def __init__(self, shell: InteractiveShell, line_magic: str) -> None:
        self._shell = shell
        self._line_magic = line_magic
        self._last_blank: ExecutionResult | None = None
        self._of_thread = threading.local()  # a subshell of the kernel runs its cells in a thread of its own

    @property
    def _running(self) -> list[ExitStack]:
        stacks: list[ExitStack] = self._of_thread.__dict__.setdefault("running", [])
        return stacks

    def install(self) -> None:
        """Take part in every cell of the shell from now on, and in the one that is running."""
        self._shell.input_transformers_cleanup.append(self.rewrite)
        self._shell.events.register("pre_execute", self._begin)
        self._shell.events.register("post_execute", self._end)
        self._begin()

    def uninstall(self) -> None:
        """End what is running and take part no more."""
        self._shell.input_transformers_cleanup.remove(self.rewrite)
        self._shell.events.unregister("pre_execute", self._begin)
        self._shell.events.unregister("post_execute", self._end)
        while self._running:
            self._end()

    def enter(self, context: AbstractContextManager[None]) -> None:
        """Enter `context`, and leave it when the running cell ends."""
        if not self._running:
            raise UsageError("%%gpudask switches a cell, and no cell is running here.")
        self._running[-1].enter_context(context)

    def show_as_written(self, arguments: str, body: str = "") -> tuple[str, str]:
        """Have tracebacks, the debugger and `inspect` show the ``%%gpudask`` line, and not the call in its place.

        It becomes a comment, for they must be able to parse the code.

        Parameters
        ----------
        arguments
            Of the ``%%gpudask`` line.
        body
            What of the cell is in the call, too.

        Returns
        -------
        (str, str)
            The file name that IPython gave the running cell, and its code, line for line as the user wrote it.
        """
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
        while frame is not None and frame.f_globals is not self._shell.user_ns:
            frame = frame.f_back
        if frame is None:
            return "<cell>", f"\n{body}"
        file = frame.f_code.co_filename
        lines = linecache.getlines(file)  # IPython keeps the code of each cell there
        if not lines:  # what `%%time` runs, say
            return file, f"\n{body}"
        lines[frame.f_lineno - 1 : frame.f_lineno] = [
            f"# {_HEAD} {arguments}".rstrip() + "\n",
            *body.splitlines(keepends=True),
        ]
        source = "".join(lines)
        linecache.cache[file] = (len(source), None, lines, file)
        return file, source

    def rewrite(self, lines: list[str]) -> list[str]:
        """Turn the first line of a ``%%gpudask`` cell into a statement; leave every other cell as it is."""
        head, arguments = [*(lines[0] if lines else "").split(None, 1), "", ""][:2]
        body = "".join(lines[1:])
        if head != _HEAD or not body.strip():
            return lines
        if "--compare" in arguments.split():
            # Run twice, so not as it stands; the blank line keeps its line numbers.
            source = "\n" + self._shell.transform_cell(body)
            wait = "await " if _should_be_async(source) else ""
            return [f"{wait}get_ipython().run_line_magic('_gpudask_compare', {arguments.strip() + source!r})\n"]
        call = f"get_ipython().run_line_magic({self._line_magic!r}, {arguments.strip()!r})\n"
        return [call, *self._shell.transform_cell(body).splitlines(keepends=True)]

    def _begin(self) -> None:
        self._running.append(ExitStack())

    def _end(self) -> None:
        if not self._is_end_of_blank_cell() and self._running:
            self._running.pop().close()

    def _is_end_of_blank_cell(self) -> bool:
        """Whether the event is that of a blank cell, for which IPython fires ``post_execute`` alone."""
        result = self._shell.last_execution_result
        if result is None or result is self._last_blank or not result.info or result.info.raw_cell.strip():
            return False
        self._last_blank = result  # one that is cut off by an interrupt leaves the result of the one before
        return True
