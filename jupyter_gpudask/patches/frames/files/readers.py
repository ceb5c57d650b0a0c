"""Arguments of readers that cuDF 26.10 ignores, or lacks, or handles otherwise than pandas.

A reader that is called with one of them reads on the host. Arguments that change nothing in the result, such as
``engine="c"``, are left out instead, so that the file is read on the GPU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

import pandas as pd
from fsspec.core import open_files

from ..rules import dtypes_of
from .parquet import is_offset, zone_of

ARROW = ("auto", "pyarrow")
"""Names of the only Parquet engine for pandas; cuDF has one, too."""


def reason_of_reader(reader: str, path: Any, options: Mapping[str, Any]) -> str:
    """Why cuDF's reader would return something else than that of pandas; empty if it would not.

    - `reader`: the name of a function of `dask.dataframe`.
    - `path`, `options`: its arguments.
    """
    rule = _OF_READERS.get(reader)
    return rule(path, options) if rule else ""


def reason_about(reader: str, frame: Any) -> str:
    """As `reason_of_reader`, where only the dataframe of cuDF's reader shows it."""
    if reader == "read_json" and any(map(_is_name_of_date, frame.columns)):
        return "cuDF's read_json makes no times of columns such as 'date' and 'timestamp'"
    if reader == "read_parquet":
        meta = frame._meta  # noqa: SLF001
        dtypes = [*dtypes_of(meta).values(), getattr(getattr(meta, "index", meta), "dtype", None)]
        if any(is_offset(zone_of(dtype)) for dtype in dtypes):
            return "cuDF has no time zones that are named by their distance from UTC"
    return ""


def _json(_path: Any, options: Mapping[str, Any]) -> str:
    if options.get("include_path_column"):
        return "dask_cudf has paths as texts, not as categories"
    if options.get("engine", "auto") not in ("auto", "cudf"):
        return "the engine is not that of cuDF"
    if options.get("meta") is not None:
        return "cuDF's read_json has columns of its own for any meta"
    if not _has_lines(options):
        return "cuDF's read_json reads lines only"
    unknown = next((name for name in options if name not in _OF_JSON), "")
    return f"cuDF's read_json lacks {unknown}" if unknown else ""


_OF_JSON = {
    *("blocksize", "compression", "dtype", "encoding", "engine", "errors", "include_path_column", "lines", "meta"),
    *("orient", "path_converter", "sample", "storage_options"),
}
"""Keywords of ``read_json`` that Dask and cuDF have."""


def _has_lines(options: Mapping[str, Any]) -> bool:
    lines, is_of_records = options.get("lines"), options.get("orient", "records") == "records"
    return is_of_records and (lines is None or bool(lines))


def _is_name_of_date(name: Any) -> bool:
    """Whether pandas makes times of a column with this name, unless its values are none (``keep_default_dates``)."""
    lower = str(name).lower()
    return (
        lower.endswith(("_at", "_time")) or lower in ("date", "datetime", "modified") or lower.startswith("timestamp")
    )


def _parquet(_path: Any, options: Mapping[str, Any]) -> str:
    engine = options.get("engine")
    if engine not in (None, "cudf", *ARROW) and getattr(engine, "__name__", "") != "CudfEngine":
        return "the engine is not that of cuDF"
    for name in ("dtype_backend", "arrow_to_pandas", "categories"):
        if options.get(name) is not None:
            return f"dask_cudf's read_parquet ignores {name}"
    index = options.get("index")
    if isinstance(index, list | tuple) and len(index) > 1:
        return "dask_cudf's read_parquet has one column as index"
    return ""


def _orc(_path: Any, options: Mapping[str, Any]) -> str:
    return "" if options.get("engine", "pyarrow") == "pyarrow" else "the engine is not that of cuDF"


_UTF_8 = ("utf-8", "utf8", "utf_8")

_SAMPLE, _SAMPLE_ROWS = 256_000, 10
"""How much of a file Dask reads for dtypes; with less of it, pandas may refuse a file that cuDF reads."""

_OF_LAYOUT = ("sep", "delimiter", "header", "names", "quotechar", "quoting", "skiprows")
"""Keywords of ``read_csv`` that decide which columns there are."""

_START = 65536
"""How many bytes of a file are read for its first row."""

_CHANGE_NOTHING: dict[str, Callable[[Any], bool]] = {
    "cache_dates": lambda _: True,
    "converters": lambda value: not value,
    "date_format": lambda value: value is None,
    "dialect": lambda value: value is None,
    "enforce": lambda value: not value,
    "assume_missing": lambda value: not value,
    "include_path_column": lambda value: not value,
    "encoding": lambda value: value is None or str(value).lower() in _UTF_8,
    "encoding_errors": lambda value: value == "strict",
    "engine": lambda value: value in (None, "c", "python"),
    "escapechar": lambda value: value is None,
    "float_precision": lambda value: value is None,
    "lineterminator": lambda value: value in (None, "\n"),
    "low_memory": lambda _: True,
    "memory_map": lambda _: True,
    "on_bad_lines": lambda value: value == "error",
    "parse_dates": lambda value: not value,
    "sample": lambda value: not value or value >= _SAMPLE,  # cuDF finds dtypes in each partition
    "sample_rows": lambda value: value >= _SAMPLE_ROWS,
    "skiprows": lambda value: value is None,
}
"""Keywords of ``read_csv``, and which of their values change nothing."""

