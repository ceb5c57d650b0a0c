"""``.loc`` with texts for times, such as ``"2015-05-05"``, which cuDF 26.10 takes for a single moment.

pandas takes such a text for the whole day, month or second that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.dataframe.dask_expr._indexing import LocIndexer
from dask.dataframe.indexing import _maybe_partial_time_string

from .interception import intercept
from .placement import place_of

if TYPE_CHECKING:
    from collections.abc import Callable


def install_time_labels() -> None:
    """Mend ``.loc``; for pandas nothing changes, nor a second time."""
    intercept(LocIndexer._loc, _loc)  # noqa: SLF001


def _loc(locate: Callable[..., Any], /, indexer: LocIndexer, iindexer: Any, cindexer: Any) -> Any:
    __tracebackhide__ = True
    index = indexer.obj.index._meta  # noqa: SLF001
    if place_of(index) == "gpu" and getattr(index.dtype, "kind", "") == "M":
        unit = index.to_pandas().unit
        iindexer = _maybe_partial_time_string(index.to_pandas(), iindexer, unit)
    return locate(indexer, iindexer, cindexer)
