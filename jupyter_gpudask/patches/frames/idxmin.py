"""``idxmin`` and ``idxmax`` of dataframes on GPUs, which cuDF 26.10 lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from dask.dataframe.core import idxmaxmin_chunk
from dask.dataframe.dask_expr._reductions import IdxMax, IdxMin
from dask.utils import is_dataframe_like


def find_extremes(
    block: Any,
    fn: str = "idxmin",
    skipna: bool = True,  # noqa: FBT002 - Dask's signature
    numeric_only: bool = False,  # noqa: FBT002
) -> pd.DataFrame:
    """Labels and values of the extremes of each column of a cuDF DataFrame, or of a Series, on the host.

    Returns
    -------
    pandas.DataFrame
        With the columns ``idx`` and ``value``, and a row for each column of a DataFrame. None for a block without rows.

    Raises
    ------
    ValueError
        As pandas 3 does: a column has nothing but missing values, or one although `skipna` is false.
    """
    if isinstance(block, pd.DataFrame | pd.Series):
        made: pd.DataFrame = idxmaxmin_chunk(block, fn, skipna=skipna, numeric_only=numeric_only)
        return made
    if not len(block):
        return pd.DataFrame({"idx": pd.Series([], dtype="i8"), "value": pd.Series([], dtype="i8")})
    if not is_dataframe_like(block):
        label, value = _find_extreme(block, fn, skipna)
        return pd.DataFrame({"idx": [label], "value": [value]})
    if numeric_only:
        block = block[[name for name in block.columns if getattr(block[name].dtype, "kind", "O") in "biufc"]]
    found = {name: _find_extreme(block[name], fn, skipna) for name in block.columns}
    labels, values = zip(*found.values(), strict=True) if found else ((), ())
    return pd.DataFrame({"idx": labels, "value": values}, index=list(found))


def _find_extreme(column: Any, fn: str, skipna: bool) -> tuple[Any, Any]:
    column = column.nans_to_nulls() if column.dtype.kind == "f" else column
    if not skipna and column.isna().any():
        raise ValueError(f"{fn} with skipna=False encountered an NA value.")
    if column.isna().all():
        raise ValueError(f"{fn} with skipna=True encountered all NA values.")
    value = column.max() if fn == "idxmax" else column.min()
    first = int(np.argmax((column == value).fillna(False).to_cupy()))  # noqa: FBT003 - cuDF's signature
    label = column.index[first]
    return (label.item() if isinstance(label, np.number) else label), value


class IdxMinAsPandas(IdxMin):
    """The labels of the least values."""

    reduction_chunk = find_extremes


class IdxMaxAsPandas(IdxMax):
    """The labels of the greatest values."""

    reduction_chunk = find_extremes
