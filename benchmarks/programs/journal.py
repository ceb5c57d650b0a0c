"""The rows of the programs that have run, in a file that grows with them: a run that is cut short can be continued."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .compare import NOT_RUN, Row

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Journal:
    """A file with one JSON object a line: the options of the run, and then one row for each program.

    Parameters
    ----------
    file
        The file; one that exists is continued. Without a file the rows are kept in memory only.
    options
        What the rows depend on, such as the backends.

    Raises
    ------
    ValueError
        The file has rows of a run with other options.
    """

    def __init__(self, file: Path | None, options: Mapping[str, Any]) -> None:
        self.rows: dict[int, Row] = {}
        self._file = file
        self._lock = threading.Lock()
        if file is None:
            return
        text = file.read_text() if file.exists() else ""
        whole = text[: text.rfind("\n") + 1] or json.dumps(dict(options)) + "\n"  # the end may be cut off
        first, *lines = map(json.loads, whole.splitlines())
        if first != dict(options):
            raise ValueError(f"{file} is of a run with {first}. Give another file: --rows FILE")
        self.rows = {line["seed"]: Row(**line) for line in lines}
        file.write_text(whole)

    def add(self, row: Row) -> None:
        """Keep the row of a program that has run, and write it to the file."""
        if row.outcome == NOT_RUN:
            return
        with self._lock:
            self.rows[row.seed] = row
            if self._file is not None:
                with self._file.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
