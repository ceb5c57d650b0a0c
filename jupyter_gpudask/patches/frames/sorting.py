"""``sort_values`` and ``set_index`` on GPUs: missing values, and divisions of files that are read as one partition.

The quantiles of a partition without other values are missing ones, by which Dask 2026.7 cannot sort: it fails, or sorts
numbers otherwise. It leaves missing values where they are if the others are in order, and puts them in the last
partition, also with ``na_position="first"``. It finds the divisions of a new index only if there are several
partitions, as on the CPU.
"""

# ruff: noqa: SLF001 - of Dask's expressions
from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from dask._collections import new_collection
from dask.dataframe.dask_expr._expr import Assign, DropnaSeries, Expr, Projection
from dask.dataframe.dask_expr._repartition import RepartitionToFewer
from dask.dataframe.dask_expr._shuffle import (
    SetIndex,
    SetIndexBlockwise,
    SetPartition,
    Shuffle,
    SortIndexBlockwise,
    SortValues,
    SortValuesBlockwise,
    _get_divisions,
    _SetPartitionsPreSetIndex,
)
from dask.utils import is_index_like
from pandas.api.types import is_string_dtype

from ...inspection.frames import FromGraphOnGpu, FromMapOnGpu
from .files.parquet_readers import ReadParquetOnGpu

_READ = (FromGraphOnGpu, FromMapOnGpu, ReadParquetOnGpu)


class SortValuesAsPandas(SortValues):
    """Sorted rows of several partitions, whose missing values are the first or the last of all."""

    def _divisions(self) -> Any:
        if self.frame.npartitions == 1 or self._npartitions_input == 1:
            return (None, None)
        divisions, is_sorted = self._found
        return self.frame.divisions if is_sorted else (None,) * len(divisions)

    def _lower(self) -> Any:
        if self.frame.npartitions == 1 or self._npartitions_input == 1:
            return SortValuesBlockwise(_in_one(self.frame), self.sort_function, self.sort_function_kwargs)
        divisions, is_sorted = self._found
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

    @cached_property
    def _found(self) -> tuple[Any, bool]:
        """The divisions, without missing values, and whether the rows have them, of which none is missing."""
        key = self.frame[self.by[0]]
        dtype = key._meta.dtype
        may_be_missing = dtype != "category" and not (isinstance(dtype, np.dtype) and dtype.kind in "iub")
        present = DropnaSeries(key) if may_be_missing else key
        by = self._npartitions_input, self._divisions_ascending
        divisions, _, _, is_sorted = _get_divisions(self.frame, present, *by, upsample=self.upsample)
        is_missing = is_sorted and may_be_missing and bool(new_collection(key).isna().any().compute())
        return divisions, is_sorted and not is_missing


class SetIndexAsPandas(SetIndex):
    """An index of rows of files with the divisions that were `found`, however many partitions are read in the end.

    `is_sorted`: whether the partitions had these divisions already.
    """

    _parameters = [*SetIndex._parameters, "found", "is_sorted"]  # noqa: RUF012 - as in Dask

    @property
    def npartitions(self) -> int:
        """As many as there are divisions."""
        return len(self.operand("found")) - 1

    def _divisions(self) -> Any:
        return self.operand("found")

    def _lower(self) -> Any:
        found = self.operand("found")
        frame = _in_one(self.frame) if self.npartitions == 1 else self.frame
        is_in_place = frame.npartitions == self.npartitions and (self.npartitions == 1 or self.operand("is_sorted"))
        if is_in_place and not isinstance(self._other, Expr):  # whose columns Dask cannot select
            return SortIndexBlockwise(SetIndexBlockwise(frame, self._other, self.drop, found))
        options = self.ascending, self.upsample, found, self.shuffle_method, self.options
        return SetPartition(self.frame, self._other, self.drop, None, *options)


def _in_one(rows: Expr) -> Expr:
    return rows if rows.npartitions == 1 else RepartitionToFewer(rows, 1)


def sorted_rows(expression: Any) -> SortValues:
    """Sorted rows of files in as many partitions as these are read in; Dask counts the files."""
    is_counted = expression.operand("npartitions") is None and expression.frame.npartitions > 1
    if is_counted and are_read(expression):
        blockwise = SortValuesBlockwise(expression.frame, expression.sort_function, expression.sort_function_kwargs)
        expression = expression.substitute_parameters({"npartitions": _number_as_read(blockwise)})
    return SortValuesAsPandas(*expression.operands)


def are_read(expression: Expr) -> bool:
    """Whether rows of it are read, and so may be in fewer partitions than on the CPU."""
    return any(isinstance(part, _READ) for part in expression.walk())


def _number_as_read(expression: Expr) -> int:
    """The partitions of an expression that changes no number of them, when files are read as fewer of them."""
    return int(expression.optimize(fuse=False).npartitions)


def indexed(expression: SetIndex) -> Any:
    """An index of files in as many partitions as they are read in, with known divisions, as of several on the CPU.

    Dask counts the files. It forgets the divisions when they become one partition, and finds others, and so loses rows,
    when they become fewer. The values of the index are read, as by Dask for several partitions.
    """
    if not are_read(expression) or expression.user_divisions is not None or expression.append:
        return expression
    frame, key = expression.frame, expression.other
    if is_index_like(key._meta) or not (is_string_dtype(key._meta.dtype) or key._meta.dtype.kind in "iufmM"):
        return expression  # dask_cudf has no divisions of categories
    number = expression.operand("npartitions") or frame.npartitions
    if number > 1 and expression.operand("npartitions") is None:
        number = _number_as_read(SetIndexBlockwise(frame, expression._other, expression.drop))
    try:
        found, *ends, is_sorted = _get_divisions(frame, key, number, expression.ascending, upsample=expression.upsample)
    except (NotImplementedError, TypeError):  # of missing values
        return expression
    is_sorted = is_sorted and number == frame.npartitions == len(ends[0])
    found = [*ends[0], ends[1][-1]] if is_sorted else list(found)
    return expression if pd.isna(found).any() else SetIndexAsPandas(*expression.operands, tuple(found), is_sorted)
