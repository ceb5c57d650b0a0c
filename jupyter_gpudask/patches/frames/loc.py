"""Selection by labels, ``.loc``, of dataframes on GPUs: by strings for periods of times, masks and slices of columns.

cuDF 26.10 interprets a string such as ``"2015-05-05"`` as a single moment, and pandas as the whole day. Dask lists the
columns that a slice, a mask or a function selects only for metadata of pandas: of ``df.loc[df.x > 1, :]`` on GPUs, its
optimizer keeps only ``x``. cuDF fails for a slice between the names of columns, such as ``df.loc[:, :15]`` of the
columns 10 and 20.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.array.core import Array
from dask.dataframe.indexing import _maybe_partial_time_string
from pandas.api.types import is_bool_dtype

from ...inspection.arguments import bind
from ...inspection.placement import place_of, to_gpu
from ...inspection.results import results_to_host

if TYPE_CHECKING:
    from collections.abc import Callable


def loc(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``.loc``; on GPUs a string that names a period is replaced by its slice, and a mask is moved there."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    frame: Any = getattr(call.arguments["self"], "obj", None)
    if place_of(frame) != "gpu":
        return original(*args, **kwargs)
    mask = call.arguments["iindexer"]
    if isinstance(mask, Array) and place_of(mask) == "host" and mask.dtype == bool:
        call.arguments["iindexer"] = to_gpu(mask)
    index = frame.index._meta  # noqa: SLF001
    if getattr(index.dtype, "kind", "") == "M":
        times = index.to_pandas()
        call.arguments["iindexer"] = _maybe_partial_time_string(times, call.arguments["iindexer"], times.unit)
    return original(*call.args, **call.kwargs)


def columns_of_loc(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``.loc[rows, columns]``; on GPUs several columns are replaced by a list of them.

    A dataframe with an index of several levels is indexed by columns and rows in turn, because cuDF refuses both.
    """
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    frame: Any = getattr(call.arguments["self"], "obj", None)
    rows = key = call.arguments["key"]
    if place_of(frame) != "gpu":
        return original(*args, **kwargs)
    if isinstance(key, tuple) and len(key) == 2 and frame.ndim > 1:
        rows, columns = key
        chosen = results_to_host(frame._meta).loc[:, columns]  # noqa: SLF001
        columns = list(chosen.columns) if chosen.ndim > 1 else columns
        call.arguments["key"] = (rows, columns)
        if _has_levels(frame):
            frame = frame[columns]
            return frame if _is_everything(rows) else frame.loc[rows]
    if _has_levels(frame) and getattr(rows, "ndim", 0) == 1 and is_bool_dtype(rows.dtype):
        return frame[rows]
    return original(*call.args, **call.kwargs)


def _has_levels(frame: Any) -> bool:
    return bool(getattr(frame._meta.index, "nlevels", 1) > 1)  # noqa: SLF001


def _is_everything(rows: Any) -> bool:
    return isinstance(rows, slice) and rows == slice(None)
