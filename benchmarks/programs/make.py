"""The program of a seed."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from .arrays import array_program
from .frames import frame_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .program import Kind, Program

_MAKE = {"frame": frame_program, "array": array_program}


def make(seed: int, kinds: Sequence[Kind] = ("frame", "array")) -> Program:
    """The program of a seed; the seed also chooses one of the kinds."""
    kind = kinds[zlib.crc32(str(seed).encode()) % len(kinds)]
    return _MAKE[kind](seed)
