"""Groups by what is computed of columns, as in ``df.groupby(df.x > 1)``, which dask_cudf 26.10 refuses.

Dask tries each grouping on metadata first, and gives the key there as it is: an expression, which cuDF compares with
the names of the index. The comparison is an expression too, and neither true nor false. And dask_cudf's own way to
aggregate takes keys by name alone; Dask's takes the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.dataframe.dask_expr._expr import Expr

from ..interception import bind, intercept

if TYPE_CHECKING:
    from collections.abc import Callable


def install_grouping() -> None:
    """Have such keys be tried by their metadata; without cuDF, and a second time, nothing changes."""
    try:
        from cudf.core.groupby import groupby
        from dask_cudf._expr.groupby import GroupBy
    except ImportError:  # frames are made of pandas here
        return
    intercept(groupby._Grouping._handle_label, _handle_label)  # noqa: SLF001
    intercept(GroupBy.aggregate, _aggregate)


def _handle_label(handle: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    call = bind(handle, args, kwargs).arguments
    if isinstance(call["by"], Expr):
        return call["self"]._handle_series(call["by"]._meta)  # noqa: SLF001
    return handle(*args, **kwargs)


def _aggregate(aggregate: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    keys = getattr(bind(aggregate, args, kwargs).arguments["self"], "by", ())
    if any(isinstance(key, Expr) for key in keys):
        kwargs["fused"] = False
    return aggregate(*args, **kwargs)
