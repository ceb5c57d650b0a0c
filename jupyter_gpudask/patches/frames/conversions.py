"""Conversions of dataframes under the cuDF backend: bags, records, times, and the engine that writes Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._collections import new_collection
from dask.dataframe.dask_expr._expr import ToDatetime
from dask.utils import typename

from ...inspection.arguments import bind
from ...inspection.placement import to_host

if TYPE_CHECKING:
    from collections.abc import Callable


def from_host(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a function that converts a dataframe to Python objects or NumPy records; it gets pandas partitions."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    call.arguments["df"] = to_host(call.arguments["df"])
    return original(*call.args, **call.kwargs)


def to_datetime(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.dataframe.to_datetime`, with empty metadata."""
    __tracebackhide__ = True
    times = original(*args, **kwargs)
    expression = getattr(times, "expr", None)
    if not isinstance(expression, ToDatetime) or not len(expression._meta):  # noqa: SLF001
        return times
    meta = expression._meta  # noqa: SLF001
    meta = meta.iloc[:0] if hasattr(meta, "iloc") else meta[:0]
    return new_collection(ToDatetime(expression.frame, kwargs=expression.operand("kwargs"), meta=meta))


def choose_parquet_engine(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As Dask's function; selects pyarrow for a pandas dataframe, whatever the backend is."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs).arguments
    meta = call.get("meta")
    if call.get("engine") is None and meta is not None and not typename(type(meta)).startswith("cudf"):
        return "pyarrow"
    return original(*args, **kwargs)
