"""``sort_values`` of several partitions on GPUs: texts and booleans with missing values, and missing values first.

Of cuDF's texts, and of its nullable booleans, the quantiles of a partition have missing ones among them, by which Dask
cannot sort. Dask 2026.7 puts missing values in the last partition, also with ``na_position="first"``.
"""

# ruff: noqa: SLF001 - of Dask's expressions
from __future__ import annotations

from typing import Any

from dask.dataframe.dask_expr._expr import Assign, DropnaSeries, Projection
from dask.dataframe.dask_expr._shuffle import (
    Shuffle,
    SortValues,
    SortValuesBlockwise,
    _get_divisions,
    _SetPartitionsPreSetIndex,
)


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