_SAME_IN_CUDF: dict[str, Callable[[Any], bool]] = {
    "blocksize": lambda _: True,
    "comment": lambda value: value is None,  # cuDF keeps what follows a value
    "compression": lambda _: True,
    "dayfirst": lambda value: not value,
    "decimal": lambda _: True,
    "delimiter": lambda value: value is None or len(value) == 1,
    "doublequote": bool,
    "dtype": lambda value: not isinstance(value, defaultdict),
    "dtype_backend": lambda value: value is None or "no_default" in str(value),
    "false_values": lambda value: value is None,
    "header": lambda value: value in (None, "infer") or type(value) is int,
    "index_col": lambda value: value is False,
    "keep_default_na": bool,
    "na_filter": bool,
    "na_values": lambda value: value is None or _is_word(value) or (type(value) is list and all(map(_is_word, value))),
    "names": lambda value: value is None or bool(_kinds_of(value)),
    "parse_dates": lambda value: type(value) is list and all(type(each) in (str, int) for each in value),
    "quotechar": lambda value: len(value) == 1,
    "quoting": lambda value: value in (0, 1, 3),
    "sep": lambda value: isinstance(value, str) and len(value) == 1,
    "skip_blank_lines": bool,
    "skipfooter": lambda value: not value,
    "skipinitialspace": lambda value: not value,  # not of the header
    "skiprows": lambda value: type(value) is int,
    "storage_options": lambda _: True,
    "thousands": lambda _: True,
    "true_values": lambda value: value is None,
    "usecols": lambda value: value is None or (isinstance(value, list | tuple | set) and bool(_kinds_of(value))),
}
"""Keywords of ``read_csv`` in cuDF, and with which values it reads as pandas does."""


def reason_of_csv(path: Any, options: Mapping[str, Any]) -> str:
    """Why cuDF's ``read_csv`` would return something else than that of pandas; empty if it would not."""
    for name, value in options.items():
        if not (_is_in(_CHANGE_NOTHING, name, value) or _is_in(_SAME_IN_CUDF, name, value)):
            return f"cuDF's read_csv lacks this {name}, or reads otherwise than pandas"
    if options.get("skiprows") and options.get("blocksize", "default") not in ("default", None):
        return "cuDF skips rows of whole files only"
    names, columns = options.get("names"), options.get("usecols")
    if names is not None and columns is not None and len(list(names)) == len(list(columns)):
        return "cuDF may take names of selected columns as those of all columns"
    is_index_given = columns is not None or "index_col" in options
    return "" if is_index_given or not _has_index(path, options) else "cuDF leaves out a first column without a name"


def without_what_changes_nothing(options: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords for cuDF's ``read_csv``, which lacks many of those that change nothing."""
    left = {name: value for name, value in options.items() if not _is_in(_CHANGE_NOTHING, name, value)}
    given = left.get("na_values") or []
    left["na_values"] = [*([given] if isinstance(given, str) else given), "None"]  # not among cuDF's own
    return left


def names_of_columns(path: Any, options: Mapping[str, Any]) -> list[Any]:
    """The names of all columns of the first file, as pandas reads them."""
    return list(_first_row(path, options).columns)


def _has_index(path: Any, options: Mapping[str, Any]) -> bool:
    """Whether the rows of a file have one value more than there are names: pandas makes an index of the first one."""
    try:
        row = _first_row(path, options)
    except Exception:  # noqa: BLE001 - whatever it is, the caller gets it from the reader
        return False
    return bool(len(row)) and not isinstance(row.index, pd.RangeIndex)


def _first_row(path: Any, options: Mapping[str, Any]) -> Any:
    keywords = {name: options[name] for name in _OF_LAYOUT if name in options}
    compression = options.get("compression", "infer")
    first = open_files(path, compression=compression, **options.get("storage_options") or {})[0]
    with first as file:
        start = file.read(_START)
    return pd.read_csv(BytesIO(start[: start.rfind(b"\n") + 1] or start), nrows=1, **keywords)


def _is_in(table: Mapping[str, Callable[[Any], bool]], name: str, value: Any) -> bool:
    """Whether a table has this value of a keyword."""
    rule = table.get(name)
    try:
        return rule is not None and rule(value)
    except (TypeError, ValueError):  # such as an array, which has no truth value
        return False


def _kinds_of(names: Any) -> type | None:
    """The type of names or numbers of columns, if they are all texts, or all integers."""
    kinds = set(map(type, names))
    return kinds.pop() if kinds in ({str}, {int}) else None


def _is_word(value: Any) -> bool:
    """Whether this is a text that no number equals; pandas takes ``"-999"`` for -999.0, too."""
    try:
        float(value)
    except ValueError:
        return isinstance(value, str)
    except TypeError:
        return False
    return False


_OF_READERS: dict[str, Callable[[Any, Mapping[str, Any]], str]] = {
    "read_csv": reason_of_csv,
    "read_hdf": lambda _path, _options: "cuDF has no reader of HDF files",
    "read_json": _json,
    "read_orc": _orc,
    "read_parquet": _parquet,
}
