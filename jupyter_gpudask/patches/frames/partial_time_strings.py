"""``.loc`` with strings for times, such as ``"2015-05-05"``, which cuDF 26.10 interprets as a single moment.

pandas interprets such a string as the whole day, month or second. Besides, Dask lists the columns that a slice, a mask
or a function selects only for metadata of pandas: of ``df.loc[df.x > 1, :]`` on GPUs, its optimizer keeps only ``x``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.dataframe.indexing import _maybe_partial_time_string

from ...inspection.arguments import bind
from ...inspection.placement import place_of, results_to_host

if TYPE_CHECKING:
    from collections.abc import Callable


def loc(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``.loc``; on GPUs a string that names a period is replaced by its slice, and columns by a list of them."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    frame: Any = getattr(call.arguments["self"], "obj", None)
    if place_of(frame) != "gpu":
        return original(*args, **kwargs)
    columns = call.arguments["cindexer"]
    if columns is not None and frame.ndim > 1:
        chosen = results_to_host(frame._meta).loc[:, columns]  # noqa: SLF001
        call.arguments["cindexer"] = list(chosen.columns) if chosen.ndim > 1 else columns
    index = frame.index._meta  # noqa: SLF001
    if getattr(index.dtype, "kind", "") == "M":
        times = index.to_pandas()
        call.arguments["iindexer"] = _maybe_partial_time_string(times, call.arguments["iindexer"], times.unit)
    return original(*call.args, **call.kwargs)
