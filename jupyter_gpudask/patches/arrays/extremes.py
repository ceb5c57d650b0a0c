"""``argmin`` and ``argmax`` of arrays with NaN or equal extremes, on GPUs.

`numpy.argmax` and `numpy.argmin` return the index of the first NaN; CuPy 14.2 returns the index of any NaN. For
nanargmax and nanargmin of a block of NaN, CuPy returns -1. NumPy raises an error, which Dask expects. If there are
infinities, NumPy may return the index of a NaN; so do the functions of this module.

Of equal extremes in several blocks, Dask returns the one of the first block; NumPy, and this module, the one with the
first index: in ``[[0, 0, 1], [1, 0, 0]]`` it is 2, although the first column may be a block of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from dask.array import chunk, reductions

from ...inspection.arguments import bind
from ...inspection.placement import place_of


def argmax(block: Any, axis: int | None, **options: Any) -> Any:
    """As `numpy.argmax`, also among several NaN."""
    return _first_nan(block, axis, chunk.argmax(block, axis, **options), options)


def argmin(block: Any, axis: int | None, **options: Any) -> Any:
    """As `numpy.argmin`, also among several NaN."""
    return _first_nan(block, axis, chunk.argmin(block, axis, **options), options)


def _first_nan(block: Any, axis: int | None, found: Any, options: dict[str, Any]) -> Any:
    if block.dtype.kind not in "fc":
        return found
    missing = np.isnan(block)
    return np.where(chunk.any(missing, axis, **options), chunk.argmax(missing, axis, **options), found)


def nanargmax(block: Any, axis: int | None, **options: Any) -> Any:
    """As `numpy.nanargmax`; of nothing but NaN the place of the first one."""
    return chunk.argmax(_without_nan(block, -np.inf), axis, **options)


def nanargmin(block: Any, axis: int | None, **options: Any) -> Any:
    """As `numpy.nanargmin`; of nothing but NaN the place of the first one."""
    return chunk.argmin(_without_nan(block, np.inf), axis, **options)


def _without_nan(block: Any, number: float) -> Any:
    return np.where(np.isnan(block), number, block) if block.dtype.kind in "fc" else block


def arg_combine(argfunc: Any, data: Any, axis: Any = None, **options: Any) -> Any:
    """As Dask's function, without indices of NumPy for CuPy, each as large as the result.

    Where there is nothing to choose, `argfunc` is not called.
    """
    if not _is_along_one(data, axis):
        return reductions.arg_combine(argfunc, _in_order(data, axis), axis=axis, **options)
    (axis,), values = axis, data["vals"]
    if values.shape[axis] == 1:
        return data
    chosen = argfunc(values, axis=axis, keepdims=True)
    return {name: np.take_along_axis(part, chosen, axis=axis) for name, part in data.items()}


def arg_agg(argfunc: Any, data: Any, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:  # noqa: FBT002 - Dask's
    """As Dask's function; see `arg_combine`."""
    if not _is_along_one(data, axis):
        return reductions.arg_agg(argfunc, _in_order(data, axis), axis=axis, keepdims=keepdims, **options)
    places = arg_combine(argfunc, data, axis)["arg"]
    return places if keepdims else places.squeeze(axis[0])


def nanarg_agg(argfunc: Any, data: Any, axis: Any = None, **options: Any) -> Any:
    """As Dask's function; of equal extremes, the one with the first index."""
    return reductions.nanarg_agg(argfunc, _in_order(data, axis), axis=axis, **options)


def _in_order(data: Any, axis: Any) -> Any:
    """The extremes of blocks by their indices, of which the first one is chosen among equal ones."""
    if not isinstance(data, dict) or not 1 < data["vals"].ndim == len(axis):
        return data
    order = np.argsort(data["arg"].ravel())
    return {name: part.ravel()[order].reshape(part.shape) for name, part in data.items()}


def _is_along_one(data: Any, axis: Any) -> bool:
    """Whether it is of CuPy, which has no structured arrays, and of one of several axes."""
    return isinstance(data, dict) and len(axis) == 1 < data["vals"].ndim


_MENDED: dict[Any, Any] = {
    chunk.argmax: argmax,
    chunk.argmin: argmin,
    reductions._nanargmax: nanargmax,  # noqa: SLF001
    reductions._nanargmin: nanargmin,  # noqa: SLF001
    reductions.arg_agg: arg_agg,
    reductions.arg_combine: arg_combine,
    reductions.nanarg_agg: nanarg_agg,
}


def arg_reduction(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.reductions.arg_reduction`, with the functions of this module for arrays on GPUs."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    if place_of(call.arguments["x"]) == "gpu":
        for name in ("chunk", "combine", "agg"):
            call.arguments[name] = _mend(call.arguments[name])
    return original(*call.args, **call.kwargs)


def _mend(step: Any) -> Any:
    """One of the steps of a reduction: in Dask a `functools.partial`, with the function among its arguments."""
    if not isinstance(step, partial):
        return step
    return partial(
        _MENDED.get(step.func, step.func),
        *(_MENDED.get(arg, arg) if callable(arg) else arg for arg in step.args),
        **step.keywords,
    )
