"""The user's code that called into Dask: its line, and the names of its variables."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection

from .local_variables import local_variables
from .placement import ancestors, name_of, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from .placement import Place

_LIBRARIES = ("dask", "dask_cudf", "distributed", "jupyter_gpudask", "numpy", "pandas", "functools", "contextlib")
_MAIN = "__main__"


def user_frame() -> FrameType | None:
    """The frame that called a library; one of the notebook or script itself, where there is one."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None and _library_of(frame) in _LIBRARIES:
        frame = frame.f_back
    called = frame
    while frame is not None and frame.f_globals.get("__name__") != _MAIN:
        frame = frame.f_back
    return frame or called


def user_line() -> int:
    """The line of the cell, or of the script, from which all this was called; 0 where there is none."""
    frame = user_frame()
    line = 0 if frame is None else frame.f_lineno
    outer = frame
    while frame is not None and outer is not None:
        if outer.f_globals is frame.f_globals:
            line = outer.f_lineno
        outer = outer.f_back
    return line


def names_of(value: Any) -> list[str]:
    """What the user calls `value`; if it has no name, the names of what it is made from that lies at the same place."""
    named = list(_variables())
    exact = [name for name, other in named if other is value]
    if exact or not is_dask_collection(value):
        return exact[:1]
    return names_behind(value)[place_of(value)]


def names_behind(value: Any) -> dict[Place | None, list[str]]:
    """What the user calls the collections that `value` is made from, by where they are."""
    parts = ancestors(value)
    found: dict[Place | None, list[str]] = {"host": [], "gpu": [], None: []}
    for name, other in _variables():
        # The class first: a variable of the user's may raise anything when it is asked for an attribute.
        if hasattr(type(other), "_meta") and is_dask_collection(other) and name_of(other) in parts:
            names = found[place_of(other)]
            names += [] if name in names else [name]
    return found


def _variables() -> Iterator[tuple[str, Any]]:
    frame = user_frame()
    if frame is None:
        return
    yield from ((name, value) for name, value in local_variables(frame).items() if not name.startswith("_"))
    if frame.f_globals is not frame.f_locals:
        yield from ((name, value) for name, value in list(frame.f_globals.items()) if not name.startswith("_"))


def _library_of(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]
