"""Functions and assignments of arrays on GPUs with the values of NumPy, where CuPy 14.2 has others or fails.

CuPy rounds ``x / y`` first: ``1.0 // 0.1`` is 10 there, and 9 in NumPy, because 0.1 is slightly more than a tenth;
``1.0 % 0.1`` is 0, and ``2.0 % inf`` is NaN. NumPy computes the remainder first, which is exact (C99, 7.12.10.1, fmod).
The angles of NaN and of -0.0 are wrong in CuPy, and its ``sinc`` is 1 for NaN and 0 for integers. It computes `i0` of
small integers with 16 bits, `float_power` of complex numbers with 64, and `fmod` of integers with floats. A negative
power of an integer is 0 there, and an error in NumPy.

In ``x[key] = value``, CuPy drops the mask of a masked value. Dask marks indices that belong to other blocks by the size
of the block, and removes these marks from NumPy's indices only; CuPy counts an index beyond the end from the beginning
again, so that it would assign to other elements. Indices on the host are correct for both.

Dask computes ``da.multiply(x, y, dtype=float)`` in the dtype of the operands and converts the result, which may have
overflowed, and so it computes `da.average`. It adds the products of small integers and of booleans as large integers.
Of `da.unique`, NaN has the count 0 and an index of another value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.array.core import Array, handle_out
from dask.array.reductions import moment_combine
from dask.array.routines import where

from ...errors import NotOnGpuError
from ...inspection.arguments import bind, first_argument
from ...inspection.placement import can_move, name_of, place_of, to_gpu, to_host
from ...inspection.user_code import user_line
from ...overlay import current_record
from ..host_fallback import note_on_host, refuse_if_strict
from .complex_numbers import INEXACT, ComplexFunction
from .operand_placement import on_numpy


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


def sinc(x: Any) -> Any:
    """As `numpy.sinc`, for blocks of floats and complex numbers."""
    angle = np.pi * x
    return np.where(angle == 0, x.dtype.type(1), np.sin(angle) / angle)


def fmod(x: Any, y: Any) -> Any:
    """As `numpy.fmod`, for blocks of integers that broadcast; the result has the sign of `x`."""
    rest = x % y
    return np.where((rest != 0) & ((x < 0) != np.less(y, 0)), rest - y, rest)


def power(x: Any, y: Any) -> Any:
    """As `numpy.power`, for integers to the power of a block of integers.

    Raises `ValueError`: one of them is negative.
    """
    if (y < 0).any():
        raise ValueError("Integers to negative integer powers are not allowed.")
    return np.power(x, y)


def _crosses_zero(rest: Any, y: Any) -> Any:
    return (rest != 0) & ((rest < 0) != np.less(y, 0))


_MENDED = {
    np.remainder: remainder,
    operator.mod: remainder,
    np.floor_divide: floor_divide,
    operator.floordiv: floor_divide,
    np.sinc: sinc,
}
"""For floats."""

_MENDED_FOR_INTEGERS = {np.fmod: fmod, np.power: power, operator.pow: power}

_WRAPPED = 4
"""Bytes of an integer. A float becomes a smaller one on x86 by way of a larger one, whose low bytes are taken."""


def elemwise(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.core.elemwise`, with the quotients and remainders of this module for floats on GPUs.

    A result that is to be written into an array of the call is written there, as NumPy does.

    Raises `TypeError`: that array cannot hold such a result, as one of integers cannot hold fractions.
    """
    __tracebackhide__ = True
    # A scalar is on no device; for integers CuPy's results are correct.
    op, operands = args[:1], args[1:]
    operands = _in_dtype(op, operands, kwargs.get("dtype"))
    out = _positional_out(op, operands)
    if out is not None and "out" not in kwargs and "gpu" in map(place_of, operands):
        written = elemwise(original, *op, *operands[:-1], **kwargs)
        if not np.can_cast(written.dtype, out.dtype, "same_kind"):
            raise TypeError(f"Cannot cast the result from {written.dtype!r} to {out.dtype!r} of the array out.")
        written = written.astype(out.dtype)
        handle_out(out, written)
        return written  # not `out` itself, as on the CPU
    if op and kwargs.get("where", True) is True and "gpu" in map(place_of, operands):
        dtype = _type_of(operands)
        if wide := _wider_dtype(op[0], dtype):
            operands = tuple(each.astype(wide) if isinstance(each, Array) else each for each in operands)
            dtype = np.dtype(wide)
        if op[0] in _MENDED and dtype.kind == "f":
            op = (_MENDED[op[0]],)
        elif op[0] is np.sinc and dtype.kind == "c":
            op = (ComplexFunction(sinc),)
        elif op[0] in INEXACT and dtype.kind == "c":
            op = (ComplexFunction(op[0]),)
        elif op[0] in _MENDED_FOR_INTEGERS and dtype.kind in "iu" and _is_mended(op[0], operands[-1]):
            op = (_MENDED_FOR_INTEGERS[op[0]],)
        elif op[0] is operator.pow and _type_of(operands[:1]).kind == "b":
            # Of NumPy, x ** 2 has the dtype of a square, which CuPy does not compute.
            kwargs.setdefault("dtype", original(*op, *operands).dtype)
    return original(*op, *operands, **kwargs)


