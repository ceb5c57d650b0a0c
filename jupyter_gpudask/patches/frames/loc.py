"""Selection by labels, ``.loc``, of dataframes on GPUs: by strings for periods of times, and by masks on the host.

cuDF 26.10 interprets a string such as ``"2015-05-05"`` as a single moment, and pandas as the whole day. Dask replaces
it by the day only where it knows the divisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.array.core import Array
from dask.dataframe.indexing import _maybe_partial_time_string

from ...inspection.arguments import bind
from ...inspection.placement import place_of, to_gpu

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
    times = frame.index._meta  # noqa: SLF001
    if getattr(times.dtype, "kind", "") == "M":
        call.arguments["iindexer"] = _maybe_partial_time_string(times, call.arguments["iindexer"], times.unit)
    return original(*call.args, **call.kwargs)
