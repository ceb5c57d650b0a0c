"""``%gpudask fallbacks``: list operations that ran on the CPU in this kernel because CuPy or cuDF lack them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...fallback.log import fallback_log
from ..views.base import Note, View, format_table, html_table

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADS = ("operation", "line", "blocks", "seconds", "what the library said")


@dataclass(frozen=True)
class FallbackRow:
    """An operation that ran on the CPU.

    Attributes
    ----------
    operation
        The name of the function.
    line
        The line of its cell; 0 if it is not known.
    blocks
        The number of blocks or partitions.
    seconds
        The sum of the times of the blocks, with the copies of the data.
    words
        The error in which CuPy or cuDF said that they lack it.
    """

    operation: str
    line: int
    blocks: int
    seconds: float
    words: str


class FallbacksView(View):
    """The operations as a table, those with the longest time first.

    Attributes
    ----------
    fallbacks
        The rows.
    """

    def __init__(self, fallbacks: Sequence[FallbackRow]) -> None:
        self.fallbacks = tuple(fallbacks)

    def __str__(self) -> str:
        return format_table(_HEADS, self._rows())

    def to_html(self) -> str:
        """The table."""
        return html_table(_HEADS, self._rows(), align="left")

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (row.operation, str(row.line or ""), f"{row.blocks:,}", f"{row.seconds:.2f}", row.words)
            for row in self.fallbacks
        ]


def list_fallbacks() -> View:
    """What has run on the CPU in this kernel and its workers, since the kernel was started."""
    rows = [
        FallbackRow(place.operation, place.line, blocks, fallback_log.seconds[place], place.words)
        for place, blocks in fallback_log.blocks.copy().items()
    ]
    if not rows:
        return Note("Nothing has run on the CPU because CuPy or cuDF lack it.")
    return FallbacksView(sorted(rows, key=lambda row: -row.seconds))
