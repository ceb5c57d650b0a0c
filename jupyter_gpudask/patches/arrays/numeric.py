"""Quotients and remainders of floating-point numbers on GPUs, as NumPy has them.

CuPy 14.2 rounds ``x / y`` first: ``1.0 // 0.1`` is 10 there, and 9 in NumPy, for 0.1 is a little more than a tenth;
``1.0 % 0.1`` is 0, and ``2.0 % inf`` is NaN. NumPy takes the remainder first, which is exact: C99, 7.12.10.1, ``fmod``.
For columns of cuDF 26.10, which rounds first too, there is a warning.
"""

from __future__ import annotations

import operator
import warnings
from typing import TYPE_CHECKING, Any

import dask._collections
import numpy as np
from dask.array import core

from ...inspection.caller import user_frame
from ...inspection.placement import place_of, place_of_partitions
from ..interception import first_argument, intercept

if TYPE_CHECKING:
    from collections.abc import Callable


def remainder(x: Any, y: Any) -> Any:
    """As `numpy.remainder`, of blocks of real numbers that broadcast; of the sign of `y`."""
    rest = np.fmod(x, y)
    rest = np.where(_crosses_zero(rest, y), rest + y, rest)
    return np.where(rest == 0, np.copysign(rest, y), rest)


def floor_divide(x: Any, y: Any) -> Any:
    """As `numpy.floor_divide`, of blocks of real numbers that broadcast."""
    rest, plain = np.fmod(x, y), x / y
    quotient = (x - rest) / y  # a whole number but for rounding
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


def install_division() -> None:
    """Mend ``%``, ``//``, `divmod` and their functions in `dask.array`; a second time does nothing."""
    intercept(core.elemwise, _elemwise)
    intercept(dask._collections.new_collection, _warn_of_frames)  # noqa: SLF001


def _elemwise(elemwise: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    # A scalar has no place of its own; of whole numbers CuPy's are right.
    op, operands = args[:1], args[1:]
    if op and op[0] in _MENDED and kwargs.get("where", True) is True and "gpu" in map(place_of, operands):
        op = (_MENDED[op[0]],) if _type_of(operands).kind == "f" else op
    return elemwise(*op, *operands, **kwargs)


def _type_of(numbers: tuple[Any, ...]) -> np.dtype[Any]:
    return np.result_type(*(getattr(number, "dtype", None) or np.asarray(number).dtype for number in numbers))


def _warn_of_frames(make: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    expression = first_argument(make, args, kwargs)
    sign = {"FloorDiv": "//", "Mod": "%"}.get(type(expression).__name__)
    if sign and place_of_partitions(expression) == "gpu" and _has_floats(expression._meta):  # noqa: SLF001
        frame = user_frame()
        if frame is not None:
            text = f"cuDF rounds the quotient of x {sign} y first: 1.0 // 0.1 is 10, and 9 in pandas."
            warnings.warn_explicit(text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)
    return make(*args, **kwargs)


def _has_floats(meta: Any) -> bool:
    """Of a frame, a series or an index; a number, which has been computed from one, is no column."""
    if not getattr(meta, "ndim", 0):
        return False
    dtypes = meta.dtypes if meta.ndim > 1 else [meta.dtype]
    return any(getattr(dtype, "kind", "") == "f" for dtype in dtypes)
