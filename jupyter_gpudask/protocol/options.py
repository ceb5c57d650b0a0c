"""How a field of `ClusterSpec` is typed as an option of ``%gpudask start``."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Union, get_args, get_origin

from ..quantities import typed_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.fields import FieldInfo


@dataclass(frozen=True)
class Option:
    """The command line declaration of a field of `ClusterSpec`, in addition to its type, default and allowed values.

    - `metavar`: stands for the value in the help.
    - `help`: what the option means.
    - `flag`: the option as it is typed, if that is not the name of the field with dashes.
    - `words`: words that completion suggests, beside those of the type.
    - `value_is_optional`: whether the option may be typed without a value.
    - `engine`: ``cuda`` or ``cpu``, if only clusters of this engine have it.
    """

    metavar: str
    help: str
    flag: str = ""
    words: tuple[str, ...] = ()
    value_is_optional: bool = False
    engine: str = ""


@dataclass(frozen=True)
class StartOption(Option):
    """An option of ``%gpudask start``.

    - `field`, `title`: the field of `ClusterSpec`, and its label in the form of the panel; empty if it is not there.
    - `allowed`: the valid values, in words.
    - `default`: the default as it would be typed; empty if it depends on the machine, or if there is none.
    - `is_repeatable`: whether the option may be typed several times.
    """

    field: str = ""
    title: str = ""
    allowed: str = ""
    default: str = ""
    is_repeatable: bool = False


def options_of(fields: Mapping[str, FieldInfo]) -> dict[str, StartOption]:
    """The options that these fields declare, by flag, in the order of the fields."""
    options = (_start_option(name, field) for name, field in fields.items())
    return {option.flag: option for option in options}


def _start_option(name: str, field: FieldInfo) -> StartOption:
    option = next(part for part in field.metadata if isinstance(part, Option))
    default = field.get_default(call_default_factory=True)
    derived = {
        "flag": option.flag or "--" + name.replace("_", "-"),
        "words": (*_words_of_type(field.annotation), *option.words),
        "title": field.title or "",
        "allowed": field.description or "",
        "default": as_typed(default, option) if default or default is False or "none" in option.words else "",
        "is_repeatable": isinstance(default, dict),
    }
    return StartOption(**vars(option) | derived, field=name)


def _words_of_type(annotation: object) -> tuple[str, ...]:
    if annotation is bool:
        return ("yes", "no")
    if get_origin(annotation) is Literal:
        return tuple(get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(word for part in get_args(annotation) for word in _words_of_type(part))
    return ()


def as_typed(value: object, option: Option) -> str:
    """The value of an option as it is typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none" if "none" in option.words else "default"
    if isinstance(value, dict):
        return " ".join(f"{key}={amount:g}" for key, amount in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) + "," * (len(value) == 1)  # a single number is a count
    if isinstance(value, int) and option.metavar == "AMOUNT":
        return typed_size(value)
    return f"{value:g}" if isinstance(value, float) else str(value) or "none"
