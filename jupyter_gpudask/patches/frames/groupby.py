"""Group-by on GPUs: computed keys, as in ``df.groupby(df.x > 1)``, sums of missing numbers, and the order of groups.

dask_cudf 26.10 refuses computed keys. Dask tries each grouping on metadata first, and passes the key unchanged: an
expression, which cuDF compares with the names of the index. The comparison is an expression too, and has no truth
value. Besides, the aggregation of dask_cudf accepts only names as keys; Dask's accepts expressions. It adds columns of
squares to the partitions that it is given.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from dask.dataframe.dask_expr._expr import Blockwise, Elemwise, Expr, Filter
from dask.dataframe.dask_expr._groupby import (
    GroupbyAggregation,
    GroupByApply,
    GroupByBase,
    GroupByTransform,
    Head,
    Prod,
    SeriesGroupBy,
    Size,
    Sum,
    groupby_slice_transform,
)
from dask.dataframe.dask_expr._repartition import Repartition
from dask.dataframe.dask_expr._shuffle import BaseSetIndexSortValues
from pandas.core.apply import reconstruct_func, validate_func_kwargs  # type: ignore[import-not-found]

from ...fallback.missing import words_of_lack
from ...fallback.values import frame_to_gpu
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
    """As dask_cudf's method; computed keys, and what dask_cudf refuses, are aggregated by Dask's own method."""
    __tracebackhide__ = True
    if len(args) == 1 and "arg" not in kwargs:
        return _aggregate_by_names(partial(aggregate, original), args[0], kwargs)
    keys = getattr(bind(original, args, kwargs).arguments["self"], "by", ())
    if any(isinstance(key, Expr) for key in keys):
        kwargs["fused"] = False
    try:
        return original(*args, **kwargs)
    except Exception as error:
        if not words_of_lack(error) or kwargs.get("fused") is False:
            raise
    return original(*args, **{**kwargs, "fused": False})


def aggregate_series(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As dask_cudf's method of one column, which has no names of results, as in ``agg(total="sum")``."""
    __tracebackhide__ = True
    if len(args) == 1 and "arg" not in kwargs:
        return _aggregate_by_names(original, args[0], kwargs)
    return original(*args, **kwargs)


_OPTIONS_OF_AGGREGATE = ("shuffle_method", "split_every", "split_out")


def _aggregate_by_names(method: Callable[..., Any], grouped: Any, kwargs: dict[str, Any]) -> Any:
    """``agg(total=("x", "sum"))`` or ``x.agg(total="sum")``. Source: ``GroupBy.aggregate`` of Dask."""
    __tracebackhide__ = True
    options = {name: value for name, value in kwargs.items() if name in _OPTIONS_OF_AGGREGATE}
    named = {name: value for name, value in kwargs.items() if name not in _OPTIONS_OF_AGGREGATE}
    if isinstance(grouped, SeriesGroupBy):
        (names, functions), order = validate_func_kwargs(named), None
    else:
        _, functions, names, order = reconstruct_func(None, **named)
    result = method(grouped, functions, **options)
    if order is not None:
        result = result.iloc[:, order]
    result.columns = names
    return result


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


class FilledSums(Elemwise):
    """Sums or products of groups, in which those of no number are 0 or 1, as in pandas; in cuDF they are missing."""

    _parameters = ["frame", "values"]  # noqa: RUF012 - as in Dask
    _projection_passthrough = True
    _preserves_partitioning_information = True

    @staticmethod
    def operation(groups: Any, values: Any) -> Any:
        """The result for one partition; `values` has a number for each column, or is one for a Series."""
        if groups.ndim == 1:
            value = values.get(groups.name) if isinstance(values, dict) else values
            return groups if value is None else groups.fillna(value)
        filled = groups.copy(deep=False)
        for name, value in values.items():
            if name in filled.columns:
                filled[name] = filled[name].fillna(value)
        return filled


_OF_NO_NUMBER = {"sum": 0, "prod": 1}
_NAMES = {sum: "sum", np.sum: "sum", np.prod: "prod"}


def with_sums_of_nothing(expression: Any) -> Any:
    """The expression, with 0 or 1 where cuDF has no sum or product of a group whose numbers are all missing."""
    if not isinstance(expression, Sum | Prod | GroupbyAggregation):
        return expression
    try:
        meta = expression._meta  # noqa: SLF001
    except Exception:  # noqa: BLE001 - whatever it is, the caller gets it from the expression itself
        return expression
    if meta.ndim == 1:
        value = _OF_NO_NUMBER.get(_function(expression, meta.name))
        return (
            expression
            if value is None or getattr(meta.dtype, "kind", "O") not in "iuf"
            else FilledSums(expression, value)
        )
    numeric = [name for name, dtype in meta.dtypes.items() if getattr(dtype, "kind", "O") in "iuf"]
    functions = {name: _function(expression, name) for name in numeric}
    values = {name: _OF_NO_NUMBER[function] for name, function in functions.items() if function in _OF_NO_NUMBER}
    return FilledSums(expression, values) if values else expression


class TransformAsPandas(GroupByTransform):
    """The sum or product of its group for each row; that of no number is 0 or 1, as in pandas."""

    @property
    def grp_func(self) -> Any:
        """The function of one partition."""
        return partial(transformed, func=self.func)


def transformed(df: Any, grouper: Any, key: Any, args: Any, *, func: str, **kwargs: Any) -> Any:
    """The sum or product for each row of one partition, with the operands of Dask's function."""
    result, numbers = (groupby_slice_transform(df, grouper, key, name, args, **kwargs) for name in (func, "count"))
    return result.mask((numbers == 0).fillna(value=False), _OF_NO_NUMBER[func])


