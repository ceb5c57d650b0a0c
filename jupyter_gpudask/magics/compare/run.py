"""One of the two runs that ``--compare`` compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

VALUE = "value of the cell"
"""The name of the value of the last expression among the results."""


@dataclass(frozen=True)
class Run:
    """One run of a cell.

    Attributes
    ----------
    where
        The cluster and the libraries, in words.
    seconds
        How long it took.
    results
        The variables that the cell has assigned, by name, and its value as `VALUE`.
    error
        The exception that the cell raised.
    """

    where: str
    seconds: float
    results: dict[str, Any]
    error: BaseException | None = None
