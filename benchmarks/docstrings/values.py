"""What examples leave behind, as values on the host that can be sent and compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from dask.base import is_dask_collection

LARGEST = 50_000_000
"""Bytes of an array; larger ones are described and not computed."""

PLAIN = (bool, int, float, complex, bytes, np.generic, pd.Timestamp, pd.Timedelta, pd.Interval, pd.Period)


@dataclass(frozen=True)
class Value:
    """One value."""

    data: Any
    """An array, a dataframe, a number, a text, or a list of such values."""
    on_gpu: bool
    """Whether CuPy or cuDF had a part in it."""
    of_dask: bool = False
    """Whether it was a Dask collection."""
    shape_known: bool = True
    """Whether Dask knew the shape before it computed."""


def recorded(thing: Any) -> Value | None:
    """`thing`, computed and brought to the host; `None` for what cannot be compared, such as functions."""
    if is_dask_collection(thing):
        return _computed(thing)
    if isinstance(thing, dict):
        return recorded([part for item in thing.items() for part in item])
    if isinstance(thing, list | tuple):
        parts = [recorded(part) for part in thing]
        return Value(parts, on_gpu=any(part is not None and part.on_gpu for part in parts))
    data = _on_host(thing)
    return None if data is None else Value(data, is_on_gpu(thing))


def _on_host(thing: Any) -> Any:
    if isinstance(thing, str):
        return thing.replace(str(Path.cwd()), "")  # each run has a folder of its own
    if isinstance(thing, np.dtype | pd.api.extensions.ExtensionDtype):
        return str(thing)
    if isinstance(thing, np.ndarray | pd.DataFrame | pd.Series | pd.Index):
        return thing.copy()  # a later example may change it
    if is_on_gpu(thing):
        move = getattr(thing, "get" if library(thing) == "cupy" else "to_pandas", None)
        return None if move is None else move()
    if thing is pd.NA or thing is pd.NaT:
        return float("nan")
    return thing if isinstance(thing, PLAIN) else None


def library(thing: Any) -> str:
    """The package that defines the type of `thing`."""
    return type(thing).__module__.partition(".")[0]


def is_on_gpu(thing: Any) -> bool:
    """Whether `thing` is CuPy's or cuDF's."""
    return library(thing) in ("cupy", "cudf")


def _computed(collection: Any) -> Value | None:
    if _is_large(collection):
        return Value([Value(str(getattr(collection, name)), on_gpu=False) for name in ("shape", "dtype")], on_gpu=False)
    value = recorded(collection.compute(scheduler="synchronous"))
    if value is None:
        return None
    shape = getattr(collection, "shape", ()) if hasattr(collection, "chunks") else ()
    on_gpu = value.on_gpu or _came_from_gpu(collection)
    return Value(value.data, on_gpu, of_dask=True, shape_known=not np.isnan(shape).any())


def _is_large(collection: Any) -> bool:
    return hasattr(collection, "chunks") and hasattr(collection, "nbytes") and collection.nbytes > LARGEST


def _came_from_gpu(collection: Any) -> bool:
    if hasattr(collection, "expr"):
        return any(is_on_gpu(_meta_of(part)) for part in collection.expr.walk())
    return is_on_gpu(getattr(collection, "_meta", None))


def _meta_of(expression: Any) -> Any:
    try:
        return getattr(expression, "_meta", None)
    except NotImplementedError:  # of the expressions that read files
        return None
