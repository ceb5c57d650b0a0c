"""``sort_values`` and ``set_index`` on GPUs: missing values, and divisions of files that are read as one partition.

Of cuDF's texts, and of its nullable booleans, the quantiles of a partition have missing ones among them, by which Dask
cannot sort. Dask 2026.7 puts missing values in the last partition, also with ``na_position="first"``. It finds the
divisions of a new index only if there are several partitions, as on the CPU.
"""

# ruff: noqa: SLF001 - of Dask's expressions
from __future__ import annotations

from typing import Any

import pandas as pd
from dask.dataframe.dask_expr._expr import Assign, DropnaSeries, Projection
from dask.dataframe.dask_expr._shuffle import (
    SetIndex,
    SetIndexBlockwise,
    Shuffle,
    SortIndexBlockwise,
    SortValues,
    SortValuesBlockwise,
    _get_divisions,
    _SetPartitionsPreSetIndex,
)
from pandas.api.types import is_string_dtype

from ...inspection.frames import FromGraphOnGpu, FromMapOnGpu
from .files.parquet_readers import ReadParquetOnGpu

READ = (FromGraphOnGpu, FromMapOnGpu, ReadParquetOnGpu)
"""What may have fewer partitions than on the CPU."""


class SortValuesAsPandas(SortValues):
    """Sorted rows of several partitions, whose missing values are the first or the last of all."""

    def _divisions(self) -> Any:
        if self.frame.npartitions == 1:
            return super()._divisions()
        divisions, is_sorted = self._found()
        return self.frame.divisions if is_sorted else (None,) * len(divisions)

    def _lower(self) -> Any:
        if self.frame.npartitions == 1:
            return super()._lower()
        divisions, is_sorted = self._found()
        rows = self.frame
        if not is_sorted or self.npartitions != rows.npartitions:
            key = rows[self.by[0]]
            bounds = key._meta._constructor(divisions).sort_values()
            places = _SetPartitionsPreSetIndex(key, bounds, self._divisions_ascending, self.na_position)
            rows = Shuffle(
                Assign(rows, "_partitions", places),
                "_partitions",
                npartitions_out=len(divisions) - 1,
                ignore_index=self.ignore_index,
                method=self.shuffle_method,
                options=self.options,
            )
            rows = Projection(rows, self.frame.columns)
        return SortValuesBlockwise(rows, self.sort_function, self.sort_function_kwargs)

    def _found(self) -> tuple[Any, bool]:
        """The divisions, those of texts or booleans without the missing ones, and whether the rows have them."""
        key = self.frame[self.by[0]]
        dtype = key._meta.dtype
        key = key if dtype.kind in "iufcmM" or dtype == "category" else DropnaSeries(key)
        by = self._npartitions_input, self._divisions_ascending
        divisions, _, _, is_sorted = _get_divisions(self.frame, key, *by, upsample=self.upsample)
        return divisions, is_sorted


class SetIndexAsPandas(SetIndex):
    """An index of the only partition, whose `divisions` are known: `loc` and `resample` need them."""

    _parameters = [*SetIndex._parameters, "found"]  # noqa: RUF012 - as in Dask

    def _divisions(self) -> Any:
        return self.operand("found")

    def _lower(self) -> Any:
        return SortIndexBlockwise(SetIndexBlockwise(self.frame, self._other, self.drop, self.operand("found")))


def indexed(expression: SetIndex) -> Any:
    """An index whose divisions are known, as of several partitions, also if files were read as one.

    Its values are read, as Dask does for several partitions.
    """
    is_one = expression.operand("npartitions") in (None, 1) and expression.frame.npartitions == 1
    is_plain = expression.user_divisions is None and not expression.append
    if not (is_one and is_plain and any(isinstance(part, READ) for part in expression.walk())):
        return expression
    if not (is_string_dtype(expression.other._meta.dtype) or expression.other._meta.dtype.kind in "iufmM"):
        return expression  # dask_cudf has no divisions of categories
    try:
        found, *_ = _get_divisions(expression.frame, expression.other, 1, expression.ascending)
    except NotImplementedError:  # of missing texts
        return expression
    return expression if pd.isna(found).any() else SetIndexAsPandas(*expression.operands, tuple(found))
