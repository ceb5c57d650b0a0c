"""Group-by on GPUs: sums of missing numbers, the order of groups, and an index of several levels, as in pandas."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial, reduce
from operator import and_
from typing import Any

import numpy as np
import pandas as pd
from dask.dataframe.dask_expr._expr import Blockwise, Expr, Fillna, Filter, Projection
from dask.dataframe.dask_expr._groupby import (
    DecomposableGroupbyAggregation,
    GetGroup,
    GroupbyAggregation,
    GroupByBase,
    GroupByBFill,
    GroupByCumprod,
    GroupByCumsum,
    GroupByFFill,
    GroupByTransform,
    Head,
    Prod,
    SingleAggregation,
    Size,
    Std,
    Sum,
    groupby_slice_transform,
)
from dask.dataframe.dask_expr._repartition import Repartition
from dask.dataframe.dask_expr._shuffle import BaseSetIndexSortValues
from dask.dataframe.groupby import (
    _apply_func_to_column,
    _compute_sum_of_squares,
    _finalize_std,
    _finalize_var,
    _groupby_raise_unaligned,
)
from dask.dataframe.tseries.resample import ResampleReduction

from .arithmetic import converted, is_small
from .merge_metadata import KnownMetadata
from .missing_values import OfColumns
from .rules import SameColumns, dtypes_of, meta_of, with_operation


def rows_of_group(df: Any, *by_key: Any, get_key: Any = None, columns: Any = None) -> Any:
    """The rows of a group of one partition, with the operands of Dask's function.

    cuDF 26.10 finds no group by the tuple that Dask passes, and Dask takes that for a partition without such rows.
    """
    if any(getattr(key, "ndim", 0) == 1 and not key.index.equals(df.index) for key in by_key):
        _groupby_raise_unaligned(df, by=list(by_key))
    values = get_key if isinstance(get_key, tuple) else (get_key,)
    pairs = zip((key if getattr(key, "ndim", 0) == 1 else df[key] for key in by_key), values, strict=True)
    rows = df[reduce(and_, ((column == value).fillna(value=False) for column, value in pairs))]
    return rows[columns] if df.ndim > 1 else rows


GetGroupAsPandas = with_operation(GetGroup, rows_of_group, __name__)


class StdAsPandas(Std):
    """The standard deviation of groups, of which some have too few values."""

    def _lower(self) -> Any:
        return super()._lower().substitute_parameters({"func": OfColumns(np.sqrt)})


class FilledSums(SameColumns):
    """Sums, products or counts, of which those of no number are 0 or 1, as in pandas; in cuDF they are missing.

    Those of unsigned integers, whose value for no number is an unsigned one, are signed in cuDF 26.10.
    """

    _parameters = ["frame", "values"]  # noqa: RUF012 - as in Dask

    @property
    def _meta(self) -> Any:
        return self.frame._meta  # noqa: SLF001 - for bins of times Dask has that of the rows when they are lowered

    @staticmethod
    def operation(groups: Any, values: Any) -> Any:
        """The result for one partition; `values` has a number for each column, or is one for a Series."""
        return _filled(groups, values, _sums)


class FilledBins(FilledSums):
    """The same for bins of times; of the integers of some Dask makes floats."""

    @staticmethod
    def operation(groups: Any, values: Any) -> Any:
        """The result for one partition, likewise."""
        return _filled(groups, values, _numbers_of_bins)


def _filled(groups: Any, values: Any, fill: Callable[[Any, Any], Any]) -> Any:
    if groups.ndim == 1:
        value = values.get(groups.name) if isinstance(values, dict) else values
        return groups if value is None else fill(groups, value)
    filled = groups.copy(deep=False)
    for name, value in values.items():
        if name in filled.columns:
            filled[name] = fill(filled[name], value)
    return filled


def _sums(column: Any, value: Any) -> Any:
    column = column.fillna(int(value))
    return column if column.dtype.kind == "f" else _of_kind(column, value)  # of `where` Dask has metadata of integers


def _numbers_of_bins(column: Any, value: Any) -> Any:
    column = column.fillna(int(value))
    made = _of_kind(column, value)
    is_changed = column.dtype.kind == "f" and not (made == column).all()  # the user may have given other metadata
    return column if is_changed else made


def _of_kind(column: Any, value: Any) -> Any:
    if not isinstance(value, np.integer) or column.dtype.kind == value.dtype.kind:
        return column
    is_plain = isinstance(column.dtype, np.dtype | pd.ArrowDtype)
    return column.astype(str(value.dtype) if is_plain else _MASKED[value.dtype.kind])


_MASKED = {"i": "Int64", "u": "UInt64"}


def _of_64_bits(dtype: Any) -> str:
    """The integers of 64 bits of the same kind."""
    if isinstance(dtype, pd.ArrowDtype | np.dtype):
        return _MASKED[dtype.kind].lower() + ("" if isinstance(dtype, np.dtype) else "[pyarrow]")
    return _MASKED[dtype.kind]


_OF_NO_NUMBER = {"sum": 0, "prod": 1}
_OF_NO_ROW = {**_OF_NO_NUMBER, "count": 0, "nunique": 0, "size": 0}
"""Of a bin of times in which there are no rows."""

_NAMES = {sum: "sum", np.sum: "sum", np.prod: "prod"}


def with_sums_of_nothing(expression: Any) -> Any:
    """The expression, with 0 or 1 where cuDF has no sum or product of a group, or no count of a bin of times."""
    if not isinstance(expression, Sum | Prod | GroupbyAggregation | ResampleReduction):
        return expression
    if (meta := meta_of(expression)) is None:
        return expression
    is_of_bins = isinstance(expression, ResampleReduction)
    kind, of_nothing = (FilledBins, _OF_NO_ROW) if is_of_bins else (FilledSums, _OF_NO_NUMBER)
    if meta.ndim == 1:
        value = _of_dtype(of_nothing.get(_function(expression, meta.name)), meta.dtype)
        return expression if value is None else kind(expression, value)
    found = {name: _of_dtype(of_nothing.get(_function(expression, name)), dtype) for name, dtype in meta.dtypes.items()}
    values = {name: value for name, value in found.items() if value is not None}
    return kind(expression, values) if values else expression


def _of_dtype(value: int | None, dtype: Any) -> Any:
    """A value in a column of this dtype; `None` if there is none, or it is a column of something else than numbers."""
    kind = getattr(dtype, "kind", "O")
    return None if value is None or kind not in "iuf" else {"i": np.int64, "u": np.uint64, "f": int}[kind](value)


class WithoutNegativeZeros(SameColumns):
    """Sums of the rows of groups so far, which in pandas begin with 0.0, so that none is -0.0; of cuDF's one can be."""

    @staticmethod
    def operation(sums: Any) -> Any:
        """The result for one partition."""
        if sums.ndim == 1:
            return _without_negative_zeros(sums)
        changed = sums.copy(deep=False)
        for name in sums.columns:
            changed[name] = _without_negative_zeros(sums[name])
        return changed