def of_no_number(expression: GroupByTransform) -> Any:
    """A function for each row of groups, by `TransformAsPandas` if it is the sum or product of numbers."""
    expression = with_meta_on_gpu(expression)
    func = expression.operand("func")
    if not isinstance(func, str) or func not in _OF_NO_NUMBER:
        return expression
    try:
        meta = expression._meta  # noqa: SLF001
    except Exception:  # noqa: BLE001 - whatever it is, the caller gets it from the expression itself
        return expression
    dtypes = [meta.dtype] if meta.ndim == 1 else list(meta.dtypes)
    are_numbers = all(getattr(dtype, "kind", "O") in "iuf" for dtype in dtypes)
    return TransformAsPandas(*expression.operands) if are_numbers else expression


def _function(expression: Any, column: Any) -> str:
    """The name of the function by which a column of the result is made; empty if it has none."""
    if isinstance(expression, Sum | Prod):
        return type(expression).__name__.lower()
    functions = expression.arg
    if isinstance(functions, dict):
        functions = functions.get(column[0] if isinstance(column, tuple) else column)
    if isinstance(functions, list):
        functions = column[-1] if isinstance(column, tuple) else column
    return functions if isinstance(functions, str) else _NAMES.get(functions, "")


def with_meta_on_gpu(expression: Any) -> Any:
    """An ``apply`` of groups on GPUs with its metadata there, too, if the user has passed metadata of pandas."""
    if not isinstance(expression, GroupByApply):
        return expression
    meta = expression.operand("meta")
    if not isinstance(meta, pd.DataFrame | pd.Series):
        return expression
    return expression.substitute_parameters({"meta": frame_to_gpu(meta.iloc[:0])})


_SIZE = "__size__"


def named_sizes(groups: Any) -> Any:
    """The numbers of rows, with a name."""
    sizes = groups.size()
    return sizes.rename(_SIZE) if sizes.name is None else sizes


def total_sizes(groups: Any) -> Any:
    """The sums of the numbers of rows of several partitions, without the name that `named_sizes` gave them."""
    sizes = groups.sum()
    return sizes.rename(None) if sizes.name == _SIZE else sizes


class SizeAsPandas(Size):
    """The numbers of rows of groups; without a name cuDF cannot shuffle them, as with ``split_out``."""

    groupby_chunk = staticmethod(named_sizes)
    groupby_aggregate = staticmethod(total_sizes)


def with_name(expression: Any) -> Any:
    """The numbers of rows of groups that have a name until they are added; any other expression as it is."""
    return SizeAsPandas(*expression.operands) if type(expression) is Size else expression


class SelectedByLevels(Filter):
    """Rows with an index of several levels; of a Series, which Dask may select below it, cuDF refuses a condition."""

    @staticmethod
    def operation(series: Any, condition: Any) -> Any:  # type: ignore[override]
        """The result for one partition."""
        if series.ndim > 1 or getattr(series.index, "nlevels", 1) == 1:
            return series[condition]
        return series.to_frame(_SIZE)[condition][_SIZE].rename(series.name)


def selected(expression: Filter) -> Any:
    """A filter that cuDF can do."""
    frame = expression.frame
    has_levels = getattr(getattr(frame._meta, "index", None), "nlevels", 1) > 1  # noqa: SLF001
    return SelectedByLevels(*expression.operands) if has_levels else expression


def in_order(expression: Any) -> Any:
    """The expression with sorted groups, as in pandas, if they are in one partition and ``sort`` is not given."""
    if _is_unsorted(expression):
        return expression.substitute_parameters({"sort": True})
    if isinstance(expression, Blockwise):  # such as the column of a result
        for part in expression.dependencies():
            if _is_unsorted(part):
                return expression.substitute(part, in_order(part))
    return expression


def _is_unsorted(expression: Any) -> bool:
    # Head and Tail keep the order of the rows.
    is_grouped = isinstance(expression, GroupByBase) and not isinstance(expression, Head)
    if not is_grouped or "sort" not in expression._parameters or expression.operand("sort") is not None:  # noqa: SLF001
        return False
    if type(expression) is GroupbyAggregation and not expression._is_decomposable:  # noqa: SLF001
        return False  # Dask 2026.7 fails to sort the groups of a median: SortValues has no default for its options
    return _is_in_one_partition(expression)


def _is_in_one_partition(expression: Any) -> bool:
    """Whether the groups will be in one partition, by the number that Dask chooses when it optimizes."""
    tuned = expression._tune_down()  # noqa: SLF001 - it has a function of the number of input partitions
    split_out = (expression if tuned is None else tuned).operand("split_out")
    if callable(split_out):
        split_out = split_out(_input_partitions(expression))
    return split_out is None or (split_out == 1 and split_out is not True)


def _input_partitions(expression: Any) -> int:
    """The number of partitions; where Dask would compute quantiles or sizes for it, that of all inputs of the graph."""
    parts = list(expression.frame.walk())
    if any(map(computes_partitions, parts)):
        return sum(getattr(part, "npartitions", 1) for part in parts if not part.dependencies())
    return int(expression.frame.npartitions)


def computes_partitions(expression: Any) -> bool:
    """Whether Dask computes quantiles or sizes to know the number of its partitions."""
    by_size = isinstance(expression, Repartition) and "partition_size" in expression._parameters  # noqa: SLF001
    return isinstance(expression, BaseSetIndexSortValues) or (by_size and expression.operand("partition_size"))
