"""dask_cudf's readers of Parquet files, with the indexes and categories of `parquet`; imported by workers, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cudf
import cupy
import pyarrow.parquet
from dask_cudf._legacy.io.parquet import CudfEngine

from .parquet import numbered_as_pandas, rows_of_file, with_categories, without_dictionaries

if TYPE_CHECKING:
    from collections.abc import Sequence


class PandasIndexEngine(CudfEngine):  # type: ignore[misc]
    """As the engine of `dask_cudf`, but numbers rows in each file instead of in each partition, and has categories."""

    @classmethod
    def multi_support(cls) -> bool:
        """Whether it reads several files at once; the method of dask_cudf returns `False` for subclasses."""
        return True

    @classmethod
    def read_partition(cls, fs: Any, pieces: Any, columns: Any, index: Any, *args: Any, **kwargs: Any) -> Any:
        """The dataframe of a partition; see `dask.dataframe.io.parquet.utils.Engine`."""
        several = pieces if isinstance(pieces, list) else [pieces]
        if kwargs.get("schema") is not None:
            kwargs["schema"] = without_dictionaries(kwargs["schema"])
        frame = super().read_partition(fs, pieces, columns, index, *args, **kwargs)
        frame = with_categories(frame, kwargs.get("categories"))
        if len(several) == 1 and several[0][1] in (None, [None]):
            return frame
        return numbered_as_pandas(frame, lambda: _rows_of(fs, several), concatenated=_concatenated)


def _rows_of(fs: Any, pieces: Sequence[Any]) -> list[range]:
    footers: dict[str, Any] = {}
    rows = []
    for path, row_groups, *_ in pieces:
        if path not in footers:
            footers[path] = pyarrow.parquet.read_metadata(path, filesystem=fs)
        groups = row_groups if isinstance(row_groups, list) else [row_groups]
        rows.append(rows_of_file(footers[path], None if None in groups else groups))
    return rows


def _concatenated(ranges: Sequence[range]) -> Any:
    return cudf.Index(cupy.concatenate([cupy.arange(each.start, each.stop, each.step) for each in ranges]))
