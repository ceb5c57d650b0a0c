"""Functions of Dask's optimizer of dataframes that lose rows or columns, or fail, on the CPU too.

They move filters and columns below other operations, align partitions, and leave shuffles out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pandas as pd
from dask.dataframe.dask_expr import _expr
from dask.dataframe.dask_expr._merge import BroadcastJoin, Merge
from dask.dataframe.dask_expr._repartition import Repartition
from dask.dataframe.dask_expr._shuffle import ShuffleBase

from ...inspection.arguments import bind
from ...inspection.placement import place_of_partitions
from .groupby import FilterAsPandas
from .rules import with_fewer_columns


def filters_pass(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``Expr._filter_passthrough_available``, which takes the condition of a filter for what is filtered.

    Dask then filters the condition itself: ``df[df.x.astype(bool)]`` is ``df.x.astype(bool)``. A condition of an index
    is an array, which has no missing values that can be filled.
    """
    call = bind(original, args, kwargs).arguments
    filtered, parent = call["self"], call["parent"]
    is_other = isinstance(parent, _expr.Filter) and parent.frame._name != filtered._name  # noqa: SLF001
    if is_other or isinstance(parent, FilterAsPandas) or isinstance(filtered, _expr.ToFrameIndex):
        return False
    return original(*args, **kwargs)


def shuffled_columns(original: property) -> property:  # noqa: ARG001 - as it is called for a value
    """As ``Merge.unique_partition_mapping_columns_from_shuffle``: the columns by whose hashes the rows are divided.

    Dask has the keys also of a merge that shuffles none or one of its operands, such as one with a small dataframe.
    What follows, such as a merge by the same key, then misses rows that are in other partitions.
    """

    def columns(merge: Merge) -> set[Any]:
        if merge._is_single_partition_broadcast:  # noqa: SLF001
            return set(_larger(merge).unique_partition_mapping_columns_from_shuffle)
        is_sent = isinstance(merge, BroadcastJoin) or (type(merge) is Merge and merge.is_broadcast_join)
        if is_sent or (merge.merge_indexed_left and merge.merge_indexed_right):
            return set()
        of_left, of_right = (tuple(on) if isinstance(on, list) else on for on in (merge.left_on, merge.right_on))
        kept = {"inner": {of_left, of_right}, "right": {of_right}, "outer": {of_left} & {of_right}}
        return kept.get(merge.how, {of_left})  # the others may be missing, in any partition

    return property(columns)


def named_columns(original: functools.cached_property[Any]) -> property:
    """As ``ApplyConcatApply.unique_partition_mapping_columns_from_shuffle``, without `None` for all columns.

    Groups of distinct rows fail in Dask, which expects columns.
    """
    return property(lambda rows: {columns for columns in original.func(rows) if columns is not None})


def is_sent_to_all(original: functools.cached_property[bool]) -> functools.cached_property[bool]:
    """As ``Merge.is_broadcast_join``, which divides rows by an index otherwise than the partitions that are sent."""

    def is_sent(merge: Merge) -> bool:
        by_index = merge.left_index or merge.right_index
        return not (by_index and merge.how != "inner") and original.func(merge)

    made = functools.cached_property(is_sent)
    made.__set_name__(Merge, "is_broadcast_join")
    return made


def _larger(merge: Merge) -> Any:
    """The operand of which the result has the partitions, if the other one is a single partition."""
    return merge.left if merge.left.npartitions >= merge.right.npartitions else merge.right


