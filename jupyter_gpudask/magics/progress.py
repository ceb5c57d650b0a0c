"""One line that says how far the start of a cluster is, in a notebook and in a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from IPython.display import display

from .views import Note, StartProgress

if TYPE_CHECKING:
    from IPython.core.display_functions import DisplayHandle
    from IPython.core.interactiveshell import InteractiveShell

    from ..models import Progress


class StartDisplay:
    """Shows the start of a cluster while it lasts, and one line of result when it is over."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._in_notebook = hasattr(shell, "kernel")
        self._handle: DisplayHandle | None = None
        self._began = time.monotonic()
        self._latest = (0, 0)
        self._shown: StartProgress | None = None

    @property
    def is_shown(self) -> bool:
        """Whether there is a line."""
        return self._shown is not None

    def on_progress(self, progress: Progress) -> None:
        """Take note; callable from any thread."""
        self._latest = (progress.ready, progress.total)

    def refresh(self) -> None:
        """Show what was noted, if it is new; only in the thread that runs the cell, for outputs go to its cell."""
        progress = StartProgress(*self._latest, seconds=int(time.monotonic() - self._began))
        if progress != self._shown:
            self._shown = progress
            self._show(progress)

    def finish(self, text: str) -> None:
        """Replace the progress by `text`."""
        self._show(Note(f"{text} ({time.monotonic() - self._began:.1f} s)"))
        if not self._in_notebook:
            sys.stdout.write("\n")

    def abandon(self) -> None:
        """End the progress without a result; the error says the rest."""
        if self._shown is not None:
            self._show(Note("The cluster did not start."))
            if not self._in_notebook:
                sys.stdout.write("\n")

    def _show(self, content: StartProgress | Note) -> None:
        if not self._in_notebook:
            sys.stdout.write(f"\r{content!s:<60}")
            sys.stdout.flush()
        elif self._handle is None:
            self._handle = display(content, display_id=True)
        else:
            self._handle.update(content)
