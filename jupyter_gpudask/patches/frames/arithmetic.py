"""Arithmetic with booleans and small integers of dataframes on GPUs, with pandas' results.

cuDF 26.10 converts a number beside booleans to a small integer: True - 0.5 is 1, and True + 127 is -128. Booleans of
Arrow are unequal to all numbers there. It divides booleans and integers of up to 32 bits with 24 bits of precision:
16777217 / 1 is 16777216. If all infinite quotients of a column have another sign than their dividends, it multiplies
the column by -1: inf / -2 is infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from dask.base import normalize_token
from dask.dataframe.dask_expr._expr import Diff, MethodOperator
from dask.utils import funcname

from ...inspection.placement import is_type_of_gpu
from .quotients import QUOTIENTS, quotient
from .rules import SameColumns, dtypes_of, meta_of, of_columns

_DIVISIONS = {"div", "divide", "rdiv", "rtruediv", "true_divide", "truediv"}

_FLOORED = {"floor_divide", "floordiv", "rfloordiv"}

OPERATORS_OF_NUMPY = {
    *("add", "divide", "floor_divide", "multiply", "power", "remainder", "subtract"),
    *("equal", "greater", "greater_equal", "less", "less_equal", "not_equal"),
}
"""Functions of NumPy, by name, for which cuDF calls its own operators."""


class Arithmetic:
    """An operation whose operands are first converted to the dtypes with which pandas computes.

    - `operation`: an operation of two operands, or of the name of a method and two operands.
    """

    def __init__(self, operation: Callable[..., Any]) -> None:
        self.operation = operation
        self.__name__ = funcname(operation)  # the prefix of Dask's keys

    def __dask_tokenize__(self) -> Any:
        return normalize_token((type(self).__name__, self.operation))

    def __call__(self, *operands: Any, **kwargs: Any) -> Any:
        """The result for one partition."""
        name = operands[0] if isinstance(operands[0], str) else self.__name__
        kind = "float64" if name in _DIVISIONS else _kind_of_number(operands)
        operands = tuple(_converted(each, kind, divides=name in _DIVISIONS) for each in operands)
        if name in QUOTIENTS and any(is_type_of_gpu(type(each)) for each in operands):
            result = quotient(self.operation, operands, kwargs)
        else:
            result = self.operation(*operands, **kwargs)
        return _with_signs(result, operands) if name in _DIVISIONS | _FLOORED else result


def is_division(expression: Any) -> bool:
    """Whether the operation, or the method of that name, divides."""
    name = expression.operand("name") if isinstance(expression, MethodOperator) else expression.operation.__name__
    return name in _DIVISIONS or name in QUOTIENTS


def _with_signs(result: Any, operands: tuple[Any, ...]) -> Any:
    """Quotients with the signs that follow from those of the operands; see the module."""
    if not is_type_of_gpu(type(result)):
        return result
    sides = [each for each in operands if getattr(each, "ndim", 0) or isinstance(each, int | float | np.number)][:2]
    if len(sides) < 2 or any(getattr(each, "ndim", 0) not in {0, result.ndim} for each in sides):
        return result
    if result.ndim == 1:
        return -1 * result if _is_negated(result, sides) else result
    names = [name for name in result.columns if all(name in each.columns for each in sides if getattr(each, "ndim", 0))]
    negated = {
        name: -1 * result[name]
        for name in names
        if _is_negated(result[name], [each[name] if getattr(each, "ndim", 0) else each for each in sides])
    }
    if not negated:
        return result
    changed = result.copy(deep=False)
    for name, column in negated.items():
        changed[name] = column
    return changed


def _is_negated(result: Any, sides: list[Any]) -> bool:
    """Whether an infinite quotient of a column has the wrong sign; a column with missing values is left as it is."""
    columns = [each for each in (result, *sides) if getattr(each, "ndim", 0)]
    are_numbers = all(getattr(each.dtype, "kind", "O") in "iuf" for each in columns)
    if not are_numbers or any(getattr(each, "null_count", 0) for each in columns):
        return False
    values = result.values  # noqa: PD011 - on the GPU
    infinite = np.isinf(values)
    if not infinite.any() or not all(each.index.equals(result.index) for each in columns[1:]):
        return False
    numbers = (each.values if getattr(each, "ndim", 0) else float(each) for each in sides)  # noqa: PD011
    first, second = map(np.signbit, numbers)
    return bool((infinite & (np.signbit(values) != (first != second))).any())


def is_converted(expression: Any) -> bool:
    """Whether an operand of an expression on GPUs has booleans or small integers."""
    return any(
        _is_boolean(dtype) or is_small(dtype)
        for part in expression.dependencies()
        if part.ndim
        for dtype in dtypes_of(part._meta).values()  # noqa: SLF001
    )


def _kind_of_number(operands: tuple[Any, ...]) -> str:
    """The dtype for booleans beside the numbers among the operands; empty if there is none."""
    numbers = [each for each in operands if isinstance(each, int | float | np.number) and not isinstance(each, bool)]
    if any(isinstance(each, float | np.floating) for each in numbers):
        return "float64"
    return "int64" if numbers else ""


def _converted(operand: Any, kind: str, *, divides: bool) -> Any:
    if not kind or not is_type_of_gpu(type(operand)) or not getattr(operand, "ndim", 0):
        return operand
    return with_numbers(operand, kind, small=divides)


def with_numbers(operand: Any, kind: str = "float64", *, small: bool = False) -> Any:
    """A dataframe or Series with numbers of this dtype for booleans, and with `small` for small integers, too."""
    chosen = {
        name: _of_kind(kind, dtype)
        for name, dtype in dtypes_of(operand).items()
        if _is_boolean(dtype) or (small and is_small(dtype))
    }
    return operand.astype(of_columns(operand, chosen)) if chosen else operand


def _of_kind(kind: str, dtype: Any) -> str:
    """The dtype of numbers of this kind that has the missing values of another dtype."""
    if isinstance(dtype, pd.ArrowDtype):
        return f"{'double' if kind == 'float64' else kind}[pyarrow]"
    return kind if isinstance(dtype, np.dtype) else kind.capitalize()


class Converted(SameColumns):
    """Columns with the dtypes with which pandas computes, as far as these hold their values."""

    _parameters = ["frame", "dtypes"]  # noqa: RUF012 - as in Dask

    def _simplify_down(self) -> Any:
        """With the dtypes of the columns that are selected."""
        given = self.operand("dtypes")
        if self.frame.ndim == 1:
            return None
        left = {name: dtype for name, dtype in given.items() if name in self.frame.columns}
        return converted(self.frame, left) if len(left) < len(given) else None

    @staticmethod
    def operation(frame: Any, dtypes: Any) -> Any:
        """The result for one partition; `dtypes` are those of columns, or is that of a Series."""
        if hasattr(frame, "nans_to_nulls"):
            frame = frame.nans_to_nulls()  # in nullable dtypes NaN is missing
        if frame.ndim == 1:
            dtype = dtypes.get(frame.name, frame.dtype) if isinstance(dtypes, dict) else dtypes
            return frame.astype(dtype) if _fits(frame, dtype) else frame
        chosen = {name: dtype for name, dtype in dtypes.items() if name in frame.columns and _fits(frame[name], dtype)}
        return frame.astype(chosen)


def _fits(column: Any, dtype: Any) -> bool:
    """Whether the values are in the range of the dtype; products of groups may be larger than those of the metadata."""
    dtype = pd.api.types.pandas_dtype(dtype)
    if getattr(getattr(column, "dtype", None), "kind", "O") not in "iu" or not is_small(dtype):
        return True
    bounds = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
    return bool(column.between(bounds.min, bounds.max).fillna(value=True).all())


def converted(frame: Any, dtypes: dict[Any, Any]) -> Any:
    """An expression with columns of these dtypes; as it is if there are none."""
    return Converted(frame, of_columns(frame, dtypes)) if dtypes else frame


def with_floats(expression: Any) -> Any:
    """A shift, or the difference from another row; in cuDF it has integers, of which some are missing."""
    if meta_of(expression) is None:
        return expression
    given = dtypes_of(expression.frame._meta)  # noqa: SLF001
    changed = {
        name: str(dtype)
        for name, dtype in dtypes_of(expression._meta).items()  # noqa: SLF001
        if getattr(dtype, "kind", "O") == "f" and getattr(given.get(name), "kind", "O") in "iu"
    }
    if isinstance(expression, Diff):  # the difference of two may be none of their dtype
        small = {name: dtype for name, dtype in changed.items() if is_small(given[name]) and given[name].kind == "i"}
        expression = type(expression)(converted(expression.frame, small), *expression.operands[1:])
    return converted(expression, changed)


def with_unsigned_integers(expression: Any) -> Any:
    """A sum or product of the rows so far, of unsigned integers of 64 bits where they are smaller: cuDF's is signed."""
    small = {
        name: "uint64" if isinstance(dtype, np.dtype | pd.ArrowDtype) else "UInt64"
        for name, dtype in dtypes_of(expression.frame._meta).items()  # noqa: SLF001
        if is_small(dtype) and dtype.kind == "u"
    }
    return type(expression)(converted(expression.frame, small), *expression.operands[1:])


