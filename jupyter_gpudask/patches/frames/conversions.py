"""Conversions of dataframes under the cuDF backend: bags, records, rows, times and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._collections import new_collection
from dask._expr import Expr
from dask.dataframe.dask_expr._expr import ToDatetime

from ...inspection.arguments import bind, first_argument
from ...inspection.placement import is_type_of_gpu, to_host
from ...overlay.config_overlay import current_record

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


def operands_for_repr(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``Expr._operands_for_repr``, which compares an operand with its default; metadata of cuDF is left out."""
    expression = first_argument(original, args, kwargs)
    if not any(is_type_of_gpu(type(operand)) for operand in getattr(expression, "operands", ())):
        return original(*args, **kwargs)
    defaults = expression._defaults  # noqa: SLF001
    pairs = zip(expression._parameters, expression.operands, strict=False)  # noqa: SLF001
    return [
        f"{name}={operand!r}"
        for name, operand in pairs
        if isinstance(operand, Expr) or (not is_type_of_gpu(type(operand)) and operand != defaults.get(name))
    ]


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
