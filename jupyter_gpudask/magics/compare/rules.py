"""Rules for what counts as a difference between a result of the CPU and a result of the GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

_FULL = ("float64", "complex128")
_SINGLE = ("float32", "complex64")


@dataclass(frozen=True)
class Comparison:
    """The comparison of two results.

    Attributes
    ----------
    agrees
        `None` if they were not compared.
    text
        What differs and where, or why they were not compared.
    """

    agrees: bool | None
    text: str


def agree(text: str) -> Comparison:
    """The results agree."""
    return Comparison(agrees=True, text=text)


def differ(text: str) -> Comparison:
    """The results differ."""
    return Comparison(agrees=False, text=text)


def not_compared(text: str) -> Comparison:
    """The results were not compared."""
    return Comparison(agrees=None, text=text)


@dataclass(frozen=True)
class Rules:
    """What counts as a difference.

    Attributes
    ----------
    relative
        The relative tolerance of floating-point numbers, by dtype; the largest of the two dtypes counts.
    absolute
        The absolute tolerance, by dtype; `None` for the relative one times the median of the array.
    dtypes
        Whether other dtypes are a difference; else other floating-point dtypes are reported and agree.
    row_order
        Whether another order of the rows of a dataframe is a difference (``"fixed"``), is reported (``"reported"``), or
        is open, with any index that follows it (``"open"``, which holds for arrays of one dimension, too).
    compare_values
        Whether values are compared, or dtypes and numbers of dimensions only.
    compare_shapes
        Whether the shapes of arrays are compared.
    """

    relative: Mapping[str, float] = field(
        default_factory=lambda: {"float16": 1e-2} | dict.fromkeys(_SINGLE, 1e-4) | dict.fromkeys(_FULL, 1e-9)
    )
    absolute: Mapping[str, float] | None = None
    dtypes: bool = False
    row_order: Literal["fixed", "reported", "open"] = "reported"
    compare_values: bool = True
    compare_shapes: bool = True

    def tolerance(self, cpu: np.ndarray[Any, Any], gpu: np.ndarray[Any, Any]) -> tuple[float, float]:
        """The relative and the absolute tolerance for two arrays."""
        names = (cpu.dtype.name, gpu.dtype.name)
        relative = max(self.relative.get(name, 0.0) for name in names) or self.relative["float64"]
        if self.absolute is not None:
            return relative, max(self.absolute.get(name, 0.0) for name in names) or self.absolute["float64"]
        sizes = np.abs(cpu[np.isfinite(cpu)]).astype(float)
        # The median of an even number of sizes is computed from their sum, which may be infinite: then all would agree.
        return relative, relative * 2 * float(np.median(sizes / 2)) if sizes.size > 1 else 0.0

    def without_values(self) -> Rules:
        """The same rules, which compare dtypes and numbers of dimensions only."""
        return replace(self, compare_values=False, compare_shapes=False)


COMPARE_RULES = Rules()
"""For ``--compare``: a user reads the report, so dtypes and the order of rows are reported and not refused."""

STRICT_RULES = Rules(
    relative=dict.fromkeys(("float16", *_SINGLE), 1e-3) | dict.fromkeys(_FULL, 1e-6),
    absolute=dict.fromkeys(("float16", *_SINGLE), 1e-5) | dict.fromkeys(_FULL, 1e-9),
    dtypes=True,
    row_order="fixed",
)
"""For tests: dtypes and the order of rows are part of the result, and numbers may differ by accumulated rounding."""
