"""One line that says how far the start of a cluster is, in a notebook and in a terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .base import Note, StartProgress
from .output_line import Line

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ...protocol import Progress


class StartDisplay:
    """Shows the start of a cluster while it lasts, and one line of result when it is over."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._line = Line(shell)
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
            self._line.show(progress)

    def finish(self, text: str) -> None:
        """Replace the progress by `text`."""
        self._line.finish(Note(f"{text} ({time.monotonic() - self._began:.1f} s)"))

    def abandon(self) -> None:
        """End the progress without a result; the error says the rest."""
        if self._shown is not None:
            self._line.finish(Note("The cluster did not start."))
