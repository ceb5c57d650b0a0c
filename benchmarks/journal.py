"""The rows of a long run, in a file that grows with them: a run that is cut short can be continued."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

NOT_RUN = "not run"
"""The outcome of what has not run; the journal does not keep it."""


class AnyRow(Protocol):
    """A data class."""

    outcome: str

    @property
    def key(self) -> Any:
        """What distinguishes it from the other rows."""


R = TypeVar("R", bound=AnyRow)


class Journal(Generic[R]):
    """A file with one JSON object a line: the options of the run, and then one row for each part of it.

    Parameters
    ----------
    file
        The file; one that exists is continued. Without a file the rows are kept in memory only.
    options
        What the rows depend on, such as the backends.
    row
        Makes a row of the fields that were read.

    Attributes
    ----------
    rows
        The rows by their keys, without those that have not run.

    Raises
    ------
    ValueError
        The file has rows of a run with other options.
    """

    def __init__(self, file: Path | None, options: Mapping[str, Any], row: Callable[..., R]) -> None:
        self.rows: dict[Any, R] = {}
        self._file = file
        self._lock = threading.Lock()
        if file is None:
            return
        text = file.read_text() if file.exists() else ""
        whole = text[: text.rfind("\n") + 1] or json.dumps(dict(options)) + "\n"  # the end may be cut off
        first, *lines = map(json.loads, whole.splitlines())
        if first != dict(options):
            raise ValueError(f"{file} is of a run with {first}. Give another file: --rows FILE")
        self.rows = {found.key: found for found in (row(**line) for line in lines)}
        file.write_text(whole)

    def add(self, *rows: R) -> None:
        """Keep the rows, and write them to the file."""
        new = {row.key: row for row in rows if row.outcome != NOT_RUN}
        with self._lock:
            self.rows |= new
            if self._file is not None:
                with self._file.open("a") as file:
                    file.writelines(json.dumps(asdict(row)) + "\n" for row in new.values())