def _without_negative_zeros(column: Any) -> Any:
    if getattr(column.dtype, "kind", "O") != "f":
        return column
    made = column + np.dtype(getattr(column.dtype, "numpy_dtype", column.dtype)).type(0)
    return made if made.dtype == column.dtype else made.astype(column.dtype)


class _OfLargeIntegers:
    """What is computed with 64 bits for smaller integers, and has their dtype in the end if the values allow it."""

    def _lower(self: Any) -> Any:
        given = dtypes_of(self.frame._meta).items()  # noqa: SLF001
        large = {name: _of_64_bits(dtype) for name, dtype in given if is_small(dtype)}
        made = self.substitute_parameters({"frame": converted(self.frame, large)})
        lowered = super(_OfLargeIntegers, made)._lower()  # type: ignore[misc]
        of_numbers = all(getattr(dtype, "kind", "O") in "biuf" for dtype in dtypes_of(self._meta).values())
        # What a group has so far is missing if no number of it is there; Dask then has no number in what follows.
        last = Fillna(lowered.cum_last, lowered.initial) if of_numbers else lowered.cum_last
        return lowered.substitute_parameters({"meta": self._meta, "cum_last": last})


class CumsumAsPandas(_OfLargeIntegers, GroupByCumsum):
    """The sums of the rows of groups so far; cuDF's of small nullable integers overflow."""


class CumprodAsPandas(_OfLargeIntegers, GroupByCumprod):
    """The products of the rows of groups so far, likewise."""


def summed_so_far(expression: GroupByCumsum) -> Any:
    """Sums of the rows of groups so far, by `WithoutNegativeZeros`."""
    return WithoutNegativeZeros(CumsumAsPandas(*expression.operands))


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


def filled(df: Any, grouper: Any, key: Any, args: Any, *, func: Any, **kwargs: Any) -> Any:
    """The rows of one partition with missing values filled in each group, with the operands of Dask's function.

    `func` is called once with all groups. Dask's calls it with each, of which there is none if no row has a key: then
    pandas has no rows, and an error for several columns.
    """
    options = {name: kwargs.pop(name) for name in ("dropna", "observed") if name in kwargs}
    kwargs.pop("group_keys", None)
    groups = df.groupby(grouper, **options)
    return func(groups[key] if key else groups, *args, **kwargs)


class FFillAsPandas(GroupByFFill):
    """Missing values of groups filled from the rows before, of which some have no key."""

    @property
    def grp_func(self) -> Any:
        """The function of one partition."""
        return partial(filled, func=self.func)