def with_signed_sums(expression: Any) -> Any:
    """The sum or product of a Series, of integers for booleans of Arrow: cuDF's of these is an unsigned integer."""
    frame = expression.frame
    (dtype,) = dtypes_of(meta_of(frame)).values() if frame.ndim == 1 else (None,)
    are_changed = isinstance(dtype, pd.ArrowDtype) and dtype.kind == "b"
    return (
        type(expression)(converted(frame, {None: _of_kind("int64", dtype)}), *expression.operands[1:])
        if are_changed
        else expression
    )


def with_units(expression: Any) -> Any:
    """What it is made of, with times in the units of the metadata; those of cuDF's partitions may have others."""
    given = dtypes_of(expression.frame._meta).items()  # noqa: SLF001
    times = {name: str(dtype) for name, dtype in given if isinstance(dtype, np.dtype) and dtype.kind in "mM"}
    return converted(expression.frame, times)


def with_nullable_dtypes(expression: Any, kinds: str = "iuf") -> Any:
    """Numbers with their nullable dtypes, in which NaN is missing; cuDF's have others, in which it is a number."""
    meta = meta_of(expression)
    found = dtypes_of(meta).items() if getattr(meta, "ndim", 0) else ()
    numbers = {name: dtype for name, dtype in found if getattr(dtype, "kind", "O") in kinds}
    nullable = {name: str(dtype) for name, dtype in numbers.items() if not isinstance(dtype, np.dtype)}
    return converted(expression, nullable)


def _is_boolean(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype | pd.BooleanDtype | pd.ArrowDtype) and dtype.kind == "b"


def is_small(dtype: Any) -> bool:
    """Whether these are integers of which cuDF makes floating-point numbers of 32 bits."""
    if isinstance(dtype, pd.api.extensions.ExtensionDtype):
        dtype = getattr(dtype, "numpy_dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype.itemsize < 8
