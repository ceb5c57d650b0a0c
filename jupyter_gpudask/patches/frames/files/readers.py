"""Arguments of readers that cuDF 26.10 ignores, or lacks, or handles otherwise than pandas.

A reader that is called with one of them reads on the host. Arguments that change nothing in the result, such as
``engine="c"``, are left out instead, so that the file is read on the GPU.

cuDF infers the dtypes of each part of a text file separately. A string column without values in one part is therefore a
numeric column in this part, and in a part without rows all columns are string columns. Dask gives all parts the dtypes
that pandas infers from the first rows, or raises an error; so does a cell.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections import defaultdict
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from dask._collections import new_collection
from dask.dataframe.dask_expr._expr import Elemwise
from dask.dataframe.io.csv import coerce_dtypes
from dask.utils import parse_bytes
from fsspec.core import open_files
from pandas.api.types import is_object_dtype

from ....inspection import frames as partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ARROW = ("auto", "pyarrow")
"""Names of the only Parquet engine for pandas; cuDF has one, too."""


def reason_of_reader(reader: str, path: Any, options: Mapping[str, Any]) -> str:
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
    if reader == "read_csv":
        return without_what_changes_nothing(options)
    return dict(options)


def path_for_cudf(path: Any) -> Any:
    """The path with the user's folder for ``~``, which dask_cudf does not know."""
    return os.path.expanduser(path) if isinstance(path, str) and path.startswith("~") else path  # noqa: PTH111


def read_as_pandas(reader: str, options: Mapping[str, Any], frame: Any, read_on_host: Callable[..., Any]) -> Any:
    """A dataframe of cuDF's reader with the columns and dtypes of pandas: numbers as names, if the file has none.

    Parameters
    ----------
    reader, options
        The name of a function of `dask.dataframe`, and its keywords.
    frame
        What cuDF's reader has made.
    read_on_host
        Gives the dataframe of pandas' reader for other keywords.
    """
    if reader == "read_json":  # Dask leaves the dtypes of the partitions
        texts = {name: "str" for name, dtype in frame.dtypes.items() if str(dtype) in _TEXTS}
        return new_collection(WithMeta(frame.expr, _dtypes(frame, texts))) if texts else frame
    if reader != "read_csv":
        return frame
    has_numbers = options.get("header", "") is None and options.get("names") is None
    if has_numbers and all(str(name).isdigit() for name in frame.columns):
        frame.columns = [int(name) for name in frame.columns]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cuDF's reader has warned
            found = read_on_host({**options, "blocksize": None}).dtypes
    except (TypeError, ValueError):  # of a keyword that only cuDF has
        return frame
    dtypes = _dtypes(frame, {name: dtype for name, dtype in found.items() if name in frame.columns})
    return new_collection(WithDtypes(frame.expr, dtypes))


def _dtypes(frame: Any, changed: Mapping[Any, Any]) -> tuple[tuple[Any, Any], ...]:
    """The names and dtypes of the columns of metadata of pandas, some of them changed."""
    return tuple(partitions.meta_of_pandas(frame._meta).astype(changed).dtypes.items())  # noqa: SLF001


def reason_about(reader: str, options: Mapping[str, Any], frame: Any) -> str:
    """As `reason_of_reader`, where only the dataframe of cuDF's reader shows it."""
    is_of_lines = options.get("lines") or (
        options.get("lines") is None and options.get("orient", "records") == "records"
    )
    if reader == "read_json" and is_of_lines and any(map(_is_name_of_date, frame.columns)):
        return "cuDF's read_json makes no times of columns such as 'date' and 'timestamp'"
    return ""


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
    if engine not in (None, "cudf", *ARROW) and getattr(engine, "__name__", "") != "CudfEngine":
        return "the engine is not that of cuDF"
    for name in ("dtype_backend", "arrow_to_pandas", "categories"):
        if options.get(name) is not None:
            return f"dask_cudf's read_parquet ignores {name}"
    index = options.get("index")
    if isinstance(index, list | tuple) and len(index) > 1:
        return "dask_cudf's read_parquet has one column as index"
    return ""


_TEXTS = ("object", "str", "string")


