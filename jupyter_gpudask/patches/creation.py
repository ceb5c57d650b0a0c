"""Functions of `dask.dataframe` that create collections on the host: in GPU cells these are moved to the GPUs.

Dask looks up its backend in a few readers only; `table` lists the other functions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import dask
from dask.dataframe.backends import dataframe_creation_dispatch
from dask.dataframe.dask_expr import _backends
from dask.dataframe.dask_expr.io.io import FromGraph

from ..fallback.missing import reason_behind
from ..inspection.arguments import bind, signature_of
from ..inspection.placement import can_move, place_of
from ..inspection.results import results_to_host
from ..overlay import current_record
from .arrays.operand_placement import is_called_by_user, mark_frame, may_be_moved
from .frames.files.parquet_readers import read_parquet
from .frames.files.readers import options_for_cudf, path_for_cudf, read_as_pandas, reason_about, reason_of_reader
from .host_fallback import frame_to_gpu, note_on_host, refuse_if_strict

if TYPE_CHECKING:
    from collections.abc import Callable


def create_frame(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a function that creates a dataframe; under the cuDF backend it is moved to the GPUs."""
    __tracebackhide__ = True
    result = original(*args, **_with_meta_on_host(original, kwargs))
    if dataframe_creation_dispatch.backend != "cudf" or place_of(result) != "host":
        return result
    if is_called_by_user(args, kwargs):
        return frame_to_gpu(result)
    if original.__name__ == "from_pandas":  # called by Dask, with what the user has passed to another function
        mark_frame(result.expr)
    return result


def frame_of_array(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``from_dask_array``; cuDF makes the dataframe of an array on GPUs, even if `meta` is of pandas.

    In ``df["z"] = x``, Dask passes the metadata of `df`. An array of texts or times stays on the host, because CuPy
    cannot hold it; its dataframe is moved beside a dataframe on GPUs, such as for the coordinates of xarray.
    """
    given = bind(original, args, kwargs).arguments
    array = given["x"]
    if place_of(array) == "gpu":
        return original(**{**given, "meta": None})
    frame = original(**given)
    if place_of(array) == "host" and (not can_move(array) or may_be_moved(array)):
        for source in frame.expr.find_operations(FromGraph):
            mark_frame(source)
    return frame


def read_frame(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a reader that Dask dispatches; what cuDF's reader lacks is read on the host and moved to the GPUs.

    Raises
    ------
    NotOnGpuError
        cuDF's reader lacks something, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    if dataframe_creation_dispatch.backend != "cudf":
        return original(*args, **kwargs)
    reader = original.__name__
    path, options = _path_and_options(original, args, kwargs)
    reason = reason_of_reader(reader, path, options)
    if reader == "read_parquet" and not reason:
        return read_parquet(partial(_read_on_host, reader), path, options)
    record = current_record()
    if record is None or not record.watches:
        return frame_to_gpu(original(*args, **kwargs))
    if not reason:
        try:
            frame = original(path_for_cudf(path), **options_for_cudf(reader, options))
        except Exception as error:
            # pandas' reader of ORC reads all files of a folder.
            reason = f"cuDF: {error}" if isinstance(error, IsADirectoryError) else reason_behind(error)
            if not reason:
                raise
        else:
            reason = reason_about(reader, options, frame)
            if not reason:
                return frame_to_gpu(read_as_pandas(reader, options, frame, partial(_read_on_host, reader, path)))
    refuse_if_strict(reader, reader, reason)
    frame = _read_on_host(reader, path, options)
    note_on_host(reader, reason, frame.npartitions)
    return frame_to_gpu(frame)


def _path_and_options(
    original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """The first argument of a reader, and the others by name."""
    first, *others = signature_of(original).parameters
    given = {**dict(zip([first, *others], args, strict=False)), **kwargs}
    return given.pop(first), given


def _read_on_host(reader: str, path: Any, options: dict[str, Any]) -> Any:
    """The dataframe of pandas' reader, which Dask has in one of two tables."""
    tables = dataframe_creation_dispatch, _backends.dataframe_creation_dispatch
    entries = [table.dispatch("pandas") for table in tables]
    function = next(vars(entry)[reader] for entry in entries if reader in vars(entry))
    with dask.config.set({"dataframe.backend": "pandas"}):  # `read_parquet` chooses its engine by it
        return function(path, **results_to_host(options))


def _with_meta_on_host(original: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a function; readers that Dask does not dispatch make partitions of pandas, whatever the meta."""
    if "meta" not in kwargs or not original.__name__.startswith("read_"):
        return kwargs
    return {**kwargs, "meta": results_to_host(kwargs["meta"])}
