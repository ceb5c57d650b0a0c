"""A line of output that can be updated in place, in notebooks and in terminals."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from IPython.display import display, publish_display_data

if TYPE_CHECKING:
    from IPython.core.display_functions import DisplayHandle
    from IPython.core.interactiveshell import InteractiveShell

    from .base import View

_CLEAR = "\r\x1b[K"
_MIN_WIDTH = 60


class OutputLine:
    """Shows one view at a time.

    Parameters
    ----------
    shell
        The shell that runs the cell.

    Attributes
    ----------
    in_notebook
        Whether the line is an output of its own, which does not mix with the other output of the cell.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self.in_notebook = hasattr(shell, "kernel")
        self._handle: DisplayHandle | None = None
        self._in_terminal = not self.in_notebook and sys.stdout.isatty()
        self._dirty = False

    @property
    def can_change(self) -> bool:
        """Whether the line can be updated; not when the output is redirected to a file."""
        return self.in_notebook or self._in_terminal

    def show(self, view: View) -> None:
        """Show `view` until the next one, cut to the width of the terminal."""
        if self.in_notebook:
            self._display(view)
            return
        if self._in_terminal:
            room = os.get_terminal_size(sys.stdout.fileno()).columns - 1
            sys.stdout.write(f"{_CLEAR}{str(view)[: room or None]}")
        else:
            sys.stdout.write(f"\r{view!s:<{_MIN_WIDTH}}")
        sys.stdout.flush()
        self._dirty = True

    def clear(self) -> None:
        """Clear the line in a terminal, before other output is written."""
        if self._dirty and self._in_terminal:
            sys.stdout.write(_CLEAR)
            sys.stdout.flush()
        self._dirty = False

    def finish(self, view: View) -> None:
        """Show `view` permanently, below all other output of the cell."""
        if self.in_notebook:
            if self._handle is not None:  # an output without data takes no room
                publish_display_data({}, transient={"display_id": self._handle.display_id}, update=True)
            display(view)
            return
        start = _CLEAR if self._in_terminal else "\r" if self._dirty else ""
        sys.stdout.write(f"{start}{view!s:<{0 if self._in_terminal else _MIN_WIDTH}}".rstrip(" ") + "\n")
        sys.stdout.flush()
        self._dirty = False

    def _display(self, view: View) -> None:
        if self._handle is None:
            self._handle = display(view, display_id=True)
        else:
            self._handle.update(view)
