"""Computations of a GPU cell: conversion of results to the host, their size, and collections on the CPU.

Used by the patch of `dask.compute` and by `client.kernel_client`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dask.base import get_scheduler, is_dask_collection, unpack_collections
from dask.tokenize import tokenize
from distributed import Client, Future

from ..inspection.arguments import bind, calling_frame, first_argument
from ..inspection.placement import GPU_BACKENDS, kind_of, name_of, place_of, to_host
from ..inspection.results import in_containers, results_to_host
from ..inspection.user_code import description_of, names_of, user_line
from ..overlay import current_overlay, current_record
from .mixed_operands import mixed_blocks_explained
from .result_size import refusing_what_does_not_fit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ..overlay import CellRecord

_RETURN_RESULTS = frozenset(
    {"compute", "head", "tail", "safe_head", "iterrows", "itertuples", "__array__", "__iter__", "__len__"}
    # Functions of NumPy that Dask has not, such as np.einsum_path, are called with results.
    | {"__array_function__", "handle_nonmatching_names"}
)
_SEVERAL = (list, tuple, set, frozenset)


def _converted(record: CellRecord, collection: Any) -> Any:
    """The collection with its blocks converted to NumPy or pandas."""
    on_host = to_host(collection)
    if on_host is not collection:
        record.moved_for_result.add(name_of(on_host))
    return on_host


def _unpack(values: Collection[Any], *, traverse: bool) -> tuple[list[Any], Callable[[Iterable[Any]], Any]]:
    """As `dask.base.unpack_collections`, which takes half a millisecond even for a single collection."""
    if len(values) == 1 and all(map(is_dask_collection, values)):
        return list(values), tuple
    unpacked: tuple[list[Any], Callable[[Iterable[Any]], Any]] = unpack_collections(*values, traverse=traverse)
    return unpacked


def compute(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.compute`; results are converted for ``--results host``, or refused if they do not fit on the GPU."""
    __tracebackhide__ = True
    with mixed_blocks_explained(args, traverse=kwargs.get("traverse", True)):
        return _computed(original, *args, **kwargs)


def _computed(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    record = current_record()
    if record is None:
        return original(*args, **kwargs)
    if not _is_called_by_user():
        with refusing_what_does_not_fit([]):
            return original(*args, **kwargs)
    collections, repack = _unpack(args, traverse=kwargs.get("traverse", True))
    if not collections:
        return original(*args, **kwargs)
    if record.results == "host":
        converted = [_converted(record, collection) for collection in collections]
        results = original(*converted, **kwargs)
        pairs = zip(collections, converted, results, strict=True)
        return repack([results_to_host(result) if new is old else result for old, new, result in pairs])
    if any(isinstance(arg, Iterator) for arg in args):
        args = repack(collections)  # the iterators are consumed
    schedule = get_scheduler(scheduler=kwargs.get("scheduler"), collections=collections)
    is_ours = isinstance(getattr(schedule, "__self__", None), Client)
    with refusing_what_does_not_fit(collections if is_ours else []):
        return original(*args, **kwargs)


def client_compute(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `distributed.Client.compute`, with the same changes as `compute`."""
    __tracebackhide__ = True
    record, call = current_record(), bind(original, args, kwargs)
    is_awaited = call.arguments.get("sync", False)
    if record is None or not (record.results == "host" or is_awaited):
        return original(*args, **kwargs)
    given, traverse = call.arguments["collections"], call.arguments.get("traverse", True)
    awaited: dict[str, Any] = {}

    def change(collection: Any) -> Any:
        if record.results == "host":
            return _converted(record, collection)
        return awaited.setdefault(tokenize(collection), collection)

    def changed(value: Any) -> Any:
        is_looked_into = is_dask_collection(value) or (traverse and isinstance(value, (*_SEVERAL, dict, Iterator)))
        return _with_collections(change, value) if is_looked_into else value

    values = list(map(changed, given)) if isinstance(given, _SEVERAL) else changed(given)
    call.arguments["collections"] = values
    kept = [value for value in values if isinstance(value, Future)] if isinstance(values, list) else []
    with refusing_what_does_not_fit(awaited.values(), kept):
        return original(*call.args, **call.kwargs)


def _with_collections(change: Callable[[Any], Any], value: Any) -> Any:
    """The value with each Dask collection changed, in the containers that `dask.delayed` looks into; futures stay."""

    def changed(part: Any) -> Any:
        if is_dask_collection(part):
            return change(part)
        if isinstance(part, Iterator):
            return in_containers(changed, list(part))
        if dataclasses.is_dataclass(part) and not isinstance(part, type):
            fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part) if field.init}
            return dataclasses.replace(part, **in_containers(changed, fields))
        return part

    return in_containers(changed, value)


def collections_to_expr(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.base.collections_to_expr`; records the collections that are computed on the CPU in a GPU cell."""
    __tracebackhide__ = True
    overlay = current_overlay()
    if overlay is not None and overlay.record is not None:
        collections = first_argument(original, args, kwargs)
        for collection in collections if isinstance(collections, _SEVERAL) else [collections]:
            kind = kind_of(collection)
            if overlay.get(kind) in GPU_BACKENDS and is_dask_collection(collection):
                _record_host_collection(overlay.record, collection)
    return original(*args, **kwargs)


def _record_host_collection(record: CellRecord, collection: Any) -> None:
    if place_of(collection) != "host" or name_of(collection) in record.moved_for_result:
        return
    for name in names_of(collection) or [description_of(collection)]:
        record.on_host.setdefault(name, user_line())


def _is_called_by_user() -> bool:
    """Whether the result is returned to the user's code, not to Dask's own code."""
    frame = calling_frame()
    while frame.f_globals.get("__name__", "").partition(".")[0] in ("dask", "dask_cudf"):
        if frame.f_code.co_name not in _RETURN_RESULTS or frame.f_back is None:
            return False
        frame = frame.f_back
    return True
