"""What a cell wants of its computations, and what was seen of them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Watch:
    """One for each cell.

    Attributes
    ----------
    to_host
        Whether results come as NumPy and pandas.
    on_host
        Collections that stayed on the CPU, by name, with the line.
    brought
        Keys of the collections that were moved for their results alone.
    """

    to_host: bool = False
    on_host: dict[str, int] = field(default_factory=dict)
    brought: set[str] = field(default_factory=set)
