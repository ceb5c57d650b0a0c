"""Metadata of merges, computed once for operands with the same columns and types.

Dask merges the metadata of its operands again whenever a step of the optimizer rewrites one of them: with five merges
that takes most of the time of a plan.
"""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd
from dask.dataframe.dask_expr._merge import Merge

_MOST = 1000


def once_for_each_schema(original: functools.cached_property[Any]) -> functools.cached_property[Any]:
    """As ``Merge._meta``, which is this property."""
    known: dict[Any, pd.DataFrame] = {}

    def meta(merge: Merge) -> Any:
        options = tuple(tuple(value) if isinstance(value, list) else value for value in merge.kwargs.values())
        schemas = [_schema(part._meta) for part in (merge.left, merge.right)]  # noqa: SLF001
        if not all(schemas) or not all(map(_is_plain, options)):
            return original.func(merge)
        key = (*schemas, options)
        if key not in known:
            if len(known) == _MOST:
                known.clear()
            known[key] = original.func(merge)
        return known[key].copy(deep=False)

    made = functools.cached_property(meta)
    made.__set_name__(Merge, "_meta")
    return made


def _schema(meta: Any) -> tuple[Any, ...]:
    """Names and types of the columns and the index of a dataframe of pandas; empty for anything else."""
    if type(meta) is not pd.DataFrame or type(meta.index) not in (pd.Index, pd.RangeIndex, pd.DatetimeIndex):
        return ()
    columns = meta.columns
    return (
        tuple(columns),
        type(columns),
        columns.name,
        *meta.dtypes,
        type(meta.index),
        meta.index.dtype,
        meta.index.name,
    )


def _is_plain(option: Any) -> bool:
    """Whether it may be compared: an expression may not."""
    values = option if isinstance(option, tuple) else (option,)
    return all(value is None or isinstance(value, str | int) for value in values)
