"""The output of the magics: text for terminals, HTML for notebooks, and a line that is updated in place."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar

from IPython.core.display_functions import DisplayHandle
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display, publish_display_data

_NUMBER = re.compile(r"\b(?:GPU|Worker|pid) \d+|(?:\d[\d.,]* (?:[^\W\d]+ )?of )?\d[\d.,]* (?!of\b)[^\W\d]+|\d[\d.,]* %")
FONT_SIZE = "var(--jp-ui-font-size1, 13px)"
# JupyterLab indents text by the width of a character of code, and places it lower; HTML it does neither.
INDENT = "padding: 0.2em 0 0 0.6em"
DASH = "–"  # what a table has in the place of a number that is not known, or of nothing
SHORTEST = 0.0005
_CLEAR = "\r\x1b[K"
_MIN_WIDTH = 60


class View:
    """Base class of the output of the magics: `str` is its text, `to_html` its HTML."""

    def to_html(self) -> str:
        """The HTML, with all text escaped."""
        return f'<div style="{INDENT}">{escape(str(self))}</div>'

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self.to_html()}

    def __repr__(self) -> str:
        return str(self)


@dataclass(repr=False)
class Note(View):
    """One line in the secondary colour of the theme."""

    TEXT: ClassVar[str] = "color: var(--jp-ui-font-color2, gray); font-size: var(--jp-ui-font-size1, 13px)"
    STYLE: ClassVar[str] = f"{TEXT}; {INDENT}"

    text: str

    def __str__(self) -> str:
        return self.text

    def to_html(self) -> str:
        """The line as a `div`."""
        return f'<div style="{self.STYLE}">{escape(self.text)}</div>'


@dataclass(repr=False)
class Text(View):
    """Lines that keep their columns."""

    text: str

    def __str__(self) -> str:
        return self.text

    def to_html(self) -> str:
        """The lines as they are."""
        return f"<pre>{escape(self.text)}</pre>"


class ProgressLine(View):
    """A line about what goes on.

    In a notebook it says when it was last seen, and has neither a progress bar nor a role that says that something
    goes on: if its kernel is killed, nobody replaces it, and it is saved.
    """

    def to_html(self) -> str:
        """The line, formatted like a `Note`."""
        return Note(self._as_seen()).to_html()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": self._as_seen(), "text/html": self.to_html()}

    def _as_seen(self) -> str:
        return f"{self} · last seen {format_time(time.time())}"


def show_note(shell: InteractiveShell, text: str) -> None:
    """Show a `Note` under the cell, or print it in a terminal."""
    if hasattr(shell, "kernel"):
        display(Note(text))
    else:
        sys.stdout.write(f"{text}\n")


def format_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as text, with aligned columns."""
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows)]
    return "\n".join(line.rstrip() for line in lines)


class TableView(View):
    """A table, with lines before and after it."""

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """The heads and the rows."""
        raise NotImplementedError

    def _lines(self) -> tuple[list[str], list[str]]:
        """The lines before and after the table."""
        return [], []

    def __str__(self) -> str:
        (heads, rows), (before, after) = self._table(), self._lines()
        return "\n".join([*before, *([format_table(heads, rows)] if rows else []), *after])

    def to_html(self) -> str:
        """The lines and the table."""
        (heads, rows), lines = self._table(), self._lines()
        before, after = ("".join(f"<div>{escape(line)}</div>" for line in each) for each in lines)
        return before + (html_table(heads, rows, align="left") if rows else "") + after


class Html(str):
    """The content of a table's cell that is HTML."""

    __slots__ = ()


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], align: str = "right", *, caption: str = "") -> str:
    """A table as HTML, with a caption below it; cells are text, except those that are `Html`."""
    # All that would differ between a widget and saved HTML.
    style = f'style="text-align: {align}; padding: 0.1em 0.4em; line-height: 1.4; font-size: {FONT_SIZE}"'
    head = "".join(f'<th scope="col" {style}>{escape(cell)}</th>' for cell in heads)
    body = "".join(
        "<tr>" + "".join(f"<td {style}>{_as_html(cell, align)}</td>" for cell in row) + "</tr>" for row in rows
    )
    place = f"caption-side: bottom; text-align: left; line-height: 1.4; {Note.TEXT}"
    below = f'<caption style="{place}">{escape(caption)}</caption>' if caption else ""
    table = f"{below}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<table style="border-collapse: collapse; margin: 0">{table}</table>'


def _as_html(cell: str, align: str) -> str:
    """The content of a cell; in columns of numbers, lines are not broken between a number and its unit."""
    if isinstance(cell, Html):
        return cell
    text = escape(cell)
    return _NUMBER.sub(lambda found: found[0].replace(" ", "&nbsp;"), text) if align == "right" else text


def state_at(when: float) -> str:
    """The caption of a table with the state at a time in seconds since the epoch; a saved notebook keeps it."""
    return f"State at {format_time(when)}"


def format_seconds(seconds: float) -> str:
    """Format a duration, such as ``30 ms`` or ``2.0 s``; one below `SHORTEST` is none."""
    if seconds < SHORTEST:
        return DASH
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def format_time(when: float) -> str:
    """Format a time in seconds since the epoch, with its date and time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(when))


class OutputLine:
    """Shows one view at a time.

    - `in_notebook`: whether the line is an output of its own, which does not mix with the other output of the cell.
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
        if self._handle is not None:
            self._handle.update(view)
        elif self.in_notebook:
            self._handle = display(view, display_id=True)
        if self.in_notebook:
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

    def finish(self, view: View, *, below: bool = False) -> None:
        """Show `view` permanently, in the place of the line or below all other output of the cell."""
        if self._handle is not None and not below:
            self._handle.update(view)
            return
        if self.in_notebook:
            if self._handle is not None:  # an output without data takes no room
                publish_display_data({}, transient={"display_id": self._handle.display_id}, update=True)
            display(view)
            return
        start = _CLEAR if self._in_terminal else "\r" if self._dirty else ""
        sys.stdout.write(f"{start}{view!s:<{0 if self._in_terminal else _MIN_WIDTH}}".rstrip(" ") + "\n")
        sys.stdout.flush()
        self._dirty = False
