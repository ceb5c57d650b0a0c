"""Reductions of groups by flox on the GPU, of climatologies, means by month and the like, and quantiles.

flox reduces the groups of a block by numpy_groupies, with functions that CuPy lacks. Here flox only finds the groups,
and kernels reduce them. Each thread goes through one row in order, so that results are the same in each run.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

from ..inspection.placement import to_host
from .missing import DifferentResultError

_LEAST = 512
"""Rows for which a kernel is worth it."""

_DTYPES = "fdbhilqBHILQ"
_STEPS = {
    "sum": "acc += v;",
    "nansum": "if (v == v) acc += v;",
    "nanlen": "acc += v == v;",
    "max": "if (v > acc || v != v) acc = v;",
    "nanmax": "if (v > acc) acc = v;",
    "min": "if (v < acc || v != v) acc = v;",
    "nanmin": "if (v < acc) acc = v;",
}

_LOOP = """
    const T* row = &x[0] + i * row_stride;
    long long last = -1;
    %s acc = 0;
    for (long long j = 0; j < length; ++j) {
        const long long group = groups[j];
        if (group < 0) continue;
        if (group != last) {
            if (last >= 0) out[last * rows + i] = acc;
            acc = out[group * rows + i];
            last = group;
        }
        const T v = row[j * stride];
        %s
    }
    if (last >= 0) out[last * rows + i] = acc;
"""


def twin_of(function: Any) -> Callable[..., Any] | None:
    """What computes with CuPy's arrays as a function of flox, or of quantiles of Dask; `None` for other functions."""
    if function is getattr(sys.modules.get("dask.array.reductions"), "_custom_nanquantile", twin_of):
        return functools.partial(nanquantile, function)
    core: Any = sys.modules.get("flox.core")
    if core is None or not isinstance(function, FunctionType):
        return None
    if function is core.chunk_reduce:
        return chunk_reduce
    on_blocks: Any = getattr(core, "_reduce_blockwise", None)
    if function is not on_blocks:
        return None
    in_place = {**vars(core), "chunk_reduce": chunk_reduce}
    twin = FunctionType(function.__code__, in_place, function.__name__, function.__defaults__)
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


def chunk_reduce(array: Any, by: Any, func: Any, *args: Any, **options: Any) -> Any:
    """As `flox.core.chunk_reduce` of an array of CuPy; raises `DifferentResultError` for what is to run on the host."""
    names = [func] if isinstance(func, str) or callable(func) else list(func)
    known = {*_STEPS, *_MEANS, *_QUANTILES}
    if any(name not in known for name in names) or array.dtype.char not in _DTYPES:
        raise DifferentResultError("this reduction of groups")
    functions = [functools.partial(_reduce, name) for name in names]
    options["engine"] = "numpy"  # others take the memory of NumPy's arrays
    by = by.get() if hasattr(by, "get") else by
    return import_module("flox.core").chunk_reduce(array, by, functions, *args, **options)


def _reduce(name: str, groups: Any, array: Any, *, size: int, fill_value: Any, dtype: Any, **options: Any) -> Any:
    """The results, of which the last axis is of the groups."""
    rows = array.reshape(-1, array.shape[-1])
    is_known = dtype is not None and np.dtype(dtype).char in _DTYPES and groups.dtype.kind in "iu"
    if not is_known or len(rows) < _LEAST or (groups.size and groups.max() >= size):
        raise DifferentResultError("these groups")
    dtype, groups = np.dtype(dtype), np.ascontiguousarray(groups, "i8")
    if name in _QUANTILES:
        out = _quantile(rows, groups, size, fill_value, dtype, skips=name.startswith("nan"), **options)
    elif name in _MEANS:
        total, count = (_loop(each, rows, groups, size, np.dtype("f8")) for each in _MEANS[name])
        if not name.startswith("nan"):
            count = _present(groups, size)
        out = _where(count > 0, (total / count).astype(dtype, copy=False), fill_value)
    else:
        out = _loop(name, rows, groups, size, dtype)
        if fill_value is not None and fill_value != _identity(name, dtype):
            found = _loop("nanlen", rows, groups, size, dtype) if name.startswith("nan") else _present(groups, size)
            out = _where(found > 0, out, fill_value)
    return import_module("cupy").moveaxis(out.reshape(size, *array.shape[:-1]), 0, -1)


