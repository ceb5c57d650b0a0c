"""Group-by with computed keys, as in ``df.groupby(df.x > 1)``, which dask_cudf 26.10 refuses.

Dask tries each grouping on metadata first, and passes the key unchanged: an expression, which cuDF compares with the
names of the index. The comparison is an expression too, and has no truth value. Besides, the aggregation of dask_cudf
accepts only names as keys; Dask's accepts expressions. It adds columns of squares to the partitions that it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.dataframe.dask_expr._expr import Elemwise, Expr

from ...inspection.arguments import bind

if TYPE_CHECKING:
    from collections.abc import Callable


def handle_label(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As cuDF's method; a key that is an expression is replaced by its metadata."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs).arguments
    if isinstance(call["by"], Expr):
        return call["self"]._handle_series(call["by"]._meta)  # noqa: SLF001
    return original(*args, **kwargs)


def aggregate(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As dask_cudf's method; computed keys are aggregated by Dask's own method."""
    __tracebackhide__ = True
    keys = getattr(bind(original, args, kwargs).arguments["self"], "by", ())
    if any(isinstance(key, Expr) for key in keys):
        kwargs["fused"] = False
    return original(*args, **kwargs)


class SharedCopy(Elemwise):
    """Copies of partitions that share the columns with them, so that columns can be added."""

    _parameters = ["frame"]  # noqa: RUF012 - as in Dask
    _projection_passthrough = True

    @staticmethod
    def operation(frame: Any) -> Any:
        """The copy of one partition."""
        return frame.copy(deep=False)


def on_copies(expression: Any) -> Any:
    """An aggregation of dask_cudf on copies, if it has a variance; any other expression as it is.

    ``_groupby_partition_agg`` of dask_cudf 26.10 adds a column of squares to each partition, which another task, or a
    persisted collection, may use, too.
    """
    if type(expression).__name__ != "CudfGroupbyAgg" or isinstance(expression.frame, SharedCopy):
        return expression
    functions = {function for functions in expression.spec_info["aggs"].values() for function in functions}
    if not functions & {"std", "var"}:
        return expression
    return type(expression)(SharedCopy(expression.frame), *expression.operands[1:])
