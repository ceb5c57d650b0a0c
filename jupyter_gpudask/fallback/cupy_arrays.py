"""Methods of CuPy's arrays: conversions to NumPy, and sorts in which NaN is last, as in NumPy.

CuPy 14.2 sorts arrays of one dimension by the bits of floats, so that a NaN with a sign, such as 0 / 0 on a GPU, is the
first. In long arrays its `partition` compares numbers with NaN, and leaves any order.

Nothing of Dask is imported here: an import of dask.array can import CuPy, by way of Xarray and zarr.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_thread = threading.local()


@contextmanager
def allow_conversion() -> Iterator[None]:
    """In it, ``np.asarray`` and the like convert arrays on the GPU, in this thread."""
    before = getattr(_thread, "converts", False)
    _thread.converts = True
    try:
        yield
    finally:
        _thread.converts = before


def to_numpy(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``cupy.ndarray.__array__``, which raises an error; in `allow_conversion` the array of NumPy."""
    if not getattr(_thread, "converts", False):
        return original(*args, **kwargs)
    array, *others = args
    dtype = others[0] if others else kwargs.get("dtype")
    on_host = array.get()
    return on_host if dtype is None else np.asarray(on_host, dtype)


def sort(original: Callable[..., None], /, array: Any, *args: Any, **kwargs: Any) -> None:
    """As ``cupy.ndarray.sort``, which changes the array."""
    if _is_by_bits(array):
        array[np.isnan(array)] = np.nan  # the one without a sign
    original(array, *args, **kwargs)


def partition(original: Callable[..., None], /, array: Any, kth: Any, axis: int = -1) -> None:
    """As ``cupy.ndarray.partition``; with NaN the array is sorted."""
    if array.dtype.kind == "f" and np.isnan(array).any():
        array.sort(axis)
    else:
        original(array, kth, axis)


def indices(original: Callable[..., Any], /, array: Any, *args: Any, **kwargs: Any) -> Any:
    """As ``cupy.ndarray.argsort`` and ``cupy.ndarray.argpartition``, which sorts."""
    return original(np.where(np.isnan(array), np.nan, array) if _is_by_bits(array) else array, *args, **kwargs)


def _is_by_bits(array: Any) -> bool:
    return bool(array.ndim == 1 and array.dtype.kind == "f")