_MEANS = {"mean": ("sum", "nanlen"), "nanmean": ("nansum", "nanlen")}
_QUANTILES = ("quantile", "nanquantile", "median", "nanmedian")


def _present(groups: Any, size: int) -> Any:
    """How many places each group has, for arrays by group and row."""
    return import_module("cupy").asarray(np.bincount(groups[groups >= 0], minlength=size))[:, None]


def _where(condition: Any, values: Any, other: Any) -> Any:
    return import_module("cupy").where(condition, values, values.dtype.type(other))


def _loop(name: str, rows: Any, groups: Any, size: int, dtype: Any) -> Any:
    """By group and row: what the rows have of a group."""
    cupy: Any = import_module("cupy")
    dtype = np.dtype("i8") if name == "nanlen" else dtype
    out = cupy.full((size, len(rows)), _identity(name, dtype), dtype)
    strides = [stride // rows.itemsize for stride in rows.strides]
    _kernel(name, "double" if dtype.kind == "f" else "A")(
        rows, cupy.asarray(groups), rows.shape[1], *strides, len(rows), out, size=len(rows)
    )
    return out


def _quantile(
    rows: Any, groups: Any, size: int, fill_value: Any, dtype: Any, *, skips: bool, q: Any = 0.5, **_: Any
) -> Any:
    """As `numpy.quantile`, with its linear interpolation, of each group."""
    cupy: Any = import_module("cupy")
    if np.ndim(q) or rows.dtype.kind != "f":
        raise DifferentResultError("these quantiles of groups")
    out = cupy.full((size, len(rows)), fill_value, dtype)
    for group in np.unique(groups[groups >= 0]):
        part = cupy.sort(rows[:, cupy.asarray(np.flatnonzero(groups == group))], axis=1)
        out[int(group)] = _of_sorted(part, float(q), part.dtype, skips=skips)
    return out


def _of_sorted(part: Any, q: float, dtype: Any, *, skips: bool = True) -> Any:
    """As `numpy.quantile` along the last axis, where NaN comes last."""
    cupy: Any = import_module("cupy")
    count = (part == part).sum(axis=-1, keepdims=True)  # noqa: PLR0124 - without NaN
    place = q * cupy.maximum(count - 1, 0)
    low = cupy.floor(place).astype("i8")
    a, b = (cupy.take_along_axis(part, each, axis=-1).astype(dtype) for each in (low, cupy.ceil(place).astype("i8")))
    t = (place - low).astype(dtype)
    found = cupy.where(t < 0.5, a + (b - a) * t, b - (b - a) * (1 - t))
    has_value = count > 0 if skips else count == part.shape[-1]
    return cupy.where(has_value, found, dtype.type(np.nan))[..., 0]


_MOST_BY_DASK = 1000
"""Numbers of which Dask computes quantiles by functions that CuPy has; else it calls `numpy.nanquantile`."""


def nanquantile(original: Callable[..., Any], a: Any, q: Any, axis: Any = None, **options: Any) -> Any:
    """As Dask's function behind `dask.array.nanquantile`."""
    is_known = options.keys() <= {"method", "keepdims"} and options.get("method", "linear") == "linear"
    is_known = is_known and a.dtype.char in "fd" and axis is not None and len(axis) == 1 and np.ndim(q) < 2
    if not is_known or a.shape[axis[0]] <= _MOST_BY_DASK:
        return original(a, q, axis=axis, **options)
    cupy: Any = import_module("cupy")
    part = cupy.sort(cupy.moveaxis(a, axis[0], -1), axis=-1)
    found = [_of_sorted(part, float(each), np.dtype("f8")) for each in np.atleast_1d(to_host(q))]
    if options.get("keepdims"):
        found = [cupy.expand_dims(each, axis[0]) for each in found]
    return cupy.stack(found) if np.ndim(q) else found[0]


def _identity(name: str, dtype: Any) -> Any:
    if name not in ("max", "nanmax", "min", "nanmin"):
        return 0
    if dtype.kind == "f":
        return -np.inf if "max" in name else np.inf
    return np.iinfo(dtype).min if "max" in name else np.iinfo(dtype).max


@functools.cache
def _kernel(name: str, kind: str) -> Any:
    given = "raw T x, raw int64 groups, int64 length, int64 row_stride, int64 stride, int64 rows"
    kernel: Any = import_module("cupy").ElementwiseKernel
    return kernel(given, "raw A out", _LOOP % (kind, _STEPS[name]), f"gpudask_groups_{name}")