def _in_dtype(op: tuple[Any, ...], operands: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """The operands, if one is on a GPU, in the dtypes in which NumPy computes a result of numbers of a dtype."""
    if dtype is None or not op or not isinstance(op[0], np.ufunc) or len(operands) != op[0].nin:
        return operands
    if "gpu" not in map(place_of, operands) or np.dtype(dtype).kind not in "biufc":
        return operands
    given = tuple(type(one) if type(one) in (int, float, complex) else _for_result_type(one) for one in operands)
    results = (np.dtype(dtype), *(None,) * (op[0].nout - 1))
    try:
        used = op[0].resolve_dtypes((*given, *(None,) * len(results)), signature=(*(None,) * len(given), *results))
    except TypeError:  # Dask converts a result that NumPy refuses
        return operands
    return tuple(
        each.astype(new) if isinstance(each, Array) and each.dtype != new else each
        for each, new in zip(operands, used, strict=False)
    )


def _wider_dtype(function: Any, dtype: np.dtype[Any]) -> str:
    """That in which NumPy computes a function, if CuPy computes it in a smaller one; empty if it does not."""
    if function in (np.i0, np.sinc) and dtype.kind in "biu":
        return "float64"
    return "complex128" if function is np.float_power and dtype == "complex64" else ""


def _is_mended(function: Any, exponent: Any) -> bool:
    return function is np.fmod or getattr(getattr(exponent, "dtype", None), "kind", "") == "i"


def astype(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.Array.astype`; negative floats on GPUs become unsigned integers as on x86, and not 0.

    Those of 8 and 16 bits wrap around, too. Of complex numbers it is the real part.
    """
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    array = call.arguments["self"]
    if place_of(array) != "gpu" or array.dtype.kind not in "fc":
        return original(*args, **kwargs)
    dtype = np.dtype(call.arguments["dtype"])
    if dtype.kind != "u" and (dtype.kind != "i" or dtype.itemsize >= _WRAPPED):
        return original(*args, **kwargs)
    if array.dtype.kind == "c":
        array = call.arguments["self"] = array.real
    converted = original(*call.args, **call.kwargs) if dtype.itemsize > _WRAPPED else None
    call.arguments["dtype"] = "int64"
    wrapped = original(original(*call.args, **call.kwargs), dtype)
    return wrapped if converted is None else where(array < 0, wrapped, converted)


def _positional_out(op: tuple[Any, ...], operands: tuple[Any, ...]) -> Any:
    """The array in which ``da.isfinite(x, y)`` writes; Dask takes it for an operand. `None` if there is none."""
    inputs = op[0].nin if op and isinstance(op[0], np.ufunc) else len(operands)
    out = operands[inputs] if len(operands) == inputs + 1 else None
    return out if isinstance(out, Array) else None


def add_products(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.tensordot`, `matmul` or `einsum`; the products of integers and booleans have the dtype of NumPy.

    A sum of integers that wraps around is the same, and of booleans is whether there is any.
    """
    __tracebackhide__ = True
    result = original(*args, **kwargs)
    if place_of(result) != "gpu" or result.dtype.kind not in "biu":
        return result
    given = bind(original, args, kwargs).arguments
    operands = given.get("operands", tuple(given.values())[:2])  # of einsum, with texts or lists of subscripts
    dtype = given.get("dtype") or _type_of(tuple(each for each in operands if hasattr(each, "dtype")))
    return result.astype(dtype)


def _type_of(numbers: tuple[Any, ...]) -> np.dtype[Any]:
    return np.result_type(*map(_for_result_type, numbers))


def _for_result_type(number: Any) -> Any:
    """The dtype of an operand; a number of Python itself, which does not make floats of unsigned integers."""
    if type(number) in (bool, int, float, complex):
        return number
    return getattr(number, "dtype", None) or np.asarray(number).dtype


def angle(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.angle`, with NumPy's results for NaN and -0.0."""
    __tracebackhide__ = True
    x = first_argument(original, args, kwargs)
    if not _is_array_on_gpu(x) or x.dtype.kind not in "iuf":
        return original(*args, **kwargs)
    radians = da.arctan2(0, x)
    return da.rad2deg(radians) if bind(original, args, kwargs).arguments.get("deg") else radians


def _is_array_on_gpu(x: Any) -> bool:
    return place_of(x) == "gpu" and not hasattr(x, "expr")


_NO_STRUCTURES = "ValueError: CuPy has no structured arrays"


def unique(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.unique`; indices, inverses and counts are computed on the host.

    Raises `NotOnGpuError`: one of them is requested, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    call, record = bind(original, args, kwargs), current_record()
    array, *options = call.arguments.values()
    if record is None or not record.watches or not any(options) or place_of(array) != "gpu":
        return original(*args, **kwargs)
    refuse_if_strict("unique", name_of(array), _NO_STRUCTURES)
    on_host, dtype = to_host(array), array.dtype
    as_integers = np.dtype(f"i{dtype.itemsize}") if dtype.kind == "f" else None
    call.arguments["ar"] = on_host.map_blocks(_ordered_integers, dtype=as_integers) if as_integers else on_host
    with dask.config.set({"array.backend": "numpy"}):  # for the arrays that it creates
        results = original(*call.args, **call.kwargs)
        if as_integers:
            results = results[0].map_blocks(_ordered_floats, dtype, dtype=dtype), *results[1:]
    note_on_host("unique", _NO_STRUCTURES, array.npartitions)
    return tuple(to_gpu(result) if can_move(result) else result for result in results)


def _ordered_integers(block: Any) -> Any:
    """An integer for each float, in the same order; all NaN are one, which is the greatest, and so are 0.0 and -0.0."""
    return _mirrored(np.where(np.isnan(block), block.dtype.type(np.nan), block + 0.0).view(f"i{block.dtype.itemsize}"))


def _ordered_floats(integers: Any, dtype: np.dtype[Any]) -> Any:
    return _mirrored(integers).view(dtype)


def _mirrored(bits: Any) -> Any:
    """The bits of floats as integers in their order, and the other way: those of negative floats go down."""
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def reduction(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``dask.array.reductions.reduction``; a variance of many blocks leaves out the means of empty ones, as of few.

    These are NaN. Of a block with NaN, the squares are NaN as well.
    """
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    combine: Any = call.arguments.get("combine")
    is_plain = getattr(combine, "func", combine) is moment_combine and "sum" not in getattr(combine, "keywords", {})
    if is_plain and place_of(call.arguments["x"]) == "gpu":
        call.arguments["combine"] = partial(combine, sum=np.nansum)
    return original(*call.args, **call.kwargs)


def insert(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.insert`; a number is inserted on the GPU, where the array is."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    array, where, number, axis = (call.arguments[name] for name in ("arr", "obj", "values", "axis"))
    if place_of(array) != "gpu" or not np.isscalar(number) or isinstance(number, str | bytes):
        return original(*args, **kwargs)
    where = np.arange(*where.indices(array.shape[axis])) if isinstance(where, slice) else np.atleast_1d(where)
    shape = list(array.shape)
    shape[axis : axis + 1 or None] = list(where.shape)
    call.arguments["obj"] = where
    call.arguments["values"] = to_gpu(da.full(shape, number, dtype=getattr(number, "dtype", type(number))))
    return original(*call.args, **call.kwargs)


_NO_MASK = "CuPy has no masked arrays"


def assign(original: Callable[..., None], /, *args: Any, **kwargs: Any) -> None:
    """As `dask.array.Array.__setitem__`; masked values move an array on the GPU to the host.

    Raises `NotOnGpuError`: the values are masked, and there is no fallback to the host.
    """
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    array = call.arguments["self"]
    if place_of(array) == "gpu":
        call.arguments["key"] = _indices_on_host(call.arguments["key"], array.ndim)
        value = call.arguments["value"]
        if _is_masked(value):
            _move_to_host(array)
        elif array.dtype.kind in "iu" and place_of(value) == "gpu" and value.dtype.kind == "f":
            call.arguments["value"] = value.astype(array.dtype)  # as NumPy converts it
    with on_numpy() if place_of(array) == "host" else nullcontext():
        original(*call.args, **call.kwargs)


def _indices_on_host(key: Any, ndim: int) -> Any:
    if isinstance(key, tuple):
        return tuple(_indices_on_host(part, 0) for part in key)
    # A mask of the shape of the array is no index: Dask selects with `where`.
    is_index = isinstance(key, Array) and (key.dtype.kind in "iu" or key.ndim != ndim)
    return to_host(key) if is_index else key


def _is_masked(value: Any) -> bool:
    return isinstance(getattr(value, "_meta", value), np.ma.MaskedArray)  # `np.ma.masked` is one, too


def _move_to_host(array: Array) -> None:
    """Move an array that is assigned to, which stays the same object."""
    __tracebackhide__ = True
    record = current_record()
    if record is None or record.fallback != "host":
        raise NotOnGpuError("setitem", array.name, _NO_MASK, user_line())
    on_host = to_host(array)
    array._meta, array.dask, array._name = on_host._meta, on_host.dask, on_host.name  # noqa: SLF001
    note_on_host("setitem", _NO_MASK, array.npartitions)
