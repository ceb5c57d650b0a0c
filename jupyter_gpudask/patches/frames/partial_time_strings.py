"""``.loc`` with texts for times, such as ``"2015-05-05"``, which cuDF 26.10 takes for a single moment.

pandas takes such a text for the whole day, month or second that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.dataframe.dask_expr._indexing import LocIndexer
from dask.dataframe.indexing import _maybe_partial_time_string

from ...inspection.placement import place_of
from ..interception import bind, intercept

if TYPE_CHECKING:
    from collections.abc import Callable


def install_time_labels() -> None:
    """Mend ``.loc``; for pandas nothing changes, nor a second time."""
    intercept(LocIndexer._loc, _loc)  # noqa: SLF001


def _loc(locate: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    call = bind(locate, args, kwargs)
    frame: Any = getattr(call.arguments["self"], "obj", None)
    if place_of(frame) != "gpu":
        return locate(*args, **kwargs)
    index = frame.index._meta  # noqa: SLF001
    if getattr(index.dtype, "kind", "") == "M":
        times = index.to_pandas()
        call.arguments["iindexer"] = _maybe_partial_time_string(times, call.arguments["iindexer"], times.unit)
    return locate(*call.args, **call.kwargs)
