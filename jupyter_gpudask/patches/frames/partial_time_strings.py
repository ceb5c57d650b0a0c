"""``.loc`` with strings for times, such as ``"2015-05-05"``, which cuDF 26.10 interprets as a single moment.

pandas interprets such a string as the whole day, month or second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.dataframe.indexing import _maybe_partial_time_string

from ...inspection.arguments import bind
from ...inspection.placement import place_of

if TYPE_CHECKING:
    from collections.abc import Callable


def loc(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``.loc``; on GPUs a string that names a period is replaced by the slice of that period."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    frame: Any = getattr(call.arguments["self"], "obj", None)
    if place_of(frame) != "gpu":
        return original(*args, **kwargs)
    index = frame.index._meta  # noqa: SLF001
    if getattr(index.dtype, "kind", "") == "M":
        times = index.to_pandas()
        call.arguments["iindexer"] = _maybe_partial_time_string(times, call.arguments["iindexer"], times.unit)
    return original(*call.args, **call.kwargs)
