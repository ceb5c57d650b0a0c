"""Parse and format values as users type them: sizes, fractions, lists of GPUs, and name=value pairs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{prefix}B": 1000**power for power, prefix in enumerate("KMGT", start=1)}
_UNITS |= {f"{prefix}IB": 1024**power for power, prefix in enumerate("KMGT", start=1)}
_UNITS |= {prefix: 1000**power for power, prefix in enumerate("KMGT", start=1)}
# A smaller number is probably a mistake, such as 20 instead of 20GB.
_LEAST_SIZE = 10**6
_MAX_WORKERS = 256
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>[A-Za-z]*)")

Number = TypeVar("Number", int, float)


def parse_amount(value: object) -> int | float | None:
    """Parse an amount of memory.

    `value`: ``None`` or ``"none"``; a fraction above 0 and up to 1, of the memory of the device; or a size of at least
    1 MB, as a number of bytes or with a unit, such as ``"20GB"`` or ``"16 GiB"``. Returns bytes as an ``int``, a
    fraction as a ``float`` in (0, 1], or ``None``. Raises `ValueError` if the value is not one of these.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        raise ValueError("a boolean is not an amount of memory")
    if isinstance(value, str):
        if value.strip().lower() in {"none", "off"}:
            return None
        value = _parse_size(value)
    if not isinstance(value, int | float):
        raise ValueError("not a number")
    if 0 < value <= 1:
        return float(value)
    if _LEAST_SIZE <= value < 2**63:
        return int(value)
    raise ValueError("neither a fraction up to 1 nor a size")


def _parse_size(text: str) -> float:
    match = _SIZE.fullmatch(text.strip())
    if match is None or match["unit"].upper() not in _UNITS:
        raise ValueError("not a size")
    number, unit = float(match["number"]), match["unit"]
    if unit and number * _UNITS[unit.upper()] <= 1:
        raise ValueError("not a fraction")
    return number * _UNITS[unit.upper()]


def typed_size(count: int) -> str:
    """A size as it is typed, in the largest unit in which it is whole: ``"16GiB"``; `parse_amount` is the inverse."""
    whole = [unit for unit, size in _UNITS.items() if len(unit) > 1 and count % size == 0]
    if not whole:
        return str(count)
    largest = max(whole, key=_UNITS.__getitem__)
    return f"{count // _UNITS[largest]}{largest.replace('I', 'i')}"


def format_period(seconds: float) -> str:
    """A period in words, such as ``30 minutes``."""
    if seconds >= 2 * 3600:
        return f"{round(seconds / 3600, 1):g} hours"
    return f"{round(seconds / 60, 1):g} minutes" if seconds >= 60 else f"{round(seconds, 1):g} seconds"


def format_bytes(count: int | float) -> str:
    """Format a number of bytes in binary units: ``format_bytes(65_000_000_000) == "60.5 GiB"``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if size >= 100 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def parse_gpus(value: object) -> str | int | list[int | str]:
    """Parse a selection of GPUs.

    `value`: ``"all"``; ``"free"``; a count (``2`` or ``"2"``: that many); or indices and UUIDs as a list or with commas
    (``"0,3"``, ``"3,"`` for the GPU with index 3, ``"GPU-5a0c..."``, ``"MIG-..."``). Returns ``"all"``, ``"free"``, the
    count, or the list. Raises `ValueError` if the value is not one of these, or contains a GPU twice.
    """
    if isinstance(value, bool) or value is None:
        raise ValueError("no GPUs")
    if isinstance(value, int):
        if value < 1:
            raise ValueError("a count must be at least 1")
        return value
    if isinstance(value, str):
        text = value.strip().strip("[]")
        if text.lower() in {"all", "free"}:
            return text.lower()
        if text.isdecimal() and value.strip() == text:
            return parse_gpus(int(text))
        value = [part for part in (part.strip() for part in text.split(",")) if part]
    if not isinstance(value, Sequence) or not value:
        raise ValueError("no GPUs")
    gpus = [_parse_gpu(part) for part in value]
    if len(set(gpus)) < len(gpus):
        raise ValueError("one GPU twice")
    return gpus


def _parse_gpu(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str):
        if value.isdecimal():
            return int(value)
        if value.startswith(("GPU-", "MIG-")):
            return value
    raise ValueError("neither an index nor a UUID")


def parse_range(value: object) -> tuple[int, int] | None:
    """Parse the smallest and the largest number of workers.

    `value`: ``None`` or ``"none"``; or two whole numbers from 1 to 256, the smaller one first, as a list or with a
    comma: ``"1,4"``. Returns the two numbers, or ``None``. Raises `ValueError` if the value is not one of these.
    """
    if value is None or (isinstance(value, str) and value.strip().lower() == "none"):
        return None
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or len(parts) != 2 or not all(type(part) in (int, str) for part in parts):
        raise ValueError("not two whole numbers")
    smallest, largest = (int(part) for part in parts)
    if not 1 <= smallest <= largest <= _MAX_WORKERS:
        raise ValueError("not a range of workers")
    return smallest, largest


def parse_pairs(value: object, convert: Callable[[str], Number | str]) -> Mapping[str, object]:
    """Parse ``"NAME=VALUE,NAME=VALUE"``, a list of such strings, or a mapping.

    Raises `ValueError` if a part has no ``=``, or `convert` raises it.
    """
    if isinstance(value, Mapping):
        return dict(value)
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, Sequence):
        raise ValueError("not pairs")
    pairs: dict[str, object] = {}
    for part in parts:
        name, equals, text = str(part).partition("=")
        if not equals or not name.strip():
            raise ValueError("not a pair")
        pairs[name.strip()] = convert(text.strip())
    return pairs


def format_count(number: int, unit: str) -> str:
    """Format a count with its unit, such as ``1,250 tasks``."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
