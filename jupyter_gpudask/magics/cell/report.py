"""``%%gpudask --report``: write Dask's performance report of a cell to a file."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from IPython.display import display

from ...errors import ReportError
from ..views.base import Note

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(repr=False)
class ReportNote(Note):
    """A `Note` that links to the report, if it is in or below the folder of the notebook.

    Attributes
    ----------
    file
        The path as the user typed it.
    """

    file: str

    def to_html(self) -> str:
        """The line as a `div`; Jupyter serves relative addresses from the folder of the notebook."""
        here = Path.cwd()
        path = Path(self.file).expanduser().resolve()
        if not path.is_relative_to(here):
            return super().to_html()
        address = escape(quote(str(path.relative_to(here))))
        text = escape(self.text).replace(
            escape(self.file), f'<a href="{address}" target="_blank">{escape(self.file)}</a>'
        )
        return f'<div style="{self.STYLE}">{text}</div>'


@contextmanager
def report_to(file: str) -> Iterator[None]:
    """Write a performance report of the code in this context to `file`; a note links to it, or says why there is none.

    Raises
    ------
    ReportError
        `file` is a folder, or its folder does not exist.
    """
    path = Path(file).expanduser()
    if path.is_dir() or not path.parent.is_dir():
        raise ReportError(file=repr(file))
    from distributed import performance_report

    report = performance_report(filename=str(path))
    report.__enter__()
    try:
        yield
    finally:
        try:
            report.__exit__(None, None, None)
        except OSError as error:  # the cell itself has succeeded
            display(Note(f"The report cannot be written to {file}: {error.strerror or error}."))
        else:
            display(ReportNote(f"Dask's performance report: {file}", file))
