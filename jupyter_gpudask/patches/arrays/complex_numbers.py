"""Functions of complex numbers on GPUs with NumPy's results beside infinities, zeros and NaN.

CuPy 14.2 divides by multiplying with a reciprocal: ``1j / 0j`` and ``1 / (inf + 0j)`` are NaN there, and infinite and
0 in NumPy. Its exponential and power differ beside infinities, too. `nansum` and `nanprod` replace only that part of a
complex number that is NaN; of NaN in both parts, `nanprod` makes ``1 + 1j``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import dask.array as da
import numpy as np
from dask.array.core import elemwise
from dask.utils import funcname

from ...fallback.values import to_gpu
from ...inspection.arguments import bind
from ...inspection.placement import is_type_of_gpu, place_of
from ...inspection.results import results_to_host

_NAMES = (
    "arccos arccosh arcsin arcsinh arctan arctanh cos cosh divide exp exp2 expm1 float_power log log10 log1p log2 "
    "power reciprocal sin sinh sqrt tan tanh true_divide"
)
INEXACT = frozenset([operator.pow, operator.truediv, *(getattr(np, name) for name in _NAMES.split())])
"""Functions whose formulas for complex numbers differ from those of NumPy."""


@dataclass(frozen=True)
class ComplexFunction:
    """A function of complex numbers. Where its result or an operand on a GPU is not finite, NumPy computes it."""

    function: Callable[..., Any]
    is_elementwise: ClassVar[bool] = True

    @property
    def __name__(self) -> str:
        return funcname(self.function)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.function

    def __call__(self, *operands: Any) -> Any:
        """The result for blocks, where they are."""
        result = self.function(*operands)
        if not is_type_of_gpu(type(result)) or result.dtype.kind != "c":
            return result
        unusual = ~np.isfinite(result)
        for each in operands:
            if getattr(each, "ndim", 0):
                unusual = unusual | ~np.isfinite(each)
        if not unusual.any():
            return result
        if result.ndim:
            operands = tuple(
                np.broadcast_to(each, result.shape)[unusual] if getattr(each, "ndim", 0) else each for each in operands
            )
        with np.errstate(all="ignore"):  # as on a GPU
            values = to_gpu(self.function(*results_to_host(operands)), {"cupy"})
        if not result.ndim:
            return values
        result[unusual] = values
        return result


def without_partial_nan(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.nansum` and its like, which skip a complex number if one of its parts is NaN."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    array = call.arguments["a"]
    if place_of(array) != "gpu" or getattr(array, "dtype", np.dtype(float)).kind != "c":
        return original(*args, **kwargs)
    is_product = original.__name__ == "nanprod"  # that of CuPy fails for a block without elements
    # Not by a `where` with the array twice: Dask 2026.7 repeats an array of one element in each of its blocks there.
    call.arguments["a"] = elemwise(_with_ones if is_product else _with_whole_nan, array)
    return (da.prod if is_product else original)(*call.args, **call.kwargs)


def _with_ones(block: Any) -> Any:
    return np.where(np.isnan(block), 1, block)


def _with_whole_nan(block: Any) -> Any:
    return np.where(np.isnan(block), complex(np.nan, np.nan), block)
