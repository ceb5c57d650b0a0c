"""The user's code that called into Dask: its line, and the names of its variables."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dask.base import is_dask_collection
from dask.utils import key_split

from .local_variables import local_variables
from .placement import ancestors, kind_of, name_of, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from .placement import Place

_LIBRARIES = ("dask", "dask_cudf", "distributed", "jupyter_gpudask", "numpy", "pandas", "functools", "contextlib")
_MAIN = "__main__"


def user_frame() -> FrameType | None:
    """The stack frame that called a library; preferably one of the notebook or script itself."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None and _library_of(frame) in _LIBRARIES:
        frame = frame.f_back
    called = frame
    while frame is not None and frame.f_globals.get("__name__") != _MAIN:
        frame = frame.f_back
    return frame or called


def user_line() -> int:
    """The line of the cell or script that made the call; 0 if there is none."""
    frame = user_frame()
    line = 0 if frame is None else frame.f_lineno
    outer = frame
    while frame is not None and outer is not None:
        if outer.f_globals is frame.f_globals:
            line = outer.f_lineno
        outer = outer.f_back
    return line


def names_of(value: Any) -> list[str]:
    """The name of the user's variable for `value`; else the names of its input collections on the same device."""
    named = list(_variables())
    exact = [name for name, other in named if other is value]
    if exact or not is_dask_collection(value):
        return exact[:1]
    return names_behind(value)[place_of(value)]


def description_of(collection: Any) -> str:
    """What to call a collection that no variable names, such as by the user's function that returns its blocks."""
    kind = "an array" if kind_of(collection) == "array" else "a dataframe"
    function = key_split(name_of(collection))
    is_of_user = any(name == function and callable(value) for name, value in _variables())
    return f"{kind} that {function} returns" if is_of_user else f"{kind} without a name"


def names_behind(value: Any) -> dict[Place | None, list[str]]:
    """The names of the user's variables for the input collections of `value`, by device."""
    parts = ancestors(value)
    found: dict[Place | None, list[str]] = {"host": [], "gpu": [], None: []}
    for name, other in _variables():
        # The class first: attribute access on a user's object may raise any exception.
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
