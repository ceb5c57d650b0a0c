"""``--report``: Dask's performance report of a cell, in a file."""

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
    """Write the report of what runs inside to `file`; if that fails at the end, one line says so.

    Raises
    ------
    ReportError
        It is no file that could be written.
    """
    path = Path(file).expanduser()
    if path.is_dir() or not path.parent.is_dir():
        raise ReportError(
            f"--report {file!r} is no file that can be written.", "Give a file name in a folder that exists."
        )
    from distributed import performance_report

    report = performance_report(filename=str(path))
    report.__enter__()
    try:
        yield
    finally:
        try:
            report.__exit__(None, None, None)
        except OSError as error:  # the cell has its result
            display(Note(f"The report cannot be written to {file}: {error.strerror or error}."))
