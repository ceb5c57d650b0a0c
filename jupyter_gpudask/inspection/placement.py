"""Where the data of a collection lives, and how it is moved."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from dask.array import Array
from dask.base import is_dask_collection
from dask.utils import typename

Place = Literal["host", "gpu"]

GPU_BACKENDS = frozenset({"cupy", "cudf"})

_HOST = (np.ndarray, pd.DataFrame, pd.Series, pd.Index)
_NUMBERS = "biufc"


def place_of(value: Any) -> Place | None:
    """Where the blocks or partitions of a Dask collection are, or a plain array or frame is.

    Returns
    -------
    "host", "gpu" or None
        `None` for whatever is no array or frame, such as a `dask.delayed.Delayed` or a bag.
    """
    if not is_dask_collection(value):
        return _place_of_data(value)
    if not hasattr(type(value), "_meta"):  # a Delayed has every attribute, but its class has not
        return None
    return _place_of_expression(value.expr) if hasattr(value, "expr") else _place_of_data(value._meta)  # noqa: SLF001


def kind_of(value: Any) -> Literal["array", "dataframe"]:
    """Which of the two backends decides what such a collection is made of."""
    return "array" if isinstance(value, Array | np.ndarray) else "dataframe"


def can_move(value: Any) -> bool:
    """Whether a GPU library has a type for it: CuPy has numbers alone."""
    return kind_of(value) == "dataframe" or value.dtype.kind in _NUMBERS


def to_gpu(collection: Any) -> Any:
    """The same collection, each block moved by the worker that has it."""
    return collection.to_backend("cupy" if kind_of(collection) == "array" else "cudf")


def to_host(value: Any) -> Any:
    """A collection or result as NumPy or pandas; anything that is no array or frame stays as it is."""
    if place_of(value) != "gpu":
        return value
    if not is_dask_collection(value):
        return value.get() if typename(type(value)).startswith("cupy") else value.to_pandas()
    if hasattr(value, "expr") and not _place_of_data(value._meta):  # noqa: SLF001 - a scalar is one already
        return value
    return value.to_backend("numpy" if kind_of(value) == "array" else "pandas")


def results_to_host(result: Any) -> Any:
    """A result with all that lies in it, in tuples, lists and dicts of any depth, as NumPy and pandas."""
    if type(result) is dict:
        return {key: results_to_host(value) for key, value in result.items()}
    if type(result) in (list, tuple, set):
        return type(result)(map(results_to_host, result))
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*map(results_to_host, result))
    return to_host(result)


def ancestors(collection: Any) -> frozenset[str]:
    """Names of all collections that `collection` is computed from, its own included."""
    if isinstance(collection, Array):
        return frozenset(collection.dask.layers)
    if hasattr(collection, "expr"):
        return frozenset(part._name for part in collection.expr.walk())  # noqa: SLF001
    return frozenset()


def name_of(collection: Any) -> str:
    """The name by which `ancestors` knows a collection."""
    return str(collection.name) if isinstance(collection, Array) else str(collection._name)  # noqa: SLF001


def _place_of_data(data: Any) -> Place | None:
    if isinstance(data, _HOST):
        return "host"
    return "gpu" if is_type_of_gpu(type(data)) else None


def is_type_of_gpu(kind: type) -> bool:
    """Whether things of this type are in device memory: CuPy's and cuDF's are."""
    return typename(kind).startswith(tuple(GPU_BACKENDS))


def place_of_partitions(expression: Any) -> Place | None:
    """Where the partitions of what becomes a frame are; `None` for numbers, and for what Dask has no metadata of."""
    try:
        return _place_of_data(expression._meta)  # noqa: SLF001
    except (AttributeError, NotImplementedError):
        return None


def _place_of_expression(expression: Any) -> Place | None:
    """Where it is computed: a number, where the frames are that it is computed from."""
    place = place_of_partitions(expression)
    if place is not None:
        return place
    places = set(map(_place_of_expression, expression.dependencies()))
    return "gpu" if "gpu" in places else "host" if "host" in places else None
