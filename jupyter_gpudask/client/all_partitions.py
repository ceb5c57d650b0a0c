"""Keep all partitions of a dataframe whose number of partitions Dask's optimizer changes."""

from __future__ import annotations

from typing import Any

from dask._expr import HLGExpr
from dask.base import collections_to_expr

_SEVERAL = (list, tuple, set, frozenset)


def with_all_partitions(collections: Any) -> Any:
    """The argument of `distributed.Client.persist`, so that it keeps all partitions of each dataframe.

    Dask keeps as many partitions as a dataframe has before it is optimized. Its optimizer makes fewer if a file has
    columns that are not read, and more in a reduction: the dataframe then needs results that do not exist, or has only
    a part of its rows.

    Parameters
    ----------
    collections
        A Dask collection, or a list, a tuple or a set of collections.
    """
    if not isinstance(collections, _SEVERAL):
        return _with_all_partitions([collections])[0]
    return _with_all_partitions(list(collections))


def _with_all_partitions(collections: list[Any]) -> list[Any]:
    if not any(map(_is_frame, collections)):
        return collections
    from dask._collections import new_collection

    # As in `persist`: dataframes are optimized together, so that those of the same files are divided alike, but each
    # alone if a collection beside them has no expression.
    together = collections_to_expr(collections)
    is_mixed = any(isinstance(expression, HLGExpr) for expression in together.operands)
    expressions = together.operands if is_mixed else together.optimize().operands
    optimized = [
        new_collection(expression.optimize() if is_mixed else expression) if _is_frame(collection) else collection
        for collection, expression in zip(collections, expressions, strict=True)
    ]
    pairs = zip(collections, optimized, strict=True)
    if all(old.npartitions == new.npartitions for old, new in pairs if _is_frame(old)):
        return collections
    return optimized  # which the second optimization, in `persist`, leaves as it is


def _is_frame(collection: Any) -> bool:
    kind = type(collection)  # a Delayed object has every attribute, but its class does not
    return hasattr(kind, "expr") and hasattr(kind, "divisions")
