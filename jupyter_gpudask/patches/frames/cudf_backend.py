"""The cuDF backend for Dask dataframes, and the functions that create dataframes past it, which are moved to the GPUs.

Dataframes are planned with metadata of pandas, in partitions that workers read with cuDF. What cuDF's readers lack, or
read otherwise than pandas, is read on the host and moved to the GPUs. Dask looks up its backend in a few readers only;
`patches.table` lists the other functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dask
from dask.dataframe.backends import DataFrameBackendEntrypoint, dataframe_creation_dispatch
from dask.dataframe.dask_expr import _backends
from dask.dataframe.dask_expr.io.io import FromGraph

from ...fallback.missing import reason_behind
from ...inspection.arguments import bind, signature_of
from ...inspection.placement import can_move, place_of, place_of_partitions
from ...inspection.results import results_to_host
from ...overlay import current_overlay, current_record
from ..arrays.operand_placement import is_called_by_user, mark_frame, may_be_moved
from ..host_fallback import frame_to_gpu, note_on_host, refuse_if_strict
from .files import gpu_readers
from .files.parquet_readers import read_parquet
from .files.readers import reason_about, reason_of_reader

_READERS: dict[str, Callable[..., Any]] = {
    "read_csv": gpu_readers.read_csv,
    "read_json": gpu_readers.read_json,
    "read_orc": gpu_readers.read_orc,
    "read_parquet": read_parquet,
}
"""The functions that plan to read on GPUs, by the functions of `dask.dataframe`."""

_DISPATCHES = dataframe_creation_dispatch, _backends.dataframe_creation_dispatch
"""Dask has two registries of backends; each knows some of the functions."""


def _read(reader: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As a reader of Dask; what cuDF's reader lacks is read on the host and moved to the GPUs.

    Raises `NotOnGpuError`: cuDF's reader lacks something, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    if current_overlay() is None and reader != "read_parquet":
        return _of_dask_cudf(reader)(*args, **kwargs)
    function = _of_pandas(reader)
    first, *others = signature_of(function).parameters
    given = {**dict(zip([first, *others], args, strict=False)), **kwargs}
    if first not in given or len(args) + len(kwargs) > len(given):
        return function(*args, **kwargs)  # which refuses them
    path = given.pop(first)
    read = partial(_read_on_host, function)
    record = current_record()
    watches = record is not None and record.watches
    reason = reason_of_reader(reader, path, given)
    if reader in _READERS and not (reason and watches):
        try:
            frame = _READERS[reader](read, path, given)
        except Exception as error:
            reason = reason_behind(error) if watches else ""
            if not reason:
                raise
        else:
            reason = reason_about(reader, frame) if watches else ""
            if not reason:
                return frame
    refuse_if_strict(reader, reader, reason)
    frame = read(path, given)
    note_on_host(reader, reason, frame.npartitions)
    return frame_to_gpu(frame)


def _reader(name: str) -> Any:
    """The reader of that name, which Dask's errors have."""

    def read(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return _read(name, args, kwargs)

    read.__name__ = name
    return staticmethod(read)


class CudfBackend(DataFrameBackendEntrypoint):
    """Dask's functions that create dataframes, for GPU cells; outside of them dask_cudf's, as ``to_backend`` always."""

    @staticmethod
    def to_backend(data: Any, **kwargs: Any) -> Any:
        """A dataframe of dask_cudf."""
        return _of_dask_cudf("to_backend")(data, **kwargs)

    @staticmethod
    def from_dict(*args: Any, **kwargs: Any) -> Any:
        """As `dask.dataframe.from_dict`."""
        if current_overlay() is None:
            return _of_dask_cudf("from_dict")(*args, **kwargs)
        with dask.config.set({"dataframe.backend": "pandas"}):
            frame = _of_pandas("from_dict")(*args, **kwargs)
        return frame_to_gpu(frame)

    read_csv, read_hdf, read_json, read_orc, read_parquet = (
        _reader(f"read_{kind}") for kind in ("csv", "hdf", "json", "orc", "parquet")
    )


def _of_dask_cudf(name: str) -> Any:
    from dask_cudf.backends import CudfBackendEntrypoint

    return getattr(CudfBackendEntrypoint, name)


def _of_pandas(name: str) -> Any:
    """Dask's function for pandas."""
    entries = (dispatch.dispatch("pandas") for dispatch in _DISPATCHES)
    return next(vars(entry)[name] for entry in entries if name in vars(entry))


def _read_on_host(function: Callable[..., Any], path: Any, options: dict[str, Any]) -> Any:
    with dask.config.set({"dataframe.backend": "pandas"}):  # `read_parquet` chooses its engine by it
        return function(path, **results_to_host(options))


def register() -> None:
    """Register `CudfBackend` as the backend ``cudf`` of `dask.dataframe`."""
    backend = CudfBackend()
    for dispatch in _DISPATCHES:
        dispatch.register_backend("cudf", backend)


def unregister() -> None:
    """Let Dask look up the backend of dask_cudf again."""
    for dispatch in _DISPATCHES:
        if isinstance(dispatch._lookup.get("cudf"), CudfBackend):  # noqa: SLF001
            del dispatch._lookup["cudf"]  # noqa: SLF001


def create_frame(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a function that creates a dataframe; under the cuDF backend it is moved to the GPUs.

    A concatenation of dataframes of GPUs is on the host because cuDF has not its Python objects.
    """
    __tracebackhide__ = True
    result = original(*args, **_with_meta_on_host(original, kwargs))
    if dataframe_creation_dispatch.backend != "cudf" or place_of(result) != "host":
        return result
    if any(place_of_partitions(part) == "gpu" for part in result.expr.walk()):
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


def _with_meta_on_host(original: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a function; readers that Dask does not dispatch make partitions of pandas, whatever the meta."""
    if "meta" not in kwargs or not original.__name__.startswith("read_"):
        return kwargs
    return {**kwargs, "meta": results_to_host(kwargs["meta"])}
