"""Files that are written of dataframes on GPUs: by pandas, where cuDF lacks the writer or ignores an argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dask._collections import new_collection
from fsspec.core import url_to_fs

from ....inspection.arguments import bind
from ....inspection.placement import name_of, place_of, to_host
from ....overlay import current_record
from ...host_fallback import note_on_host, refuse_if_strict
from .parquet import zone_of
from .parquet_readers import GpuEngine, ReadEachOnGpu, ReadParquetOnGpu

_WORDS_OF_WRITERS = {
    "to_csv": "cuDF writes nine digits of a number, and times in another format",
    "to_hdf": "cuDF writes HDF files with pandas",
    "to_sql": "cuDF lacks to_sql",
}


def write_by_pandas(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a function that writes partitions: those of a dataframe on GPUs are written by pandas.

    Raises `NotOnGpuError`: the dataframe is on GPUs, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    name = original.__name__
    return _write(original, args, kwargs, lambda _frame, _options: _WORDS_OF_WRITERS[name])


def write_parquet(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``to_parquet``; a dataframe on GPUs is written by pandas and PyArrow if cuDF would ignore an argument.

    Raises `NotOnGpuError`: it would, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    return _write(original, args, kwargs, _reason_of_parquet)


def _write(
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    reason_of: Callable[[Any, dict[str, Any]], str],
) -> Any:
    __tracebackhide__ = True
    record = current_record()
    call = bind(original, args, kwargs)
    frame = call.arguments["df"]
    is_watched = record is not None and record.watches and place_of(frame) == "gpu"
    reason = reason_of(frame, call.arguments) if is_watched else ""
    name = original.__name__
    if name == "to_parquet" and call.arguments.get("engine") in (None, "auto", "pyarrow", "cudf"):
        call.arguments["engine"] = GpuEngine if place_of(frame) == "gpu" and not reason else "pyarrow"
    if name in ("to_csv", "to_parquet") and place_of(frame) == "gpu":
        call.arguments["df"] = frame = _as_planned(frame, call.arguments)
    if not reason:
        return original(*call.args, **call.kwargs)
    refuse_if_strict(name, name_of(frame), reason)
    note_on_host(name, reason, frame.npartitions)
    call.arguments["df"] = to_host(frame)
    return original(*call.args, **call.kwargs)


def _as_planned(frame: Any, options: Mapping[str, Any]) -> Any:
    """The dataframe, of which each partition of Parquet files is read alone if it is written where there are files.

    Read together, they would overwrite the files of fewer partitions, or some that are still to be read.
    """
    readers = list(frame.expr.find_operations(ReadParquetOnGpu))
    is_new = any(options.get(option) for option in ("append", "overwrite", "single_file"))
    if is_new or not readers or not _has_files(options):
        return frame
    expression = frame.expr
    for reader in readers:
        expression = expression.substitute(reader, ReadEachOnGpu(*reader.operands))
    return new_collection(expression)


def _has_files(options: Mapping[str, Any]) -> bool:
    """Whether there are files where a dataframe is to be written, or one for each partition is named."""
    fs: Any = options.get("filesystem")
    path = options.get("path", options.get("filename"))
    if isinstance(path, list | tuple):
        return True
    if not hasattr(fs, "ls"):
        fs, path = url_to_fs(path, **(options.get("storage_options") or {}))
    return bool(fs.glob(path) if "*" in str(path) else fs.isdir(path) and fs.ls(path))


def _reason_of_parquet(frame: Any, options: Mapping[str, Any]) -> str:
    """Why cuDF's ``to_parquet`` would write something else than that of pandas; empty if it would not."""
    if options.get("compression", "snappy") != "snappy":
        return "dask_cudf writes Parquet files with compression='snappy' only"
    if options.get("custom_metadata"):
        return "dask_cudf writes no custom_metadata"
    if not (isinstance(options.get("schema", "infer"), str) and options.get("schema", "infer") == "infer"):
        return "dask_cudf's to_parquet ignores schema"
    unknown = sorted(set(options.get("kwargs", ())) - _OF_CUDF_WRITER)
    if unknown:
        return f"dask_cudf's to_parquet ignores {unknown[0]}"
    meta = frame._meta  # noqa: SLF001
    of_index = getattr(meta.index, "dtypes", [meta.index.dtype])  # there are several levels
    return next(filter(None, map(_reason_of_dtype, [*meta.dtypes, *of_index])), "")


def _reason_of_dtype(dtype: Any) -> str:
    if str(dtype) == "category":
        return "cuDF writes no categories to Parquet files"
    if zone_of(dtype):
        return "cuDF writes times of a time zone as times without one"
    return "cuDF writes durations as times of a day" if getattr(dtype, "kind", "O") == "m" else ""


_OF_CUDF_WRITER = {
    "int96_timestamps",
    "max_page_size_bytes",
    "max_page_size_rows",
    "row_group_size_bytes",
    "row_group_size_rows",
    "statistics",
}
