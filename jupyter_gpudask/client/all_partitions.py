"""Keep all partitions of a dataframe whose number of partitions Dask's optimizer changes."""

from __future__ import annotations

from typing import Any

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
    if isinstance(collections, _SEVERAL):
        return [_with_all_partitions(collection) for collection in collections]
    return _with_all_partitions(collections)


def _with_all_partitions(collection: Any) -> Any:
    kind = type(collection)  # a Delayed object has every attribute, but its class does not
    if not (hasattr(kind, "expr") and hasattr(kind, "divisions")):
        return collection
    from dask._collections import new_collection

    # As in `persist`: an expression that reads files is optimized only below another one.
    (optimized,) = collections_to_expr([collection]).optimize().operands
    # Optimized together with other collections, it may share more work.
    return collection if optimized.npartitions == collection.npartitions else new_collection(optimized)
