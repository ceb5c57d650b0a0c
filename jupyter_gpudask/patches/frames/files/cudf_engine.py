"""Readers of dask_cudf for Parquet files, with the indexes and categories of `parquet`; imported by workers, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cudf
import cupy
import pyarrow.parquet
from dask.dataframe.io.parquet.arrow import ArrowDatasetEngine
from dask_cudf._legacy.io.parquet import CudfEngine

from .parquet import (
    columns_of_filters,
    filtered,
    has_index,
    numbered_as_pandas,
    rows_of_file,
    with_categories,
    with_nullable_dtypes,
    with_zones,
    without_dictionaries,
    zones_of,
)


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
        options = dict(kwargs)
        schema = kwargs.get("schema")
        if kwargs.get("schema") is not None:
            kwargs["schema"] = without_dictionaries(kwargs["schema"])
        if zones := zones_of(schema):
            kwargs["read"] = {**kwargs.get("read", {}), "zones": zones}
        frame = super().read_partition(fs, pieces, columns, index, *args, **kwargs)
        frame = with_categories(
            frame,
            kwargs.get("categories"),
            lambda names: ArrowDatasetEngine.read_partition(
                fs, several, names, index=False, **{**options, "categories": [*names]}
            ),
        )
        frame = with_nullable_dtypes(frame, schema)
        if not len(frame) and not len(frame.columns):  # cuDF counts rows without columns by metadata of pandas only
            frame = cudf.DataFrame(index=cudf.RangeIndex(sum(map(len, _rows_of(fs, several)))))
        if len(several) == 1 and several[0][1] in (None, [None]):
            return frame
        return numbered_as_pandas(frame, lambda: _rows_of(fs, several), concatenated=_concatenated)

    @classmethod
    def _read_paths(
        cls,
        paths: Any,
        fs: Any,
        columns: Any = None,
        filters: Any = None,
        partitions: Any = None,
        **kwargs: Any,
    ) -> Any:
        """As the method of dask_cudf, with filters for indexes and for columns of directories, too."""
        if not filters:
            return cls._read_rows(paths, fs, columns=columns, partitions=partitions, **kwargs)
        of_directories = {part.name for part in partitions or ()}
        compared = [name for name in columns_of_filters(filters) if name not in of_directories]
        needed = columns and [*columns, *(name for name in compared if name not in columns)]
        frame = cls._read_rows(paths, fs, columns=needed, partitions=partitions, **kwargs)
        rows = filtered(frame, filters)
        if not columns:
            return rows
        added = [name for name in compared if name not in columns and name in rows.columns]
        return rows.drop(columns=added) if added else rows

    @classmethod
    def _read_rows(cls, *args: Any, zones: Any = None, **kwargs: Any) -> Any:
        """As ``_read_paths`` of dask_cudf, with time zones, which the filters compare, too."""
        return with_zones(cls._read_files(*args, **kwargs), zones or {})

    @classmethod
    def _read_files(cls, paths: Any, fs: Any, row_groups: Any = None, **kwargs: Any) -> Any:
        """As ``_read_paths`` of dask_cudf, also for a file whose metadata numbers the rows of all files.

        pandas writes such files with ``partition_cols``. cuDF numbers the rows by these metadata, and fails, unless it
        is told which parts of the file to read.
        """
        try:
            return super()._read_paths(paths, fs, row_groups=row_groups, **kwargs)
        except ValueError as error:
            are_whole = all(group is None for group in row_groups or ())
            if not are_whole or not str(error).startswith("Length mismatch"):
                raise
        footers = [pyarrow.parquet.read_metadata(path, filesystem=fs) for path in paths]
        groups = [[*range(footer.num_row_groups)] for footer in footers]
        return super()._read_paths(paths, fs, row_groups=groups, **kwargs)

    @staticmethod
    def write_partition(
        df: Any, path: Any, fs: Any, filename: Any, partition_on: Any, *args: Any, **options: Any
    ) -> Any:
        """As the method of dask_cudf, which fails to write a partition without rows to directories."""
        if partition_on and not len(df):
            return []
        return CudfEngine.write_partition(df, path, fs, filename, partition_on, *args, **options)

    @staticmethod
    def write_metadata(parts: Any, *args: Any, **kwargs: Any) -> Any:
        """As the method of dask_cudf; of partitions that were not written there is none."""
        return CudfEngine.write_metadata([part for part in parts or () if part], *args, **kwargs)


def _rows_of(fs: Any, pieces: Sequence[Any]) -> list[range]:
    footers: dict[str, Any] = {}
    rows = []
    for path, row_groups, *_ in pieces:
        if path not in footers:
            footers[path] = pyarrow.parquet.read_metadata(path, filesystem=fs)
        if has_index(footers[path]):
            return []
        groups = row_groups if isinstance(row_groups, list) else [row_groups]
        rows.append(rows_of_file(footers[path], None if None in groups else groups))
    return rows


def _concatenated(ranges: Sequence[range]) -> Any:
    return cudf.Index(cupy.concatenate([cupy.arange(each.start, each.stop, each.step) for each in ranges]))
