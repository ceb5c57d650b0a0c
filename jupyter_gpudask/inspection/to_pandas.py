"""Convert cuDF dataframes to pandas, with lists where pandas has lists.

cuDF's ``to_pandas`` converts the lists of ``s.str.split()`` to NumPy arrays, which the methods of ``.str`` refuse.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from dask._collections import new_collection
from dask.dataframe.dask_expr._backends import ToPandasBackend
from dask.dataframe.dispatch import to_pandas_dispatch


def collection_to_pandas(collection: Any) -> Any:
    """As ``collection.to_backend("pandas")``, with lists."""
    return new_collection(ToPandasWithLists(collection.expr, {}))


class ToPandasWithLists(ToPandasBackend):
    """The expression."""

    @staticmethod
    def operation(df: Any, options: Any) -> Any:
        """The partition as one of pandas."""
        return with_lists(to_pandas_dispatch(df, **options), df)


def with_lists(converted: Any, given: Any) -> Any:
    """A dataframe, Series or index of pandas, with lists in the columns that have lists in cuDF.

    Parameters
    ----------
    converted
        What cuDF has made of it.
    given
        The same of cuDF.
    """
    if isinstance(converted, pd.Series):
        return _lists(given, converted.index) if has_lists(given.dtype) else converted
    if isinstance(converted, pd.DataFrame) and not isinstance(given, pd.DataFrame):
        for name, dtype in given.dtypes.items():
            if has_lists(dtype):
                converted[name] = _lists(given[name], converted.index)
    return converted


def has_lists(dtype: Any) -> bool:
    """Whether it is a dtype of lists, of cuDF or of Arrow."""
    name = str(getattr(dtype, "name", ""))
    return name == "list" or name.startswith("list<")


def _lists(series: Any, index: pd.Index) -> pd.Series:
    return pd.Series(series.to_arrow().to_pylist(), index=index, dtype=object, name=series.name)
