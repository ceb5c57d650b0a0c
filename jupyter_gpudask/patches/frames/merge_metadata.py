"""Metadata of merges and groups, computed once for operands with the same columns and types.

Dask computes it again whenever a step of the optimizer rewrites an operand: with five merges, or functions of groups of
five columns, that takes most of the time of a plan.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from dask.dataframe.dask_expr._merge import Merge

_MOST = 1000


def once_for_each_schema(original: functools.cached_property[Any]) -> functools.cached_property[Any]:
    """As ``Merge._meta``, which is this property."""
    known = KnownMetadata()

    def meta(merge: Merge) -> Any:
        options = [tuple(value) if isinstance(value, list) else value for value in merge.kwargs.values()]
        return known.get((merge.left, merge.right), options, lambda: original.func(merge))

    made = functools.cached_property(meta)
    made.__set_name__(Merge, "_meta")
    return made


class KnownMetadata:
    """The metadata of one kind of expression, by the schemas of its operands and its options."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def get(self, operands: Sequence[Any], options: Sequence[Any], compute: Callable[[], Any]) -> Any:
        """The metadata of an expression, which is computed if it is not known, or if an option is an expression."""
        schemas = [_schema(operand._meta) for operand in operands]  # noqa: SLF001
        if not all(schemas) or not all(map(_is_plain, options)):
            return compute()
        key = (*schemas, *options)
        if key not in self._known:
            if len(self._known) == _MOST:
                self._known.clear()
            self._known[key] = compute()
        return self._known[key].copy(deep=False)


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
    return all(map(_is_plain, option)) if isinstance(option, tuple) else option is None or isinstance(option, str | int)
