"""The lists of commands and options in ``%gpudask?`` and ``%%gpudask?``, generated from their declarations."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from .declarations import CELL_OPTIONS, COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterable

_COLUMN, _WIDTH = 23, 110


def commands_help() -> str:
    """The commands of ``%gpudask``."""
    return _two_columns((f"{name} {command.arguments}".strip(), command.help) for name, command in COMMANDS.items())


def start_help() -> str:
    """The options of ``%gpudask start`` and ``restart``, with their defaults."""
    from ..protocol.spec import start_options  # here, because it imports pydantic

    rows = []
    for flag, option in start_options().items():
        head = f"{flag} {f'[{option.metavar}]' if option.value_is_optional else option.metavar}"
        text = option.help + (f" (default: {option.default})" if option.default else "")
        rows.append((head, text + ("; may be repeated" if option.is_repeatable else "")))
    return _two_columns(rows)


def cell_help() -> str:
    """The options of ``%%gpudask``."""
    rows = []
    for flag, option in CELL_OPTIONS.items():
        default = f" (default: {option.default})" if option.default else ""
        rows.append((f"{flag} {option.metavar}".rstrip(), option.help + default))
    return _two_columns(rows)


def _two_columns(rows: Iterable[tuple[str, str]]) -> str:
    lines = []
    for head, text in rows:
        wrapped = textwrap.wrap(text, _WIDTH - _COLUMN, break_on_hyphens=False)
        if len(head) >= _COLUMN:
            wrapped.insert(0, "")
        margins = [head, *[""] * (len(wrapped) - 1)]
        lines += [f"{left:<{_COLUMN}}{right}".rstrip() for left, right in zip(margins, wrapped, strict=True)]
    return "\n".join(lines)
