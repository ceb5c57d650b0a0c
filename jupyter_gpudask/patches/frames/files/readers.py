"""Arguments of readers that cuDF 26.10 ignores, or lacks, or handles otherwise than pandas.

A reader that is called with one of them reads on the host. Arguments that change nothing in the result, such as
``engine="c"``, are left out instead, so that the file is read on the GPU.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .csv_files import reason_of_csv, with_texts, without_what_changes_nothing

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


def read_as_pandas(reader: str, options: Mapping[str, Any], frame: Any) -> Any:
    """A dataframe of cuDF's reader with the columns of pandas: numbers as names, if the file has none, and texts."""
    has_numbers = reader == "read_csv" and options.get("header", "") is None and options.get("names") is None
    if has_numbers and all(str(name).isdigit() for name in frame.columns):
        frame.columns = [int(name) for name in frame.columns]
    return with_texts(frame) if reader == "read_csv" else frame


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


_OF_READERS: dict[str, Callable[[Any, Mapping[str, Any]], str]] = {
    "read_csv": reason_of_csv,
    "read_hdf": lambda _path, _options: "cuDF has no reader of HDF files",
    "read_json": _json,
    "read_parquet": _parquet,
}
