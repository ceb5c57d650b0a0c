"""Arguments of readers and writers that cuDF 26.10 ignores, or lacks, or handles otherwise than pandas.

A reader that is called with one of them reads on the host. Arguments that change nothing in the result, such as
``engine="c"``, are left out instead, so that the file is read on the GPU.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from dask.utils import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ARROW = ("auto", "pyarrow")
"""Names of the only Parquet engine for pandas; cuDF has one, too."""

_UTF_8 = ("utf-8", "utf8", "utf_8")

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
    "sample": lambda _: True,  # of dtypes, which cuDF finds in each partition
    "sample_rows": lambda _: True,
    "skiprows": lambda value: value is None,
}
"""Keywords of ``read_csv``, and which of their values change nothing."""

_SAME_IN_CUDF: dict[str, Callable[[Any], bool]] = {
    "blocksize": lambda _: True,
    "byte_range": lambda _: True,
    "bytes_per_thread": lambda _: True,
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
    "index_col": lambda _: True,
    "keep_default_na": bool,
    "mangle_dupe_cols": lambda _: True,
    "na_filter": bool,
    "na_values": lambda value: value is None or _is_word(value) or (type(value) is list and all(map(_is_word, value))),
    "names": lambda value: value is None or bool(_kinds_of(value)),
    "nrows": lambda _: True,
    "parse_dates": lambda value: type(value) is list and all(type(each) in (str, int) for each in value),
    "prefix": lambda _: True,
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


def words_of_reader(reader: str, path: Any, options: Mapping[str, Any]) -> str:
    """Why cuDF's reader would return something else than that of pandas; empty if it would not.

    Parameters
    ----------
    reader
        The name of a function of `dask.dataframe`.
    path, options
        Its arguments.
    """
    rule = _OF_READERS.get(reader)
    return rule(path, options) if rule else ""


def options_for_cudf(reader: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords without those that change nothing, which cuDF's reader may lack."""
    left = dict(options)
    if reader == "read_parquet" and left.get("engine") in ARROW:
        del left["engine"]
    if reader != "read_csv":
        return left
    left = {name: value for name, value in left.items() if not _is_in(_CHANGE_NOTHING, name, value)}
    if isinstance(left.get("blocksize"), float | str) and left["blocksize"] != "default":
        left["blocksize"] = int(parse_bytes(left["blocksize"]))  # 25e6, as in Dask's documentation
    given = left.get("na_values") or []
    left["na_values"] = [*([given] if isinstance(given, str) else given), "None"]  # cuDF reads it as a text
    return left


def path_for_cudf(path: Any) -> Any:
    """The path with the user's folder for ``~``, which dask_cudf does not know."""
    return os.path.expanduser(path) if isinstance(path, str) and path.startswith("~") else path  # noqa: PTH111


def read_as_pandas(reader: str, options: Mapping[str, Any], frame: Any) -> Any:
    """A dataframe of cuDF's reader with the column names of pandas: numbers, if the file has none."""
    has_numbers = reader == "read_csv" and options.get("header", "") is None and options.get("names") is None
    if has_numbers and all(str(name).isdigit() for name in frame.columns):
        frame.columns = [int(name) for name in frame.columns]
    return frame


def words_about(reader: str, options: Mapping[str, Any], frame: Any) -> str:
    """As `words_of_reader`, where only the dataframe of cuDF's reader shows it."""
    is_of_lines = options.get("lines") or (
        options.get("lines") is None and options.get("orient", "records") == "records"
    )
    if reader == "read_json" and is_of_lines and any(map(_is_name_of_date, frame.columns)):
        return "cuDF's read_json makes no times of columns such as 'date' and 'timestamp'"
    return ""


def words_of_parquet_writer(frame: Any, options: Mapping[str, Any]) -> str:
    """As `words_of_reader`, for ``to_parquet`` of a dataframe on GPUs.

    Parameters
    ----------
    frame
        The dataframe.
    options
        The other arguments, by name.
    """
    if options.get("compression", "snappy") != "snappy":
        return "dask_cudf writes Parquet files with compression='snappy' only"
    if options.get("custom_metadata"):
        return "dask_cudf writes no custom_metadata"
    if not (isinstance(options.get("schema", "infer"), str) and options.get("schema", "infer") == "infer"):
        return "dask_cudf's to_parquet ignores schema"
    unknown = sorted(set(options.get("kwargs", ())) - _OF_CUDF_WRITER)
    if unknown:
        return f"dask_cudf's to_parquet ignores {unknown[0]}"
    return _words_of_categories(frame, options)


def _words_of_categories(frame: Any, options: Mapping[str, Any]) -> str:
    meta = frame._meta  # noqa: SLF001
    keys = options.get("partition_on") or []
    keys = [keys] if isinstance(keys, str) else keys
    columns = [dtype for name, dtype in meta.dtypes.items() if name not in keys]
    has_categories = any(str(dtype) == "category" for dtype in [*columns, getattr(meta.index, "dtype", None)])
    return "cuDF writes no categories to Parquet files" if has_categories else ""


_OF_CUDF_WRITER = {
    "int96_timestamps",
    "max_page_size_bytes",
    "max_page_size_rows",
    "row_group_size_bytes",
    "row_group_size_rows",
    "statistics",
}


def _csv(path: Any, options: Mapping[str, Any]) -> str:
    if isinstance(path, list | tuple) and (not path or any("*" in str(each) for each in path)):
        return "dask_cudf's read_csv expands no patterns in lists of files"
    for name, value in options.items():
        if not (_is_in(_CHANGE_NOTHING, name, value) or _is_in(_SAME_IN_CUDF, name, value)):
            return f"cuDF's read_csv lacks this {name}, or reads otherwise than pandas"
    if options.get("skiprows") and options.get("blocksize", "default") not in ("default", None):
        return "cuDF skips rows of whole files only"
    names, columns = options.get("names"), options.get("usecols")
    if names is not None and columns is not None and len(list(names)) == len(list(columns)):
        return "cuDF may take names of selected columns as those of all columns"
    return ""


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


def _json(_path: Any, options: Mapping[str, Any]) -> str:
    if options.get("include_path_column"):
        return "dask_cudf has paths as texts, not as categories"
    if callable(options.get("engine")):
        return "the engine is not that of cuDF"
    return "dask_cudf has dataframes of cuDF for any meta" if options.get("meta") is not None else ""


def _is_name_of_date(name: Any) -> bool:
    """Whether pandas makes times of a column with this name, unless its values are none (``keep_default_dates``)."""
    lower = str(name).lower()
    return (
        lower.endswith(("_at", "_time")) or lower in ("date", "datetime", "modified") or lower.startswith("timestamp")
    )


def _parquet(_path: Any, options: Mapping[str, Any]) -> str:
    engine = options.get("engine")
    if isinstance(engine, type) and not issubclass(engine, _engine_of_cudf()):
        return "the engine is not that of cuDF"
    if options.get("categories") is not None:
        return "dask_cudf's read_parquet ignores categories"
    index = options.get("index")
    if isinstance(index, list | tuple) and len(index) > 1:
        return "dask_cudf's read_parquet has one column as index"
    return ""


def _engine_of_cudf() -> Any:
    from dask_cudf.io.parquet import CudfEngine

    return CudfEngine


_OF_READERS: dict[str, Callable[[Any, Mapping[str, Any]], str]] = {
    "read_csv": _csv,
    "read_json": _json,
    "read_parquet": _parquet,
}
