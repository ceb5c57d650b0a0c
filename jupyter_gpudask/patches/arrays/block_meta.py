"""CuPy metadata for arrays that are computed from GPU blocks and whose metadata Dask cannot infer.

Dask creates the metadata of such an array (a histogram, a selection by a boolean mask, an FFT, ...) with NumPy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from dask.array.backends import array_creation_dispatch
from dask.array.core import Array
from dask.base import is_dask_collection
from dask.highlevelgraph import HighLevelGraph

from ...inspection.arguments import bind, first_argument
from ...inspection.placement import can_move, place_of, to_gpu, to_host
from ...overlay import current_overlay, current_record
from ..host_fallback import note_line
from ..user_functions import infer_metadata
from .operand_placement import has_mark, is_read_by_user, mark, mark_computed

_NEVER_EMPTY = (np.quantile, np.percentile)
_META = list(inspect.signature(Array.__new__).parameters).index("meta")


def compute_meta(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `infer_metadata` of Dask's function; skips functions that must not be called with empty arrays of CuPy.

    A `Delayed` operand is skipped, too: NumPy makes an array of it, and with CuPy the result is a `Delayed` object.
    """
    __tracebackhide__ = True
    if "gpu" in map(place_of, args[1:]) and (
        first_argument(original, args, kwargs) in _NEVER_EMPTY or any(map(_is_delayed, [*args[1:], *kwargs.values()]))
    ):
        return None
    try:
        return infer_metadata(original, *args, **kwargs)
    except (TypeError, ValueError):
        dtype = args[1] if len(args) > 1 else None
        if dtype is None or can_move(np.empty(0, dtype)):
            raise
    # Dask has tried to convert metadata of CuPy to this dtype, which CuPy lacks.
    return infer_metadata(original, *args[:2], *map(to_host, args[2:]), **kwargs)


def _is_delayed(value: Any) -> bool:
    return is_dask_collection(value) and place_of(value) is None


def make_array(original: Callable[..., Array], /, *args: Any, **kwargs: Any) -> Array:
    """As `dask.array.Array`, which gets CuPy metadata if it is computed from GPU arrays without explicit metadata.

    Remembers which line of the user's code made the array.
    """
    __tracebackhide__ = True
    array = original(*args, **kwargs)
    record = current_record()
    if record is not None and record.watches and (place_of(array) == "gpu" or current_overlay() is not None):
        note_line(array.name, record)
    given = args[_META] if len(args) > _META else kwargs.get("meta")
    graph = array.dask
    if not isinstance(graph, HighLevelGraph) or array.name not in graph.layers:
        return array
    inputs = graph.dependencies.get(array.name, ())
    on_gpu, is_for_gpus = place_of(array) == "gpu", can_move(array)
    if not on_gpu and given is None and is_for_gpus:
        on_gpu = has_mark(array, inputs, "gpu", "plain data on a GPU")
        if on_gpu:
            _set_meta_of_cupy(array)
    if on_gpu:
        mark_computed(array, inputs)
    elif not is_for_gpus:
        mark(array, "not for GPUs")
    elif not inputs and array_creation_dispatch.backend == "cupy" and is_read_by_user():
        return to_gpu(array)  # type: ignore[no-any-return]
    return array


def coarsen(original: Callable[..., Array], /, *args: Any, **kwargs: Any) -> Array:
    """As `dask.array.coarsen`, which always sets NumPy metadata; the result is where the input is."""
    __tracebackhide__ = True
    result = original(*args, **kwargs)
    if place_of(bind(original, args, kwargs).arguments["x"]) == "gpu" and can_move(result):
        mark_on_gpu(result)
    return result


def mark_on_gpu(array: Array) -> None:
    """Give an array with NumPy metadata that of CuPy, because its blocks are on GPUs."""
    _set_meta_of_cupy(array)
    mark(array, "gpu")


def _set_meta_of_cupy(array: Array) -> None:
    import cupy

    array._meta = cupy.zeros((0,) * array.ndim, dtype=array.dtype)  # noqa: SLF001 - not `empty`: Dask tokenizes it
