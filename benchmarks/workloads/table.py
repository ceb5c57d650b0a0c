"""The table of rows, which the other modules of this package fill."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

BY_HAND, OURS, NO_DASK, PLAIN = "by hand", "jupyter_gpudask", "no Dask", "plain cell"


@dataclass(frozen=True)
class Seconds:
    """The result of work that has measured a part of itself."""

    value: float


@dataclass
class Row:
    """One computation.

    Attributes
    ----------
    sides
        What each side runs: a function that is given whether it runs on GPUs, where the work is larger, and that
        waits for its result. The time of the call counts, or the `Seconds` that it returns.
    cluster
        The cluster of `clusters.SETTINGS` on which it runs; `None` for work that starts what it needs.
    needs_gpu
        Whether there is no smaller variant for the CPU.
    """

    name: str
    sides: dict[str, Callable[[bool], Any]]
    cluster: str | None = "whole"
    needs_gpu: bool = False
    runs: dict[str, Any] = field(default_factory=dict)


ROWS: dict[str, Row] = {}


def row(
    name: str, *, cluster: str = "whole", needs_gpu: bool = False
) -> Callable[[Callable[[bool], Any]], Callable[[bool], Any]]:
    """A computation that is the same on a cluster by hand and on ours."""

    def add(function: Callable[[bool], Any]) -> Callable[[bool], Any]:
        ROWS[name] = Row(name, {BY_HAND: function, OURS: function}, cluster, needs_gpu)
        return function

    return add


def without_dask(name: str) -> Callable[[Callable[[bool], Any]], Callable[[bool], Any]]:
    """The same computation as row `name`, in one process with no Dask."""

    def add(function: Callable[[bool], Any]) -> Callable[[bool], Any]:
        ROWS[name].sides[NO_DASK] = function
        return function

    return add