class BFillAsPandas(GroupByBFill):
    """Missing values of groups filled from the rows after, likewise."""

    grp_func = FFillAsPandas.grp_func


def of_no_number(expression: GroupByTransform) -> Any:
    """A function for each row of groups, by `TransformAsPandas` if it is the sum or product of numbers."""
    func = expression.operand("func")
    if not isinstance(func, str) or func not in _OF_NO_NUMBER or (meta := meta_of(expression)) is None:
        return expression
    are_numbers = all(getattr(dtype, "kind", "O") in "iuf" for dtype in dtypes_of(meta).values())
    return TransformAsPandas(*expression.operands) if are_numbers else expression


def _function(expression: Any, column: Any) -> str:
    """The name of the function by which a column of the result is made; empty if it has none."""
    if isinstance(expression, Sum | Prod):
        return type(expression).__name__.lower()
    if isinstance(expression, ResampleReduction) and expression.how != "agg":
        return str(expression.how)
    functions = expression.how_args[0] if isinstance(expression, ResampleReduction) else expression.arg
    if isinstance(functions, dict):
        functions = functions.get(column[0] if isinstance(column, tuple) else column)
    if isinstance(functions, list):
        functions = column[-1] if isinstance(column, tuple) else column
    return functions if isinstance(functions, str) else _NAMES.get(functions, "")


def of_no_column(expression: Any) -> Any:
    """A selection from groups; that of no column has no selection before it, whose columns Dask 2026.7 misses."""
    groups = expression.frame.frame if isinstance(expression.frame, FilledSums) else expression.frame
    chosen = groups.operand("_slice") if isinstance(groups, SingleAggregation) else None
    if not isinstance(chosen, list) or expression.ndim < 2 or expression.columns:
        return in_order(expression)
    keys = [key for key in groups.by if not isinstance(key, Expr)]
    frame = Projection(groups.frame, [name for name in groups.frame.columns if name in [*keys, *chosen]])
    return in_order(Projection(groups.substitute_parameters({"frame": frame, "_slice": None}), []))


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


def standard_deviation(*args: Any, **kwargs: Any) -> Any:
    """That of groups by the operands of Dask's function; missing for groups with too few values."""
    result = _finalize_var(*args, **kwargs)
    return OfColumns(np.sqrt)(result).astype(result.dtype)


def sum_of_squares(groups: Any, column: str) -> Any:
    """The sums of squares of one partition; of groups of cuDF, Dask always leaves out that of missing keys."""
    if not type(groups).__module__.startswith("cudf."):
        return _compute_sum_of_squares(groups, column)
    return groups.obj[column].pow(2).groupby(groups.grouping.keys, dropna=groups._dropna).sum()  # noqa: SLF001


def with_keys(groups: Any, *, column: Any, func: Any) -> Any:
    """A function of the user of a column of groups; cuDF 26.10 has the index of the rows where no group has a key."""
    result = _apply_func_to_column(groups, column, func)
    if not type(groups).__module__.startswith("cudf."):
        return result
    for each in result if isinstance(result, tuple) else [result]:
        names = list(each.index.names)
        if not len(each) and names == list(groups.obj.index.names) != list(groups.grouping.names):
            each.index = groups.grouping.keys[:0]
    return result


_AT_ONCE = frozenset({"count", "max", "min", "sum"})
_RESULTS = "_gpudask_results"


def computed_at_once(groups: Any, column: str, func: str, pairs: tuple[tuple[str, str], ...]) -> Any:
    """A function of a column of groups; cuDF computes `pairs`, all columns and functions that are wanted, together.

    One by one, each of them finds the groups again, which takes longer than to add their numbers.
    """
    if not type(groups).__module__.startswith("cudf") or not _is_number(groups.obj[column]):
        return getattr(groups[column], func)()
    results = vars(groups).get(_RESULTS)
    if results is None:
        functions: dict[str, list[str]] = {}
        for name, each in pairs:
            if _is_number(groups.obj[name]):
                functions.setdefault(name, []).append(each)
        results = vars(groups)[_RESULTS] = groups.agg(functions)
    return results[column, func]


def _is_number(column: Any) -> bool:
    return getattr(column.dtype, "kind", "O") in "iuf"


def _at_once(functions: list[Any], keys: list[Any]) -> list[Any]:
    """Functions of groups as Dask has them, those of cuDF by `computed_at_once` if there are several."""
    pairs = tuple(pair for function in functions if (pair := _pair(function, keys)))
    if len(pairs) < 2:
        return functions
    made = []
    for function in functions:
        pair = _pair(function, keys)
        options = dict(zip(("column", "func", "pairs"), (*pair, pairs), strict=True)) if pair else {}
        made.append((function[0], computed_at_once, options) if pair else function)
    return made