def columns_of_merge_pass(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``Merge._simplify_up``, which leaves out the column beside which a key has a suffix.

    That is ``id_y`` of a merge with ``left_on="k", right_on="id"`` of two dataframes with ``id``.
    """
    call = bind(original, args, kwargs).arguments
    merge, parent = call["self"], call["parent"]
    if not isinstance(parent, _expr.Projection):
        return original(*args, **kwargs)
    sides = merge.left, merge.right
    keys = [{on} if isinstance(on, str) else {*(on or ())} for on in (merge.left_on, merge.right_on)]
    both = set(sides[0].columns) & set(sides[1].columns)
    wanted = _expr.determine_column_projection(merge, parent, call["dependents"])
    wanted = {*wanted} if isinstance(wanted, list) else {wanted}
    pairs = zip(keys, merge.suffixes, strict=True)
    if not any(f"{name}{suffix}" in wanted for names, suffix in pairs for name in names & both):
        return original(*args, **kwargs)
    wanted |= {name for name in both if any(f"{name}{suffix}" in wanted for suffix in merge.suffixes)}
    columns = [
        [name for name in side.columns if name in wanted | names] for side, names in zip(sides, keys, strict=True)
    ]
    if columns == [list(side.columns) for side in sides]:
        return None
    made = type(merge)(*(side[names] for side, names in zip(sides, columns, strict=True)), *merge.operands[2:])
    return made[parent.operand("columns")]


def is_shuffled(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``Merge._on_condition_already_partitioned``; only of a merge or shuffle into as many partitions.

    Dask's is true for all columns and an index, and for partitions that were put together since, or aggregated.
    """
    call = bind(original, args, kwargs).arguments
    found: Any = call["expr"]
    while True:
        if isinstance(found, Merge) and found._is_single_partition_broadcast:  # noqa: SLF001
            found = _larger(found)
        elif isinstance(found, _expr.Blockwise) and "frame" in found._parameters:  # noqa: SLF001
            found = found.frame
        else:
            break
    is_divided = original(*args, **kwargs)
    return is_divided if call["on"] is not None and isinstance(found, Merge | ShuffleBase) else False


def align(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``MaybeAlignPartitions._lower``, which fails for single partitions of which the divisions differ.

    Files are read as one partition without divisions, also where Dask has several on the CPU, and shuffles them.
    """
    expression = bind(original, args, kwargs).arguments["self"]
    parts = expression.args
    if len({part.divisions for part in parts}) < 2 or any(part.npartitions > 1 for part in parts):
        return original(*args, **kwargs)
    is_known = expression.divisions[0] is not None and all(part.known_divisions for part in parts)

    def aligned(operand: Any) -> Any:
        if not isinstance(operand, _expr.Expr) or operand.ndim == 0:
            return operand
        if is_known:
            return Repartition(operand, new_divisions=expression.divisions, force=True)
        return _expr.ClearDivisions(operand)

    return original(type(expression)(*map(aligned, expression.operands)))


def columns_pass(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``plain_column_projection``, which finds no columns for a name of the first of several levels.

    Dask then computes none of them for ``df.groupby("k").agg({"x": ["sum", "std"]})["x"]``, if an operation such as the
    move to another device follows the aggregation. And it makes a Series of a single column, to which values by the
    names of columns mean something else: ``df.fillna({"x": 0}).x``.
    """
    call = bind(original, args, kwargs).arguments
    expression, parent = call["expr"], call["parent"]
    if isinstance(parent, _expr.Projection):
        if _has_values_of_columns(expression):
            return with_fewer_columns(expression, parent, call["dependents"])
        columns = expression.frame.columns
        if any(isinstance(name, tuple) for name in columns) and not set(parent.columns) <= set(columns):
            return None
    return original(*args, **kwargs)


def _has_values_of_columns(expression: Any) -> bool:
    """Whether it has a part on a GPU, and may have values by the names of columns; those of ``isin`` are delayed."""
    if expression.ndim < 2 or not isinstance(expression, _OF_COLUMNS):
        return False
    is_plain = isinstance(expression, _expr.Fillna | _expr.Replace | _expr.Round) and not any(
        isinstance(operand, dict | pd.Series) for operand in expression.operands
    )
    return not is_plain and any(place_of_partitions(part) == "gpu" for part in expression.walk())


_OF_COLUMNS = (_expr.Fillna, _expr.Isin, _expr.Mask, _expr.Replace, _expr.Round, _expr.Where)
