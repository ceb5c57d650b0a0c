"""Completion of what can be typed after ``%gpudask`` and ``%%gpudask``."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from IPython.core.completer import SimpleCompletion, context_matcher

from .arguments import ARRAYS, CELL_OPTIONS, COMMANDS, DATAFRAMES, REPEATED_OPTIONS, START_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from IPython.core.completer import CompletionContext, SimpleMatcherResult

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
    "--memory-limit": ("auto", "none"),
}
_OPTIONS = {"start": ("--cpu", *START_OPTIONS), "restart": ("--cpu", *START_OPTIONS), "logs": ("--lines",)}
_TAKE_NO_VALUE = frozenset({"--cpu", "--dashboard", "--to-host", "--compare"})  # the first two may have one
_FIRST = 1000
_MAGIC = re.compile(r"\s*(?:(?:[\w\s,.*()\[\]]+=\s*)?(?P<sign>%{1,2}))?gpudask\s(?P<rest>.*)", re.DOTALL)


def make_matcher(namespace: Mapping[str, Any]) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """A matcher for IPython's completer.

    Where it has something to offer it is alone: Jedi takes the rest of a magic's line for Python.

    Parameters
    ----------
    namespace
        The variables of the notebook.
    """

    def match(context: CompletionContext) -> SimpleMatcherResult:
        found = _MAGIC.fullmatch(context.text_until_cursor)
        if found is None or (not found["sign"] and "gpudask" in namespace):
            return {"completions": [], "suppress": False}
        *before, typed = re.split(r"[\s=]+", found["rest"])
        typed = typed.rpartition(",")[2]
        words = _what_can_stand_after(before, namespace, in_cell=found["sign"] == "%%")
        return {
            "completions": [SimpleCompletion(word, type="magic") for word in words if word.startswith(typed)],
            "matched_fragment": typed,
            "ordered": True,
            "suppress": True,
        }

    matcher: Callable[[CompletionContext], SimpleMatcherResult]
    matcher = context_matcher(identifier="jupyter_gpudask", priority=_FIRST)(match)
    return matcher


def _what_can_stand_after(before: list[str], namespace: Mapping[str, Any], *, in_cell: bool) -> Iterable[str]:
    last = before[-1] if before else ""
    if last == "--move":
        return ["all", *_collections(namespace)]
    if last.startswith("--") and last not in _TAKE_NO_VALUE:
        return _VALUES.get(last, ())
    if in_cell:
        options: Iterable[str] = CELL_OPTIONS
    else:
        command = next((word for word in before if word in COMMANDS), None)
        if command is None:
            return COMMANDS
        options = _OPTIONS.get(command, ())
    return [option for option in options if option not in before or option in REPEATED_OPTIONS]


def _collections(namespace: Mapping[str, Any]) -> list[str]:
    dask = sys.modules.get("dask.base")
    if dask is None:
        return []
    names = [name for name, value in namespace.items() if not name.startswith("_") and dask.is_dask_collection(value)]
    return sorted(names)