def _pair(function: Any, keys: list[Any]) -> tuple[str, str] | None:
    """The column and the name of a function; `None` for one that is not computed with others."""
    _name, apply, options = function
    column, func = options.get("column"), getattr(options.get("func"), "method", "")
    is_known = apply is _apply_func_to_column and isinstance(column, str) and column not in keys
    return (column, func) if is_known and func in _AT_ONCE else None


def _of_chunk(function: Any, options: Any) -> Any:
    """The function of a partition that takes the place of Dask's."""
    is_of_user = function is _apply_func_to_column and not hasattr(options["func"], "method")
    return with_keys if is_of_user else sum_of_squares if function is _compute_sum_of_squares else function


class DecomposedAsPandas(DecomposableGroupbyAggregation):
    """Several functions of groups, by the results of the partitions."""

    @cached_property
    def agg_args(self) -> dict[str, Any]:
        """Override: the functions of partitions, of their results, and of the sums of those."""
        made = super().agg_args
        made["chunk_funcs"] = [
            (name, _of_chunk(function, options), options) for name, function, options in made["chunk_funcs"]
        ]
        together = {name: _at_once(made[name], self._by_columns) for name in ("chunk_funcs", "aggregate_funcs")}
        return {**made, **together}

    @property
    def aggregate_kwargs(self) -> dict[str, Any]:  # type: ignore[override]
        """The options of Dask's function."""
        options = super().aggregate_kwargs
        functions = [
            (name, standard_deviation if function is _finalize_std else function, kwargs)
            for name, function, kwargs in options["finalize_funcs"]
        ]
        return {**options, "finalize_funcs": functions}


_known = KnownMetadata()


class GroupbyAggregationAsPandas(GroupbyAggregation):
    """Several functions of groups, of which some have too few values for a standard deviation."""

    @cached_property
    def _meta(self) -> Any:
        functions = self.arg
        if isinstance(functions, dict):
            functions = *functions, *(tuple(each) if isinstance(each, list) else each for each in functions.values())
        options = functions, self.observed, self.dropna, self.sort, self._slice, *self.by
        return _known.get([self.frame], options, lambda: self._lower()._meta)  # noqa: SLF001

    def _lower(self) -> Any:
        made = super()._lower()
        return DecomposedAsPandas(*made.operands) if type(made) is DecomposableGroupbyAggregation else made


def rows(series: Any, condition: Any) -> Any:
    """Those of one partition with an index of several levels; of a Series cuDF refuses a condition.

    Dask may select the Series or the index below the condition. Of an index, cuDF takes booleans for numbers of rows.
    """
    if not hasattr(series, "index"):
        return condition.to_frame(_SIZE)[condition].index
    if series.ndim > 1 or getattr(series.index, "nlevels", 1) == 1:
        return series[condition]
    return series.to_frame(_SIZE)[condition][_SIZE].rename(series.name)


class FilterAsPandas(Filter):
    """The rows for which a condition holds, of a dataframe with an index of several levels.

    It stays where it is: below other expressions, Dask's optimizer would make a plain filter of it.
    """

    operation = staticmethod(rows)  # type: ignore[assignment]

    def _simplify_up(self, parent: Any, dependents: Any) -> Any:
        return super()._simplify_up(parent, dependents) if isinstance(parent, Projection) else None


def selected(expression: Filter) -> Any:
    """A filter that cuDF can do."""
    meta = expression.frame._meta  # noqa: SLF001
    has_levels = getattr(getattr(meta, "index", meta), "nlevels", 1) > 1
    return FilterAsPandas(*expression.operands) if has_levels else expression


def of_known_keys(expression: Any) -> Any:
    """Means and variances of groups, without those of missing keys: Dask's ``dropna=None`` means false to pandas."""
    return expression.substitute_parameters({"dropna": True}) if expression.dropna is None else expression


def of_all_categories(expression: Any) -> Any:
    """Groups of all categories in one partition: Dask has all of them in each partition of the result."""
    is_open = "split_out" in expression._parameters and expression.operand("split_out") is None  # noqa: SLF001
    if not (is_open and expression.observed is False):
        return expression
    has_categories = any(str(_dtype_of(expression, key)) == "category" for key in expression.by)
    return expression.substitute_parameters({"split_out": 1}) if has_categories else expression


def _dtype_of(expression: Any, key: Any) -> Any:
    if isinstance(key, Expr):
        return getattr(meta_of(key), "dtype", None)
    return dtypes_of(expression.frame._meta).get(key)  # noqa: SLF001


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
    if isinstance(expression, GroupbyAggregation) and not expression._is_decomposable:  # noqa: SLF001
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