class WithMeta(Elemwise):
    """A dataframe of cuDF's reader with the dtypes of the columns that it has in pandas, as names and dtypes."""

    _parameters = ["frame", "dtypes"]  # noqa: RUF012 - as in Dask
    _projection_passthrough = True
    _preserves_partitioning_information = True

    @functools.cached_property
    def _meta(self) -> Any:
        meta, dtypes = partitions.meta_of_pandas(self.frame._meta), dict(self.operand("dtypes"))  # noqa: SLF001
        return meta.astype({name: dtypes[name] for name in meta.columns} if meta.ndim > 1 else dtypes[meta.name])

    @staticmethod
    def operation(frame: Any, _dtypes: Any) -> Any:
        """The result for one partition."""
        return frame


class WithDtypes(WithMeta):
    """As `WithMeta`, and the values of each partition have these dtypes, or are the error that they are in Dask."""

    @staticmethod
    def operation(frame: Any, dtypes: Any) -> Any:
        """The result for one partition."""
        if frame.ndim == 1:
            return WithDtypes.operation(frame.to_frame(), dtypes)[frame.name]
        wanted = {name: dtype for name, dtype in dtypes if name in frame.columns and _differs(frame[name], dtype)}
        on_gpu = {name: dtype for name, dtype in wanted.items() if _converts(frame[name], dtype)}
        if on_gpu:
            frame = frame.astype({name: "str" if _is_text(dtype) else dtype for name, dtype in on_gpu.items()})
        others = {name: dtype for name, dtype in wanted.items() if name not in on_gpu}
        if not others:
            return frame
        made = partitions.partition_to_host(frame[list(others)])
        coerce_dtypes(made, others)
        made = partitions.partition_to_gpu(made)
        frame = frame.copy(deep=False)
        for name in others:
            frame[name] = made[name]
        return frame


def _differs(column: Any, dtype: Any) -> bool:
    """Whether a column of cuDF has another kind of dtype than this of pandas; integers have no missing values there."""
    if _is_text(dtype) or str(column.dtype) in _TEXTS:
        return not (_is_text(dtype) and str(column.dtype) in _TEXTS) and not is_object_dtype(dtype)
    if not isinstance(dtype, np.dtype):  # asked for by the user
        return False
    return bool(column.dtype.kind != dtype.kind or (dtype.kind in "iu" and column.hasnans))


def _converts(column: Any, dtype: Any) -> bool:
    """Whether cuDF converts this column as pandas: one of numbers to floats, or one without a value to texts."""
    if _is_text(dtype):
        return not bool(column.notna().any())
    return bool(dtype.kind == "f" and column.dtype.kind in "biu")


def _is_text(dtype: Any) -> bool:
    return isinstance(dtype, pd.StringDtype)


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


def reason_of_csv(path: Any, options: Mapping[str, Any]) -> str:
    """Why cuDF's ``read_csv`` would return something else than that of pandas; empty if it would not."""
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
    is_index_given = columns is not None or "index_col" in options
    return "" if is_index_given or not _has_index(path, options) else "cuDF leaves out a first column without a name"


def without_what_changes_nothing(options: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords for cuDF's ``read_csv``, which lacks many of those that change nothing."""
    left = {name: value for name, value in options.items() if not _is_in(_CHANGE_NOTHING, name, value)}
    if isinstance(left.get("blocksize"), float | str) and left["blocksize"] != "default":
        left["blocksize"] = int(parse_bytes(left["blocksize"]))  # 25e6, as in Dask's documentation
    given = left.get("na_values") or []
    left["na_values"] = [*([given] if isinstance(given, str) else given), "None"]  # not among cuDF's own
    return left


def _has_index(path: Any, options: Mapping[str, Any]) -> bool:
    """Whether the rows of a file have one value more than there are names: pandas makes an index of the first one."""
    keywords = {name: options[name] for name in _OF_LAYOUT if name in options}
    try:
        first = open_files(
            path, compression=options.get("compression", "infer"), **options.get("storage_options") or {}
        )[0]
        with first as file:
            start = file.read(_START)
        head = pd.read_csv(BytesIO(start[: start.rfind(b"\n") + 1] or start), nrows=1, **keywords)
    except Exception:  # noqa: BLE001 - whatever it is, the caller gets it from the reader
        return False
    return bool(len(head)) and not isinstance(head.index, pd.RangeIndex)


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
    "read_parquet": _parquet,
}
