"""dask_cudf's readers of Parquet files, with the indexes of `parquet`; imported where cuDF is, also by workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cudf
import cupy
import pyarrow.parquet
from dask_cudf._legacy.io.parquet import CudfEngine
from dask_cudf.io.parquet import CudfFusedParquetIO

from .parquet import numbered_as_pandas, rows_of_file

if TYPE_CHECKING:
    from collections.abc import Sequence

_load_multiple_files = CudfFusedParquetIO._load_multiple_files.__func__  # noqa: SLF001


class PandasIndexEngine(CudfEngine):  # type: ignore[misc]
    """As `dask_cudf`'s, which numbers the rows of a partition; this one numbers them in each file."""

    numbers_rows_as_pandas = True

    @classmethod
    def multi_support(cls) -> bool:
        """Whether it takes several files at once; dask_cudf's says so of itself alone, and of no subclass."""
        return True

    @classmethod
    def read_partition(cls, fs: Any, pieces: Any, columns: Any, index: Any, *args: Any, **kwargs: Any) -> Any:
        """The frame of a partition; see `dask.dataframe.io.parquet.utils.Engine`."""
        several = pieces if isinstance(pieces, list) else [pieces]
        read = super().read_partition
        if kwargs.get("filters") is not None and not index:
            # How many rows of each file are left can be seen of each file alone.
            return _numbered_anew([read(fs, piece, columns, index, *args, **kwargs) for piece in several])
        frame = read(fs, pieces, columns, index, *args, **kwargs)
        if len(several) == 1 and several[0][1] in (None, [None]):
            return frame
        return numbered_as_pandas(frame, lambda: _rows_of(fs, several), concatenated=_concatenated)


def load_multiple_files(cls: Any, frag_filters: Any, *args: Any, **kwargs: Any) -> Any:
    """As that of ``CudfFusedParquetIO``, for ``filesystem="arrow"``."""
    if frag_filters[0][1] is not None:
        return _numbered_anew([_load_multiple_files(cls, [each], *args, **kwargs) for each in frag_filters])
    frame = _load_multiple_files(cls, frag_filters, *args, **kwargs)
    fragments = [getattr(wrapper, "fragment", wrapper) for wrapper, _ in frag_filters]
    return numbered_as_pandas(
        frame,
        lambda: [rows_of_file(each.metadata, [group.id for group in each.row_groups] or None) for each in fragments],
        concatenated=_concatenated,
    )


def _rows_of(fs: Any, pieces: Sequence[Any]) -> list[range]:
    footers: dict[str, Any] = {}
    rows = []
    for path, row_groups, *_ in pieces:
        if path not in footers:
            footers[path] = pyarrow.parquet.read_metadata(path, filesystem=fs)
        groups = row_groups if isinstance(row_groups, list) else [row_groups]
        rows.append(rows_of_file(footers[path], None if None in groups else groups))
    return rows


def _numbered_anew(frames: Sequence[Any]) -> Any:
    """One frame of those that a filter has left of each file, numbered from 0 in each unless it has an index."""
    frame = cudf.concat(frames) if len(frames) > 1 else frames[0]
    if frame.index.name is None and frame.index.dtype.kind in "iu":
        frame.index = _concatenated([range(len(each)) for each in frames])
    return frame


def _concatenated(ranges: Sequence[range]) -> Any:
    return cudf.Index(cupy.concatenate([cupy.arange(each.start, each.stop, each.step) for each in ranges]))
