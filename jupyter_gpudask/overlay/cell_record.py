"""The options of a cell for its results, and what its computations left on the CPU."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class CellRecord:
    """One for each GPU cell.

    Attributes
    ----------
    to_host
        Whether results are returned as NumPy and pandas objects.
    on_host
        Collections that were computed on the CPU, by name, with the line that did it.
    moved_for_result
        Keys of collections on GPUs whose blocks were converted only because their result was wanted on the host.
    """

    to_host: bool = False
    on_host: dict[str, int] = field(default_factory=dict)
    moved_for_result: set[str] = field(default_factory=set)
