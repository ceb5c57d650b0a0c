"""Contexts that end with the running cell, however it ends."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

from ..usage_error import usage_error

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell


class CellContextStack:
    """A stack of the running cells, with the innermost last, and the contexts that each has entered.

    Parameters
    ----------
    shell
        The shell that runs the cells.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._last_blank: ExecutionResult | None = None
        self._per_thread = threading.local()  # a subshell of the kernel runs its cells in a thread of its own

    @property
    def _running(self) -> list[ExitStack]:
        stacks: list[ExitStack] = self._per_thread.__dict__.setdefault("running", [])
        return stacks

    def install(self) -> None:
        """Follow the cells of the shell, starting with the running one."""
        self._shell.events.register("pre_execute", self._begin)
        self._shell.events.register("post_execute", self._end)
        self._begin()

    def uninstall(self) -> None:
        """Leave all contexts, and stop following the cells."""
        self._shell.events.unregister("pre_execute", self._begin)
        self._shell.events.unregister("post_execute", self._end)
        while self._running:
            self._end()

    def enter(self, context: AbstractContextManager[None]) -> None:
        """Enter `context`, and leave it when the running cell ends."""
        if not self._running:
            raise usage_error("no-cell")
        self._running[-1].enter_context(context)

    def _begin(self) -> None:
        self._running.append(ExitStack())

    def _end(self) -> None:
        if not self._is_end_of_blank_cell() and self._running:
            self._running.pop().close()

    def _is_end_of_blank_cell(self) -> bool:
        """Whether the event belongs to a blank cell: for those IPython triggers ``post_execute`` only."""
        result = self._shell.last_execution_result
        if result is None or result is self._last_blank or not result.info or result.info.raw_cell.strip():
            return False
        self._last_blank = result  # a cell that is interrupted early leaves the result of the cell before
        return True
