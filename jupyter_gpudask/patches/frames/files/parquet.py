"""Indexes and categories of dataframes that cuDF reads: rows are numbered in each file, as in pandas.

dask_cudf 26.10 reads several small files as one partition, whose rows cuDF numbers consecutively: 0 to 2,999 for two
files of 1,500 rows, where pandas has 0 to 1,499 twice. If only part of a file is read, cuDF numbers its rows as in the
file, pandas from 0. It reads columns that pandas has written as categories as texts; their categories are read on the
host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem


def numbered_as_pandas(
    frame: Any, ranges: Callable[[], Sequence[range]], *, concatenated: Callable[[Sequence[range]], Any]
) -> Any:
    """`frame` with its rows numbered by the ranges; unchanged if it has an index of its own, or other rows.

    - `frame`: of cuDF, read at once from what `ranges` tells of.
    - `ranges`: called if they are needed, for they are read from the files.
    - `concatenated`: makes an index of several ranges.
    """
    index = frame.index
    # cuDF joins the ranges of several files to an index without a name, too.
    if index.name is not None or type(index).__name__ not in ("RangeIndex", "Index") or index.dtype.kind != "i":
        return frame
    found = _joined(ranges())
    if sum(map(len, found)) != len(frame):
        return frame
    if len(found) == 1 and type(index).__name__ == "RangeIndex":
        (only,) = found
        frame.index = type(index)(only.start, only.stop, only.step)
    else:
        frame.index = concatenated(found)
    return frame


def with_categories(frame: Any, names: Sequence[Any] | None, read_on_host: Callable[[list[Any]], Any]) -> Any:
    """`frame` with categories in these columns, in the order of the files and with those that no row has.

    - `frame`: of cuDF.
    - `names`: the columns that are categories in the metadata that Dask makes for it.
    - `read_on_host`: reads columns as a dataframe of pandas. The categories are in the same parts of files as the
      values.
    """
    texts = [name for name in names or () if name in frame.columns and str(frame[name].dtype) != "category"]
    return frame.astype(dict(read_on_host(texts).dtypes)) if texts else frame


_NULLABLE = re.compile(r"(U?Int|Float)\d+|boolean|(u?int\d+|double|float|bool)\[pyarrow\]")
"""The names of the nullable dtypes of numbers."""


def with_nullable_dtypes(frame: Any, schema: Any) -> Any:
    """`frame` of cuDF with the nullable dtypes that a schema has in its metadata for pandas."""
    columns = schema.pandas_metadata["columns"] if schema is not None and schema.pandas_metadata else ()
    dtypes = {column["name"]: column["numpy_type"] for column in columns if column["name"] in frame.columns}
    nullable = {name: dtype for name, dtype in dtypes.items() if _NULLABLE.fullmatch(dtype)}
    return frame.astype(nullable) if nullable else frame


def zone_of(dtype: Any) -> str:
    """The name of the time zone of a dtype of pandas or Arrow; empty if it has none."""
    arrow = dtype.pyarrow_dtype if isinstance(dtype, pd.ArrowDtype) else dtype
    if isinstance(arrow, pa.DataType):
        return (arrow.tz or "") if pa.types.is_timestamp(arrow) else ""
    return str(dtype.tz) if isinstance(dtype, pd.DatetimeTZDtype) else ""


def is_offset(zone: str) -> bool:
    """Whether a time zone is named by its distance from UTC, as ``+02:00``: cuDF has no such time zones."""
    return zone.removeprefix("UTC").startswith(("+", "-"))


def zones_of(schema: Any) -> dict[str, str]:
    """The time zones of the columns of a schema of PyArrow that have some, by name."""
    return {field.name: zone for field in schema or () if (zone := zone_of(field.type))}


def with_zones(frame: Any, zones: dict[str, str]) -> Any:
    """`frame` of cuDF with these time zones of columns; cuDF 26.10 reads their times as those of UTC, without a zone.

    Of a zone that is named by its distance from UTC they are times of UTC then.
    """
    for name, zone in zones.items():
        wanted = "UTC" if is_offset(zone) else zone
        if name in frame.columns:
            frame[name] = frame[name].dt.tz_localize("UTC").dt.tz_convert(wanted)
        elif name == frame.index.name or (frame.index.name is None and _INDEX.fullmatch(name)):
            frame.index = frame.index.tz_localize("UTC").tz_convert(wanted)
    return frame


_INDEX = re.compile(r"__index_level_\d+__")
"""The column of an index without a name."""


def name_dtypes(fs: Any, path: str, dtypes: dict[str, str]) -> None:
    """Let the metadata for pandas, in a file that cuDF has written, name these dtypes of its columns.

    cuDF 26.10 names a nullable dtype for each column of which values are missing, and one of NumPy for any other. The
    metadata are in the footer, at the end of the file: a text that follows its length, as in Thrift's compact protocol.
    """
    with fs.open(path, "rb") as file:
        metadata = pq.read_metadata(file).metadata or {}
        file.seek(-8, 2)
        length = int.from_bytes(file.read(4), "little")
        place = file.seek(-8 - length, 2)
        footer = file.read(length)
    given = metadata.get(b"pandas", b"{}")
    written = json.loads(given)
    for column in written.get("columns", ()):
        dtype = dtypes.get(column["name"], "")
        if dtype != column["numpy_type"] and _plain(dtype) == _plain(column["numpy_type"]):
            column["numpy_type"] = dtype
    if written == json.loads(given):
        return
    made = json.dumps(written).encode()
    footer = footer.replace(_length(given) + given, _length(made) + made)
    end = footer + len(footer).to_bytes(4, "little") + b"PAR1"
    if isinstance(fs, LocalFileSystem):
        with fs.open(path, "r+b") as file:
            file.seek(place)
            file.write(end)
            file.truncate()
    else:
        fs.pipe_file(path, fs.cat_file(path, end=place) + end)


def _plain(dtype: str) -> str:
    """The name of NumPy's dtype for a nullable one; that of any other as it is."""
    found: Any = pd.api.types.pandas_dtype(dtype) if _NULLABLE.fullmatch(dtype) else None
    return dtype if found is None else str(found.numpy_dtype)


