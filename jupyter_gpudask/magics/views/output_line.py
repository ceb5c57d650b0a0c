"""One line of output that is written again in its place, in a notebook and in a terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from IPython.display import display

if TYPE_CHECKING:
    from IPython.core.display_functions import DisplayHandle
    from IPython.core.interactiveshell import InteractiveShell

    from .base import View

_CLEAR = "\r\x1b[K"
_WIDTH = 60


class Line:
    """Shows one thing after the other in one place.

    Parameters
    ----------
    shell
        Where the cell runs.

    Attributes
    ----------
    in_notebook
        Whether what is shown has a place of its own, and is not in the way of what the cell prints.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self.in_notebook = hasattr(shell, "kernel")
        self._handle: DisplayHandle | None = None
        self._in_terminal = not self.in_notebook and sys.stdout.isatty()
        self._dirty = False

    @property
    def can_change(self) -> bool:
        """Whether what was written can be written again; not so in a file."""
        return self.in_notebook or self._in_terminal

    def show(self, view: View) -> None:
        """Show `view` until the next one; a terminal shows as much of it as there is room for."""
        if self.in_notebook:
            self._display(view)
            return
        if self._in_terminal:
            room = os.get_terminal_size(sys.stdout.fileno()).columns - 1
            sys.stdout.write(f"{_CLEAR}{str(view)[: room or None]}")
        else:
            sys.stdout.write(f"\r{view!s:<{_WIDTH}}")
        sys.stdout.flush()
        self._dirty = True

    def clear(self) -> None:
        """Make room in a terminal for what is written by others."""
        if self._dirty and self._in_terminal:
            sys.stdout.write(_CLEAR)
            sys.stdout.flush()
        self._dirty = False

    def finish(self, view: View) -> None:
        """Show `view` for good."""
        if self.in_notebook:
            self._display(view)
            return
        start = _CLEAR if self._in_terminal else "\r" if self._dirty else ""
        sys.stdout.write(f"{start}{view!s:<{0 if self._in_terminal else _WIDTH}}".rstrip(" ") + "\n")
        sys.stdout.flush()
        self._dirty = False

    def _display(self, view: View) -> None:
        if self._handle is None:
            self._handle = display(view, display_id=True)
        else:
            self._handle.update(view)
