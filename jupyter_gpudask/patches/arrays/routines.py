"""Functions of `dask.array` that fail for arrays on GPUs before there is a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np

from ...inspection.arguments import bind
from ...inspection.placement import can_move, name_of, place_of, to_gpu, to_host
from ...overlay import current_record
from ..host_fallback import note_on_host, refuse_if_strict

if TYPE_CHECKING:
    from collections.abc import Callable

_WORDS = "ValueError: CuPy has no structured arrays"


def unique(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.unique`; indices, inverses and counts are computed on the host.

    Raises
    ------
    NotOnGpuError
        One of them is requested, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    call, record = bind(original, args, kwargs), current_record()
    array, *options = call.arguments.values()
    if record is None or not record.watches or not any(options) or place_of(array) != "gpu":
        return original(*args, **kwargs)
    refuse_if_strict("unique", name_of(array), _WORDS)
    call.arguments["ar"] = to_host(array)
    with dask.config.set({"array.backend": "numpy"}):  # for the arrays that it creates
        results = original(*call.args, **call.kwargs)
    note_on_host("unique", _WORDS, array.npartitions)
    return tuple(to_gpu(result) if can_move(result) else result for result in results)


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
