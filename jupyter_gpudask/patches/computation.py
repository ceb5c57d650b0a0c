"""What a cell computes, seen on its way: what stays on the CPU, what does not fit, what is wanted on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dask.base
from dask.base import get_scheduler, is_dask_collection, unpack_collections
from dask.dataframe.dask_expr import FrameBase
from distributed import Client

from ..inspection.caller import names_of, user_line
from ..inspection.placement import GPU_BACKENDS, kind_of, name_of, place_of, results_to_host, to_host
from ..overlay.config_overlay import current_overlay
from .interception import bind, calling_frame, first_argument, intercept
from .result_size import check_what_was_computed, refusing_what_does_not_fit

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..overlay.cell_record import Watch

_GIVE_RESULTS = frozenset({"compute", "head", "tail", "safe_head", "item", "__array__", "__len__"})
_SEVERAL = (list, tuple, set, frozenset)


def install_computing() -> None:
    """Look at what cells for GPUs compute; elsewhere nothing changes, nor a second time."""
    intercept(dask.base.compute, _compute)
    intercept(dask.base.collections_to_expr, _submit)
    intercept(Client.compute, _client_compute)
    intercept(Client.persist, _client_persist)
    intercept(Client.gather, check_what_was_computed)


def _watch() -> Watch | None:
    overlay = current_overlay()
    return None if overlay is None else overlay.watch


def _bring(watch: Watch, collection: Any) -> Any:
    """A collection as its result is wanted on the host."""
    brought = to_host(collection)
    if brought is not collection:
        watch.brought.add(name_of(brought))
    return brought


def _compute(compute: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    watch = _watch()
    if watch is None:
        return compute(*args, **kwargs)
    if not _gives_results_to_the_user():
        with refusing_what_does_not_fit([]):
            return compute(*args, **kwargs)
    collections, repack = unpack_collections(*args, traverse=kwargs.get("traverse", True))
    if not collections:
        return compute(*args, **kwargs)
    if watch.to_host:
        args = repack([_bring(watch, collection) for collection in collections])
        return tuple(results_to_host(result) for result in compute(*args, **kwargs))
    if any(isinstance(arg, Iterator) for arg in args):
        args = repack(collections)  # they are read by now
    schedule = get_scheduler(scheduler=kwargs.get("scheduler"), collections=collections)
    is_ours = isinstance(getattr(schedule, "__self__", None), Client)
    with refusing_what_does_not_fit(collections if is_ours else []):
        return compute(*args, **kwargs)


def _client_compute(compute: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    watch, call = _watch(), bind(compute, args, kwargs)
    is_awaited = call.arguments.get("sync", False)
    if watch is None or not (watch.to_host or is_awaited):
        return compute(*args, **kwargs)
    given, traverse = call.arguments["collections"], call.arguments.get("traverse", True)
    is_one = not isinstance(given, _SEVERAL)
    collections, repack = unpack_collections(*([given] if is_one else given), traverse=traverse)
    if watch.to_host:
        collections, is_awaited = [_bring(watch, collection) for collection in collections], False
    repacked = repack(collections)
    call.arguments["collections"] = repacked[0] if is_one else list(repacked)
    with refusing_what_does_not_fit(collections if is_awaited else []):
        return compute(*call.args, **call.kwargs)


def _client_persist(persist: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As Dask, which loses all but the first partition of a frame that its optimizer cuts into more than it said."""
    __tracebackhide__ = True
    if _watch() is None:
        return persist(*args, **kwargs)
    call = bind(persist, args, kwargs)
    if call.arguments.get("optimize_graph", True):
        given = call.arguments["collections"]
        is_one = not isinstance(given, _SEVERAL)
        call.arguments["collections"] = _optimized(given) if is_one else list(map(_optimized, given))
    return persist(*call.args, **call.kwargs)


def _optimized(collection: Any) -> Any:
    if not isinstance(collection, FrameBase):
        return collection
    optimized = collection.optimize()
    # Together with others it may do less twice than alone.
    return collection if optimized.npartitions == collection.npartitions else optimized


def _submit(to_expression: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    overlay = current_overlay()
    if overlay is not None and overlay.watch is not None:
        collections = first_argument(to_expression, args, kwargs)
        for collection in collections if isinstance(collections, _SEVERAL) else [collections]:
            kind = kind_of(collection)
            if overlay.get(kind) in GPU_BACKENDS and is_dask_collection(collection):
                _note(overlay.watch, collection)
    return to_expression(*args, **kwargs)


def _note(watch: Watch, collection: Any) -> None:
    if place_of(collection) != "host" or name_of(collection) in watch.brought:
        return
    kind = kind_of(collection)
    for name in names_of(collection) or [f"{'an array' if kind == 'array' else 'a dataframe'} without a name"]:
        watch.on_host.setdefault(name, user_line())


def _gives_results_to_the_user() -> bool:
    """Whether the result goes to the user's code, and not to Dask's own, which computes things for itself."""
    frame = calling_frame()
    while frame.f_globals.get("__name__", "").partition(".")[0] in ("dask", "dask_cudf"):
        if frame.f_code.co_name not in _GIVE_RESULTS or frame.f_back is None:
            return False
        frame = frame.f_back
    return True
