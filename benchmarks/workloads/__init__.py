"""The table of rows, which the modules of this package fill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness import BY_HAND, NO_DASK, OURS

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[bool], Any]


@dataclass(frozen=True)
class Seconds:
    """The result of work that has measured a part of itself."""

    value: float


@dataclass
class Row:
    """One computation."""

    name: str
    sides: dict[str, Work]
    """What each side runs: a function that is given whether it runs on GPUs, where the work is larger, and that waits
    for its result. The time of the call counts, or the `Seconds` that it returns."""
    cluster: str | None = "whole"
    """``"whole"``, or ``"little memory"``; `None` for work that starts what it needs."""
    needs_gpu: bool = False
    """Whether there is no smaller variant for the CPU."""
    files: Work | None = None
    """Writes the files that the work reads, unless they are there."""


ROWS: dict[str, Row] = {}


def row(
    name: str, *, cluster: str = "whole", needs_gpu: bool = False, files: Work | None = None
) -> Callable[[Work], Work]:
    """A computation that is the same on a cluster by hand and on ours."""

    def add(function: Work) -> Work:
        ROWS[name] = Row(name, {BY_HAND: function, OURS: function}, cluster, needs_gpu, files)
        return function

    return add


def without_dask(name: str) -> Callable[[Work], Work]:
    """The same computation as row `name`, in one process with no Dask."""

    def add(function: Work) -> Work:
        ROWS[name].sides[NO_DASK] = function
        return function

    return add
