"""Element-wise functions whose results on GPUs differ from NumPy's: quotients, remainders, ``angle`` and ``sinc``.

CuPy 14.2 rounds ``x / y`` first: ``1.0 // 0.1`` is 10 there, and 9 in NumPy, because 0.1 is slightly more than a tenth;
``1.0 % 0.1`` is 0, and ``2.0 % inf`` is NaN. NumPy computes the remainder first, which is exact (C99, 7.12.10.1, fmod).
For columns of cuDF 26.10, which rounds first too, there is a warning. The angles of NaN and of -0.0, and ``sinc`` of
NaN, are wrong in CuPy 14.2.
"""

from __future__ import annotations

import operator
import warnings
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.array.core import Array, handle_out
from dask.array.routines import where

from ...inspection.arguments import bind, first_argument
from ...inspection.placement import place_of, place_of_partitions
from ...inspection.user_code import user_frame

if TYPE_CHECKING:
    from collections.abc import Callable


def remainder(x: Any, y: Any) -> Any:
    """As `numpy.remainder`, for blocks of real numbers that broadcast; the result has the sign of `y`."""
    rest = np.fmod(x, y)
    rest = np.where(_crosses_zero(rest, y), rest + y, rest)
    return np.where(rest == 0, np.copysign(rest, y), rest)


def floor_divide(x: Any, y: Any) -> Any:
    """As `numpy.floor_divide`, for blocks of real numbers that broadcast."""
    rest, plain = np.fmod(x, y), x / y
    quotient = (x - rest) / y  # an integer except for rounding
    quotient = np.where(_crosses_zero(rest, y), quotient - 1, quotient)
    whole = np.floor(quotient)
    whole = np.where(quotient - whole > 0.5, whole + 1, whole)
    whole = np.where(quotient == 0, np.copysign(quotient, plain), whole)
    return np.where(np.equal(y, 0), plain, whole)


def _crosses_zero(rest: Any, y: Any) -> Any:
    return (rest != 0) & ((rest < 0) != np.less(y, 0))


_MENDED = {
    np.remainder: remainder,
    operator.mod: remainder,
    np.floor_divide: floor_divide,
    operator.floordiv: floor_divide,
}

_QUOTIENTS = {"FloorDiv": "//", "Mod": "%"}
"""The operators of expressions of dataframes."""


def elemwise(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.core.elemwise`, with the quotients and remainders of this module for floats on GPUs.

    A result that is to be written into an array of the call is written there, as NumPy does.

    Raises
    ------
    TypeError
        That array cannot hold such a result, as one of integers cannot hold fractions.
    """
    __tracebackhide__ = True
    # A scalar is on no device; for integers CuPy's results are correct.
    op, operands = args[:1], args[1:]
    out = _positional_out(op, operands)
    if out is not None and "out" not in kwargs and "gpu" in map(place_of, operands):
        written = elemwise(original, *op, *operands[:-1], **kwargs)
        if not np.can_cast(written.dtype, out.dtype, "same_kind"):
            raise TypeError(f"Cannot cast the result from {written.dtype!r} to {out.dtype!r} of the array out.")
        written = written.astype(out.dtype)
        handle_out(out, written)
        return written  # not `out` itself, as on the CPU
    if op and op[0] in _MENDED and kwargs.get("where", True) is True and "gpu" in map(place_of, operands):
        op = (_MENDED[op[0]],) if _type_of(operands).kind == "f" else op
    return original(*op, *operands, **kwargs)


def _positional_out(op: tuple[Any, ...], operands: tuple[Any, ...]) -> Any:
    """The array in which ``da.isfinite(x, y)`` writes; Dask takes it for an operand. `None` if there is none."""
    inputs = op[0].nin if op and isinstance(op[0], np.ufunc) else len(operands)
    out = operands[inputs] if len(operands) == inputs + 1 else None
    return out if isinstance(out, Array) else None


def _type_of(numbers: tuple[Any, ...]) -> np.dtype[Any]:
    return np.result_type(*map(_for_result_type, numbers))


def _for_result_type(number: Any) -> Any:
    """The dtype of an operand; a number of Python itself, which does not make floats of unsigned integers."""
    if type(number) in (bool, int, float, complex):
        return number
    return getattr(number, "dtype", None) or np.asarray(number).dtype


def warn_about_cudf_division(expression: Any) -> None:
    """Warn if an expression is a quotient of floating-point numbers on GPUs, which cuDF rounds."""
    sign = _QUOTIENTS.get(type(expression).__name__)
    if sign and place_of_partitions(expression) == "gpu" and _has_floats(expression._meta):  # noqa: SLF001
        frame = user_frame()
        if frame is not None:
            text = f"cuDF rounds the quotient of x {sign} y first: 1.0 // 0.1 is 10, and 9 in pandas."
            warnings.warn_explicit(text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)


def _has_floats(meta: Any) -> bool:
    """Whether a dataframe, Series or index has floating-point columns; scalars do not count."""
    if not getattr(meta, "ndim", 0):
        return False
    dtypes = meta.dtypes if meta.ndim > 1 else [meta.dtype]
    return any(getattr(dtype, "kind", "") == "f" for dtype in dtypes)


def angle(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.angle`, with NumPy's results for NaN and -0.0."""
    __tracebackhide__ = True
    x = first_argument(original, args, kwargs)
    if not _is_array_on_gpu(x) or x.dtype.kind not in "iuf":
        return original(*args, **kwargs)
    radians = da.arctan2(0, x)
    return da.rad2deg(radians) if bind(original, args, kwargs).arguments.get("deg") else radians


def sinc(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.sinc`, with NumPy's results for NaN, and its dtype for integers."""
    __tracebackhide__ = True
    x = first_argument(original, args, kwargs)
    if _is_array_on_gpu(x) and x.dtype.kind in "biu":
        return original(x.astype(float))
    result = original(*args, **kwargs)
    if not _is_array_on_gpu(x) or x.dtype.kind not in "fc":
        return result
    return where(da.isnan(x), x, result)


def _is_array_on_gpu(x: Any) -> bool:
    return place_of(x) == "gpu" and not hasattr(x, "expr")
