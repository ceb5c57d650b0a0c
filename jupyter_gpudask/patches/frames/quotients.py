"""``//`` and ``%`` of dataframes on GPUs with pandas' results for floats.

cuDF 26.10 rounds the quotient before the floor: 1.0 // 0.1 is 10, and 1.0 % -inf is NaN. CuPy computes both here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from dask.utils import funcname

from ...fallback.missing import DifferentResultError
from ..arrays.numeric import floor_divide, remainder
from .rules import dtypes_of

QUOTIENTS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("floordiv", "floor_divide"), floor_divide),
    **dict.fromkeys(("mod", "remainder"), remainder),
    "rfloordiv": lambda x, y: floor_divide(y, x),
    "rmod": lambda x, y: remainder(y, x),
}
"""Operators, methods and functions of NumPy, by name, that cuDF rounds for floats."""


def quotient(operation: Callable[..., Any], operands: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The result of an operation, or of one of the name of a method, for two operands at the end of its arguments.

    Raises `DifferentResultError`: pandas aligns the operands or has options, and there are floats.
    """
    *method, left, right = operands
    plain = partial(operation, *method)
    if not (_is_rounded(left) or _is_rounded(right)):
        return plain(left, right, **options)
    if any(value is not None for option, value in options.items() if option != "axis"):
        raise DifferentResultError(_ROUNDED)
    return _Quotient(QUOTIENTS[method[0] if method else funcname(operation)], plain).of(left, right)


_ROUNDED = "cuDF rounds quotients of floats"


def _is_rounded(operand: Any) -> bool:
    """Whether it has floats of which cuDF rounds the quotient first; of Arrow's, pandas does, too."""
    if not getattr(operand, "ndim", 0):
        return isinstance(operand, float | np.floating)
    return any(getattr(_number_of(dtype), "kind", "") == "f" for dtype in dtypes_of(operand).values())


def _number_of(dtype: Any) -> Any:
    """The dtype of NumPy of numbers, also of nullable ones; `None` for others, such as those of Arrow."""
    if isinstance(dtype, pd.api.extensions.ExtensionDtype) and not isinstance(dtype, pd.ArrowDtype):
        dtype = getattr(dtype, "numpy_dtype", None)
    return dtype if isinstance(dtype, np.dtype) and dtype.kind in "biuf" else None


class _Quotient:
    """A function of columns and numbers that CuPy computes; `plain` is that of cuDF, for columns without floats."""

    def __init__(self, function: Callable[[Any, Any], Any], plain: Callable[[Any, Any], Any]) -> None:
        self._function, self._plain = function, plain

    def of(self, *sides: Any) -> Any:
        """The result; raises `DifferentResultError` if pandas would align the dataframes or Series."""
        frames = [each for each in sides if getattr(each, "ndim", 0)]
        first = frames[0]
        are_alike = hasattr(first, "index") and all(
            type(each) is type(first)
            and (each.ndim == 1 or list(each.columns) == list(first.columns))
            and each.index.equals(first.index)
            for each in frames
        )
        if not are_alike:
            raise DifferentResultError(_ROUNDED)
        if first.ndim == 1:
            return self._of_columns(sides)
        if not len(first.columns):
            return self._plain(*sides)  # with the index
        pairs = {name: [each[name] if getattr(each, "ndim", 0) else each for each in sides] for name in first.columns}
        result = type(first)({name: self._of_columns(pair) for name, pair in pairs.items()})
        result.columns = first.columns  # with their name
        return result

    def _of_columns(self, sides: Sequence[Any]) -> Any:
        sides = [each.item() if isinstance(each, np.generic) else each for each in sides]
        columns = [each for each in sides if getattr(each, "ndim", 0)]
        numbers = [each for each in sides if isinstance(each, int | float)]
        dtypes = [dtype for each in columns if (dtype := _number_of(each.dtype)) is not None]
        dtype = np.result_type(*dtypes, *numbers)
        if len(dtypes) + len(numbers) < len(sides) or dtype.kind != "f":
            return self._plain(*sides)
        values = (_values(each, dtype) if getattr(each, "ndim", 0) else each for each in sides)
        first, last = columns[0], columns[-1]
        name = first.name if first.name == last.name else None
        return type(first)(self._function(*values), index=first.index, name=name)


def _values(column: Any, dtype: np.dtype[Any]) -> Any:
    """The numbers of a column on the GPU, with NaN for missing ones."""
    if not column.hasnans:
        return column.astype(dtype).values  # noqa: PD011 - on the GPU
    return np.where(column.isna().values, dtype.type(np.nan), column.fillna(1).astype(dtype).values)