def _length(text: bytes) -> bytes:
    """The length of a text in groups of seven bits, the lowest first; all but the last have the highest bit."""
    groups = [len(text) >> shift & 127 for shift in range(0, max(1, len(text).bit_length()), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def columns_of_filters(filters: Any) -> list[Any]:
    """The names of the columns that filters of ``read_parquet`` compare."""
    return sorted({name for clause in _alternatives(filters) for name, _, _ in clause})


def filtered(frame: Any, filters: Any) -> Any:
    """The rows of `frame` for which filters of ``read_parquet`` hold; rows of a default index are numbered from 0.

    cuDF 26.10 returns all rows, with a warning in the worker, if a filter names an index or a column that directories
    stand for, or has the operator ``=``.

    - `frame`: of cuDF or pandas.
    - `filters`: tuples of column, operator and value; all of a list hold, or of a list of lists all of one.
    """
    names = columns_of_filters(filters)
    table = frame.reset_index() if set(names) - set(frame.columns) else frame
    holds = reduce(or_, (_all_hold(table, clause) for clause in _alternatives(filters)))
    if table is not frame:
        return table[holds].set_index(list(frame.index.names))
    rows = frame[holds]
    is_numbered = type(frame.index).__name__ == "RangeIndex" and frame.index.name is None
    return rows.reset_index(drop=True) if is_numbered else rows


def _alternatives(filters: Any) -> list[list[tuple[Any, str, Any]]]:
    return filters if isinstance(filters[0], list) else [filters]


def _all_hold(table: Any, clause: Sequence[tuple[Any, str, Any]]) -> Any:
    return reduce(and_, (_holds(table[name], comparison, value) for name, comparison, value in clause))


def _holds(column: Any, comparison: str, value: Any) -> Any:
    """Whether each value compares so, as in the expression of PyArrow that Dask makes of a filter.

    A missing value compares only by ``!=`` and ``not in``. NaN is a missing value, except for a list that has it.
    """
    if str(column.dtype) == "category":
        column = column.astype(column.cat.categories.dtype)
    is_null = column.isna()  # in cuDF without NaN
    is_nan = (column != column).fillna(value=False) if column.dtype.kind == "f" else is_null & False  # noqa: PLR0124
    if comparison in ("is", "is not"):
        return is_null | is_nan if comparison == "is" else ~(is_null | is_nan)
    if comparison in ("in", "not in"):
        holds = column.isin([_in_zone(column, each) for each in value if not pd.isna(each)])
        missing = [isinstance(each, float) for each in value if pd.isna(each)]
        holds = reduce(or_, (is_nan if is_float else is_null for is_float in missing), holds)
    else:
        holds = _COMPARISONS[comparison](column, _in_zone(column, value)).fillna(value=False)
    if comparison == "not in":
        holds = ~holds
    return is_null | is_nan | holds if comparison in ("!=", "not in") else holds


def _in_zone(column: Any, value: Any) -> Any:
    """A value of a filter; a time with a zone is in that of the column, as cuDF compares no others."""
    zone = getattr(column.dtype, "tz", None)
    return value if zone is None or getattr(value, "tzinfo", None) is None else pd.Timestamp(value).tz_convert(zone)


_COMPARISONS = {"=": eq, "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def without_dictionaries(schema: Any) -> Any:
    """A schema of PyArrow with the values of categories in place of dictionaries, which dask_cudf refuses."""
    values = [field.type.value_type if pa.types.is_dictionary(field.type) else field.type for field in schema]
    fields = [field.with_type(kind) for field, kind in zip(schema, values, strict=True)]
    return pa.schema(fields, metadata=schema.metadata)


def has_index(footer: Any) -> bool:
    """Whether columns of a file are its index, by its `pyarrow.parquet.FileMetaData`."""
    return any(isinstance(column, str) for column in _index_columns((footer.metadata or {}).get(b"pandas")))


def rows_of_file(footer: Any, row_groups: Sequence[int] | None) -> range:
    """How pandas numbers the rows that are read from a file.

    - `footer`: its `pyarrow.parquet.FileMetaData`.
    - `row_groups`: which of its row groups are read; `None` for all.
    """
    groups = range(footer.num_row_groups) if row_groups is None else row_groups
    count = sum(footer.row_group(group).num_rows for group in groups)
    written = _range_of_pandas((footer.metadata or {}).get(b"pandas"))
    # As pyarrow: a range of another length than the table is not its index.
    return written if written is not None and len(written) == count else range(count)


def _range_of_pandas(metadata: bytes | None) -> range | None:
    """The range that was the index of a dataframe when pandas wrote it."""
    columns = _index_columns(metadata)
    if len(columns) == 1 and isinstance(columns[0], dict) and columns[0].get("kind") == "range":
        return range(columns[0]["start"], columns[0]["stop"], columns[0]["step"])
    return None


def _index_columns(metadata: bytes | None) -> list[Any]:
    columns: list[Any] = json.loads(metadata).get("index_columns", []) if metadata else []
    return columns


def _joined(ranges: Sequence[range]) -> list[range]:
    """The same numbers in as few ranges as possible."""
    joined: list[range] = []
    for each in ranges:
        if not each:
            continue
        if joined and joined[-1].step == each.step and joined[-1].stop == each.start:
            joined[-1] = range(joined[-1].start, each.stop, each.step)
        else:
            joined.append(each)
    return joined or [range(0)]
