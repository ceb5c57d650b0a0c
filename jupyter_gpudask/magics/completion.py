"""Tab completion for the arguments of ``%gpudask`` and ``%%gpudask``."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from IPython.core.completer import SimpleCompletion, context_matcher

from .declarations import CELL_OPTIONS, COMMANDS, CONNECT_OPTIONS, ON_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from IPython.core.completer import CompletionContext, SimpleMatcherResult

_CELL_VALUES = {flag: option.choices for flag, option in CELL_OPTIONS.items() if option.choices}
_CELL_FLAGS = frozenset(flag for flag, option in CELL_OPTIONS.items() if not option.metavar)  # these take no value
_PRIORITY = 1000
_MAGIC = re.compile(r"\s*(?:(?:[\w\s,.*()\[\]]+=\s*)?(?P<sign>%{1,2}))?gpudask\s(?P<rest>.*)", re.DOTALL)


def make_matcher(namespace: Mapping[str, Any]) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """Create a matcher for IPython's completer.

    It suppresses other matchers in lines of these magics, because Jedi would complete the line as Python.

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
        words = _cell_words(before, namespace) if found["sign"] == "%%" else _line_words(before, namespace)
        return {
            "completions": [SimpleCompletion(word, type="magic") for word in words if word.startswith(typed)],
            "matched_fragment": typed,
            "ordered": True,
            "suppress": True,
        }

    matcher: Callable[[CompletionContext], SimpleMatcherResult]
    matcher = context_matcher(identifier="jupyter_gpudask", priority=_PRIORITY)(match)
    return matcher


def _cell_words(before: list[str], namespace: Mapping[str, Any]) -> Iterable[str]:
    """The words that may follow the arguments `before` of ``%%gpudask``."""
    last = before[-1] if before else ""
    if last == "--move":
        return ["all", *_collections(namespace)]
    if last.startswith("--") and last not in _CELL_FLAGS:
        return _CELL_VALUES.get(last, ())
    return [option for option in CELL_OPTIONS if option not in before]


def _line_words(before: list[str], namespace: Mapping[str, Any]) -> Iterable[str]:
    """The words that may follow the arguments `before` of ``%gpudask``."""
    from ..protocol.spec import start_options  # here, because it imports pydantic

    last, options = before[-1] if before else "", start_options()
    if last in options and not options[last].value_is_optional:
        return options[last].words
    if last == "--release":
        return _collections(namespace)
    if last in ("--lines", *CONNECT_OPTIONS):
        return ()
    command = next((word for word in before if word in COMMANDS), None)
    if command == "on":
        values = _CELL_VALUES | {"--move": ("all",)}
        return values.get(last, [option for option in ON_OPTIONS if option not in before])
    return _command_words(command, before)


def _command_words(command: str | None, before: list[str]) -> Iterable[str]:
    """The words that may follow a command for the cluster."""
    from ..protocol.spec import start_options

    if command is None:
        return COMMANDS
    if command in ("start", "restart"):
        options = start_options().items()
        return [flag for flag, option in options if flag not in before or option.is_repeatable]
    flags = {"logs": ("--lines",), "held": ("--release",), "connect": CONNECT_OPTIONS}.get(command, ())
    return [flag for flag in flags if flag not in before]


def _collections(namespace: Mapping[str, Any]) -> list[str]:
    dask = sys.modules.get("dask.base")
    if dask is None:
        return []
    names = [name for name, value in namespace.items() if not name.startswith("_") and dask.is_dask_collection(value)]
    return sorted(names)
