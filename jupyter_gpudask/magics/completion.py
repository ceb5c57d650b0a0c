"""Completion of what can be typed after ``%gpudask`` and ``%%gpudask``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .arguments import ARRAYS, CELL_OPTIONS, COMMANDS, DATAFRAMES, START_OPTIONS

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_VALUES = {
    "--array": ARRAYS,
    "--dataframe": DATAFRAMES,
    "--spilling": ("dask", "cudf", "off"),
    "--protocol": ("tcp", "ucx"),
    "--share": ("yes", "no"),
    "--dashboard": ("yes", "no"),
    "--engine": ("auto", "cuda", "cpu"),
    "--gpus": ("all",),
    "--pool": ("none",),
}


def complete(_shell: InteractiveShell, event: Any) -> list[str]:
    """What can stand where the cursor is; a hook of IPython's completer, which filters by what is typed already."""
    words = event.line[: len(event.line.rstrip()) if not event.symbol else None].split()
    before = words[:-1] if event.symbol else words
    if before and before[-1] in _VALUES:
        return list(_VALUES[before[-1]])
    if event.line.lstrip().startswith("%%"):
        return list(CELL_OPTIONS)
    command = next((word for word in before[1:] if word in COMMANDS), None)
    if command is None:
        return list(COMMANDS)
    return ["--cpu", *START_OPTIONS] if command in ("start", "restart") else []
