"""Methods of dataframes on GPUs: conversions, ``.loc``, lengths and categories.

cuDF 26.10 interprets a label such as ``"2015-05-05"`` as a single moment, and pandas as the whole day. Dask replaces it
by the day only where it knows the divisions. Categories are computed on the host, in the order of pandas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dask.array.core import Array
from dask.dataframe.indexing import _maybe_partial_time_string

from ...inspection.arguments import bind, calling_frame, first_argument
from ...inspection.placement import name_of, place_of, to_gpu, to_host
from ...overlay import current_record
from ..host_fallback import note_on_host, refuse_if_strict


def from_host(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a function that converts a dataframe to Python objects or NumPy records; it gets pandas partitions."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    call.arguments["df"] = to_host(call.arguments["df"])
    return original(*call.args, **call.kwargs)


def rows_from_host(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a method that iterates over rows or values; with results on the GPU, it gets pandas partitions."""
    record = current_record()
    if record is None or record.results == "host":  # the results of each partition are converted
        return original(*args, **kwargs)
    call = bind(original, args, kwargs)
    call.arguments["self"] = to_host(call.arguments["self"])
    return original(*call.args, **call.kwargs)


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
    times = frame.index._meta  # noqa: SLF001
    if getattr(times.dtype, "kind", "") == "M":
        call.arguments["iindexer"] = _maybe_partial_time_string(times, call.arguments["iindexer"], times.unit)
    return original(*call.args, **call.kwargs)


def with_categories(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``cat.as_known`` and ``cat.remove_unused_categories``, likewise; the categories are computed on the host.

    There they are in the order of pandas. cuDF has the order of a hash table, and no index that pandas can read.
    """
    __tracebackhide__ = True
    name = original.__name__
    series: Any = getattr(first_argument(original, args, kwargs), "_series", None)
    if not _may_fall_back(series) or (name == "as_known" and series.cat.known):
        return original(*args, **kwargs)
    reason = "cuDF has categories in the order of a hash table"
    refuse_if_strict(name, name_of(series), reason)
    note_on_host(name, reason, series.npartitions)
    known = getattr(to_host(series).cat, name)(**kwargs)
    return series.cat.set_categories(known.cat.categories)


def _may_fall_back(frame: Any) -> bool:
    """Whether the user's code called a method of a dataframe on GPUs, in a cell with the fallback."""
    record = current_record()
    if record is None or not record.watches or place_of(frame) != "gpu":
        return False
    package = calling_frame().f_globals.get("__name__", "").partition(".")[0]
    return package not in ("dask", "dask_cudf")


def lengths(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``FromPandas._get_lengths``, which keeps the lengths of all partitions when some of them are selected."""
    first_argument(original, args, kwargs)._pd_length_stats = None  # noqa: SLF001
    return original(*args, **kwargs)


def to_dask_array(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``FrameBase.to_dask_array``; ``lengths=True`` counts the rows of the partitions that are read.

    Dask's optimizer reads several files as one partition, and Dask then refuses the lengths of fewer partitions.
    """
    call = bind(original, args, kwargs)
    if call.arguments.get("lengths") is not True:
        return original(*args, **kwargs)
    call.arguments["lengths"] = None
    return original(*call.args, **call.kwargs).compute_chunk_sizes()
