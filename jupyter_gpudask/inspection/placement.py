"""Find the device of a collection, and move it."""

from __future__ import annotations

from inspect import unwrap
from typing import Any, Literal

import numpy as np
import pandas as pd
from dask.array.core import Array
from dask.array.dispatch import to_numpy_dispatch
from dask.base import is_dask_collection
from dask.blockwise import blockwise
from dask.highlevelgraph import HighLevelGraph
from dask.tokenize import tokenize
from dask.utils import typename

Place = Literal["host", "gpu"]

GPU_BACKENDS = frozenset({"cupy", "cudf"})

_HOST = (np.ndarray, pd.DataFrame, pd.Series, pd.Index)
_NOT_PLAIN = (np.ma.MaskedArray, np.matrix)
"""CuPy would drop the mask, and multiply element by element."""
_NUMBERS = "biufc"
_EXTENDED = "gG"
"""The characters of `numpy.longdouble` and `numpy.clongdouble`."""


def place_of(value: Any) -> Place | None:
    """The device of the blocks or partitions of a Dask collection, or of a plain array or dataframe.

    Returns
    -------
    "host", "gpu" or None
        `None` for anything but arrays and dataframes, such as a `dask.delayed.Delayed` or a bag.
    """
    if not is_dask_collection(value):
        return _place_of_data(value)
    if not hasattr(type(value), "_meta"):  # a Delayed object has every attribute, but its class does not
        return None
    return _place_of_expression(value.expr) if hasattr(value, "expr") else _place_of_data(value._meta)  # noqa: SLF001


def kind_of(value: Any) -> Literal["array", "dataframe"]:
    """Which of the two backend settings applies to such a collection."""
    return "array" if isinstance(value, (Array, np.ndarray)) else "dataframe"


def can_move(value: Any) -> bool:
    """Whether a GPU library can hold it: CuPy holds plain arrays of numbers that have no extended precision."""
    if kind_of(value) == "dataframe":
        return True
    is_plain = not isinstance(getattr(value, "_meta", value), _NOT_PLAIN)
    dtype = np.dtype(value.dtype)  # for an expression without metadata, Dask has the type that the user gave
    return is_plain and dtype.kind in _NUMBERS and dtype.char not in _EXTENDED


def to_gpu(collection: Any) -> Any:
    """The same collection on GPUs; each worker moves its own blocks."""
    if kind_of(collection) == "array":
        return collection.to_backend("cupy")
    from .frames import frame_to_gpu

    return frame_to_gpu(collection)


def to_host(value: Any) -> Any:
    """A collection or result as NumPy or pandas; anything but arrays and dataframes is returned unchanged."""
    if place_of(value) != "gpu":
        return value
    if not is_dask_collection(value):
        return _to_numpy(value) if typename(type(value)).startswith("cupy") else _to_pandas(value)
    if hasattr(value, "expr") and not _place_of_data(value._meta):  # noqa: SLF001
        return value  # the result is moved: a scalar is on the host already
    if kind_of(value) == "dataframe":
        from .frames import frame_to_host

        return frame_to_host(value)
    return _array_to_host(value)


def _to_pandas(frame: Any) -> Any:
    from .frames import partition_to_host

    return partition_to_host(frame)


def _array_to_host(array: Any) -> Array:
    """As ``array.to_backend("numpy")`` or `map_blocks`, at half of what these cost the kernel for a small graph.

    The function is pickled and tokenized by its name: Dask's dispatcher is neither, and a graph that contains it takes
    the kernel several times as long to send.
    """
    name = f"to_numpy-{tokenize(array.name)}"
    meta = np.zeros((0,) * array.ndim, array.dtype)  # a copy of CuPy's would wait for the GPU
    indices = tuple(range(array.ndim))
    layer = blockwise(_to_numpy, name, indices, array.name, indices, numblocks={array.name: array.numblocks})
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[array])
    # Not by the patches that look where an array is made, and of what: this one is not the user's.
    made: Array = unwrap(Array.__new__)(Array, graph, name, array.chunks, meta=meta)
    return made


def _to_numpy(block: Any) -> Any:
    """A block as on the CPU, where NumPy returns a scalar and CuPy an array without dimensions.

    Functions of the user may return anything, such as `None`.
    """
    if not is_type_of_gpu(type(block)):
        return block
    if typename(type(block)).startswith("cupyx.scipy.sparse"):  # Dask has no such conversion
        return block.get()
    on_host = to_numpy_dispatch(block)
    return on_host if on_host.ndim else on_host[()]


def ancestors(collection: Any) -> frozenset[str]:
    """Names of all collections that `collection` is computed from, its own included."""
    if isinstance(collection, Array):
        return frozenset(collection.dask.layers)
    if hasattr(type(collection), "_meta") and hasattr(collection, "expr"):  # a Delayed object has every attribute
        return frozenset(part._name for part in collection.expr.walk())  # noqa: SLF001
    return frozenset()


def name_of(collection: Any) -> str:
    """The name of a collection, as in `ancestors`."""
    return str(collection.name) if isinstance(collection, Array) else str(collection._name)  # noqa: SLF001


def _place_of_data(data: Any) -> Place | None:
    if isinstance(data, _HOST):
        return "host"
    return "gpu" if is_type_of_gpu(type(data)) else None


def is_type_of_gpu(kind: type) -> bool:
    """Whether objects of this type are in device memory, as those of CuPy and cuDF."""
    return typename(kind).startswith(tuple(GPU_BACKENDS))


_PLACE = "gpudask_place_of_partitions"


def place_of_partitions(expression: Any) -> Place | None:
    """The device of the partitions of a dataframe expression; `None` for numbers, and if Dask has no metadata.

    It is that of its inputs, unless its class has a `gpudask_place`, or its metadata is of cuDF.
    """
    known = vars(expression)
    if _PLACE not in known:
        known[_PLACE] = _find_place(expression)
    place: Place | None = known[_PLACE]
    return place


def _find_place(expression: Any) -> Place | None:
    from dask.dataframe.dask_expr._expr import Fused
    from dask.dataframe.dask_expr.io.io import FusedIO

    if place := getattr(type(expression), "gpudask_place", None):
        return place  # type: ignore[no-any-return]
    if isinstance(expression, Fused):
        return place_of_partitions(expression.exprs[0])
    if isinstance(expression, FusedIO):
        return place_of_partitions(expression.operand("_expr"))
    try:
        meta = expression._meta  # noqa: SLF001
        place = _place_of_data(meta[0] if isinstance(meta, tuple) else meta)  # that of `align` are two dataframes
    except Exception:  # noqa: BLE001 - cuDF may refuse to reduce no rows, as in metadata of a part of an optimized graph
        return None
    is_moved = place == "host" and any(place_of_partitions(part) == "gpu" for part in expression.dependencies())
    return "gpu" if is_moved else place


def _place_of_expression(expression: Any) -> Place | None:
    """The device of an expression; for a number, that of the dataframes from which it is computed."""
    place = place_of_partitions(expression)
    if place is not None:
        return place
    places = set(map(_place_of_expression, expression.dependencies()))
    return "gpu" if "gpu" in places else "host" if "host" in places else None
