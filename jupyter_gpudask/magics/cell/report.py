"""``%%gpudask --report``: write Dask's performance report of a cell to a file."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from IPython.display import display

from ...errors import ReportError
from ..views.base import Note

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def report_to(file: str) -> Iterator[None]:
    """Write a performance report of the code in this context to `file`; if writing fails, show a note.

    Raises
    ------
    ReportError
        `file` is a folder, or its folder does not exist.
    """
    path = Path(file).expanduser()
    if path.is_dir() or not path.parent.is_dir():
        raise ReportError(f"--report {file!r} cannot be written.", "Give a file name in an existing folder.")
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
