"""The categories of Series on GPUs are computed on the host, in the order of pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...inspection.arguments import calling_frame, first_argument
from ...inspection.placement import name_of, place_of, to_host
from ...overlay import current_record
from ..host_fallback import note_on_host, refuse_if_strict

if TYPE_CHECKING:
    from collections.abc import Callable


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
