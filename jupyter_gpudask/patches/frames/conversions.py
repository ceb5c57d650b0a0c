"""Conversions of dataframes under the cuDF backend: bags, records and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...inspection.arguments import bind
from ...inspection.placement import to_host
from ...overlay import current_record

if TYPE_CHECKING:
    from collections.abc import Callable


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
