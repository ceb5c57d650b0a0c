"""The line that shows the progress of the start of a cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .base import Note, ProgressLine
from .output_line import OutputLine

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ...protocol import Progress


@dataclass(repr=False)
class StartProgress(ProgressLine):
    """`ready` of `total` workers are up after `seconds` seconds; `notes` are sentences on what the start waits for."""

    ready: int
    total: int
    seconds: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = f"Starting: {self.ready} of {self.total} workers are up" if self.total else "Starting a cluster"
        return " · ".join([f"{what} ... {self.seconds} s", *self.notes])

    def progress(self) -> str:
        """The attributes of the progress bar."""
        value = f'value="{self.ready}" max="{self.total}" ' if self.total else ""
        return f'{value}aria-label="workers"'


class StartProgressLine:
    """Shows progress while a cluster starts, and the result when it has started."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._line = OutputLine(shell)
        self._began = time.monotonic()
        self._latest: tuple[int, int, tuple[str, ...]] = (0, 0, ())
        self._shown: StartProgress | None = None

    @property
    def is_shown(self) -> bool:
        """Whether the line is shown."""
        return self._shown is not None

    def on_progress(self, progress: Progress) -> None:
        """Store the progress; may be called in any thread."""
        self._latest = (progress.ready, progress.total, progress.notes)

    def refresh(self) -> None:
        """Show the stored progress if it has changed; only in the thread of the cell, which gets the output."""
        ready, total, notes = self._latest
        progress = StartProgress(ready, total, int(time.monotonic() - self._began), notes)
        if progress != self._shown:
            self._shown = progress
            self._line.show(progress)

    def finish(self, text: str) -> None:
        """Replace the progress with `text`."""
        self._line.finish(Note(f"{text} ({time.monotonic() - self._began:.1f} s)"))

    def fail(self) -> None:
        """Show that the cluster did not start; the error has the reason."""
        if self._shown is not None:
            self._line.finish(Note("The cluster did not start."))
