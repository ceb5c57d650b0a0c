"""Mends of Dask's dataframes under the cuDF backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._collections import new_collection
from dask.dataframe.dask_expr._collection import to_datetime
from dask.dataframe.dask_expr._expr import ToDatetime
from dask.dataframe.dask_expr.io import parquet
from dask.dataframe.dask_expr.io.bag import to_bag
from dask.dataframe.dask_expr.io.records import to_records
from dask.utils import typename

from ...inspection.placement import to_host
from ..interception import bind, intercept

if TYPE_CHECKING:
    from collections.abc import Callable


def install_frame_backend() -> None:
    """Mend what Dask does with frames, in every cell; a second time does nothing.

    ``to_parquet`` of a pandas frame writes as pandas does. Bags and records are Python's and NumPy's, and made of the
    partitions on the host: of cuDF's, Dask makes a bag of ``None``. Dask's ``to_datetime`` has metadata of one row,
    which cuDF does not take for a column of a frame without rows.
    """
    intercept(to_datetime, _without_rows)
    intercept(to_bag, _from_host)
    intercept(to_records, _from_host)
    intercept(parquet._set_parquet_engine, _choose_by_the_frame)  # noqa: SLF001


def _from_host(make: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    call = bind(make, args, kwargs)
    call.arguments["df"] = to_host(call.arguments["df"])
    return make(*call.args, **call.kwargs)


def _without_rows(make: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    times = make(*args, **kwargs)
    expression = getattr(times, "expr", None)
    if not isinstance(expression, ToDatetime) or not len(expression._meta):  # noqa: SLF001
        return times
    meta = expression._meta  # noqa: SLF001
    meta = meta.iloc[:0] if hasattr(meta, "iloc") else meta[:0]
    return new_collection(ToDatetime(expression.frame, kwargs=expression.operand("kwargs"), meta=meta))


def _choose_by_the_frame(choose: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    call = bind(choose, args, kwargs).arguments
    meta = call.get("meta")
    if call.get("engine") is None and meta is not None and not typename(type(meta)).startswith("cudf"):
        return "pyarrow"
    return choose(*args, **kwargs)
