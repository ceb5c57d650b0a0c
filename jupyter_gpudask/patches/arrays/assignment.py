"""Assignments to elements of arrays on GPUs: ``x[key] = value`` with masked values, or with indices on GPUs.

CuPy drops the mask of a masked value. Dask marks indices that belong to other blocks by the size of the block, and
removes these marks from NumPy's indices only; CuPy counts an index beyond the end from the beginning again, so that it
would assign to other elements. Indices on the host are correct for both.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.array.core import Array

from ...errors import NotOnGpuError
from ...inspection.arguments import bind
from ...inspection.placement import place_of, to_host
from ...inspection.user_code import user_line
from ...overlay import current_record
from ..host_fallback import note_on_host
from .operand_placement import on_numpy

if TYPE_CHECKING:
    from collections.abc import Callable

_WORDS = "CuPy has no masked arrays"


def assign(original: Callable[..., None], /, *args: Any, **kwargs: Any) -> None:
    """As `dask.array.Array.__setitem__`; masked values move an array on the GPU to the host.

    Raises
    ------
    NotOnGpuError
        The values are masked, and there is no fallback to the host.
    """
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    array = call.arguments["self"]
    if place_of(array) == "gpu":
        call.arguments["key"] = _indices_on_host(call.arguments["key"], array.ndim)
        if _is_masked(call.arguments["value"]):
            _move_to_host(array)
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
        raise NotOnGpuError("setitem", array.name, _WORDS, user_line())
    on_host = to_host(array)
    array._meta, array.dask, array._name = on_host._meta, on_host.dask, on_host.name  # noqa: SLF001
    note_on_host("setitem", _WORDS, array.npartitions)
