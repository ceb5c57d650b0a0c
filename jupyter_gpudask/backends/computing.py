"""What a cell computes, seen on its way: what stays on the CPU, what does not fit, what is wanted on the host."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import dask.base
from dask.array import Array
from dask.base import is_dask_collection, unpack_collections
from dask.dataframe.dask_expr import FrameBase
from distributed import Client, default_client, futures_of, wait

from ..errors import ResultTooLargeError
from ..quantities import format_bytes
from .caller import names_of, user_line
from .config import current_overlay
from .interception import calling_frame, intercept
from .placement import GPU_BACKENDS, kind_of, name_of, place_of, results_to_host, to_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .watch import Watch

_GIVE_RESULTS = frozenset({"compute", "head", "tail", "safe_head", "item", "__array__", "__len__"})


def install_computing() -> None:
    """Look at what cells for GPUs compute; elsewhere nothing changes, nor a second time."""
    intercept(dask.base.compute, _compute)
    intercept(dask.base.collections_to_expr, _submit)
    intercept(Client.compute, _client_compute)
    intercept(Client.persist, _client_persist)


def _watch() -> Watch | None:
    overlay = current_overlay()
    return None if overlay is None else overlay.watch


def _bring(watch: Watch, collection: Any) -> Any:
    """A collection as its result is wanted on the host."""
    brought = to_host(collection)
    if brought is not collection:
        watch.brought.add(name_of(brought))
    return brought


def _compute(compute: Callable[..., Any], *args: Any, traverse: bool = True, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    watch = _watch()
    if watch is None or not _gives_results_to_the_user():
        return compute(*args, traverse=traverse, **kwargs)
    collections, repack = unpack_collections(*args, traverse=traverse)
    if watch.to_host:
        args = repack([_bring(watch, collection) for collection in collections]) if collections else args
        return tuple(results_to_host(result) for result in compute(*args, traverse=traverse, **kwargs))
    on_gpu = [collection for collection in collections if place_of(collection) == "gpu"]
    if on_gpu and "scheduler" not in kwargs:
        kept = _refuse_what_does_not_fit(on_gpu)
        if kept:
            args = repack([kept.get(id(collection), collection) for collection in collections])
    return compute(*args, traverse=traverse, **kwargs)


def _client_compute(compute: Callable[..., Any], client: Client, collections: Any, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    watch = _watch()
    if watch is not None and watch.to_host:
        if isinstance(collections, list | tuple | set | frozenset):
            collections = type(collections)(_bring(watch, collection) for collection in collections)
        else:
            collections = _bring(watch, collections)
    return compute(client, collections, *args, **kwargs)


def _client_persist(
    persist: Callable[..., Any],
    client: Client,
    collections: Any,
    optimize_graph: bool = True,  # noqa: FBT002 - as Dask has it
    *args: Any,
    **kwargs: Any,
) -> Any:
    """As Dask, which loses all but the first partition of a frame that its optimizer cuts into more than it said."""
    __tracebackhide__ = True
    if _watch() is not None and optimize_graph:
        if isinstance(collections, list | tuple | set | frozenset):
            collections = type(collections)(_optimized(collection) for collection in collections)
        else:
            collections = _optimized(collections)
    return persist(client, collections, optimize_graph, *args, **kwargs)


def _optimized(collection: Any) -> Any:
    return collection.optimize() if isinstance(collection, FrameBase) else collection


def _submit(to_expression: Callable[..., Any], collections: Any, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    overlay = current_overlay()
    if overlay is not None and overlay.watch is not None:
        for collection in collections if isinstance(collections, list | tuple | set) else [collections]:
            kind = kind_of(collection)
            if overlay.get(kind) in GPU_BACKENDS and is_dask_collection(collection):
                _note(overlay.watch, collection)
    return to_expression(collections, *args, **kwargs)


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


def _refuse_what_does_not_fit(collections: Iterable[Any]) -> dict[int, Any]:
    """Raise for what the kernel's GPU cannot hold; what only its computation tells the size of comes back persisted."""
    __tracebackhide__ = True
    free, size, names, kept = _free_memory(), 0, list[str](), {}
    for collection in collections:
        if not getattr(collection, "ndim", 0):  # a number
            continue
        if isinstance(collection, Array) and not math.isnan(collection.nbytes):
            needed = int(collection.nbytes)
        else:
            persisted = dask.base.persist(collection)[0]
            size_of_it = _size_on_the_workers(persisted)
            if size_of_it is None:  # it has failed, and fails again where it is computed
                continue
            kept[id(collection)], needed = persisted, size_of_it
        # The blocks of an array arrive one by one, and are put together then: both need room, unless there is but one.
        size += needed * (2 if isinstance(collection, Array) and collection.npartitions > 1 else 1)
        names += names_of(collection)
        if size > free:
            raise ResultTooLargeError(
                f"The result {' and '.join(names) or 'of this line'} needs {format_bytes(size)} "
                f"on the GPU of this kernel, which has {format_bytes(free)} free."
            )
    return kept


def _size_on_the_workers(persisted: Any) -> int | None:
    """Bytes of all its partitions, once they are there; `None` if they will not be."""
    futures = futures_of(persisted)
    wait(futures)
    if any(future.status != "finished" for future in futures):
        return None
    try:
        sizes: dict[Any, int] = default_client().nbytes([future.key for future in futures])
    except KeyError:  # the scheduler has lost one meanwhile
        return None
    return sum(sizes.values())


def _free_memory() -> int:
    """Bytes that the kernel can still put on its GPU."""
    import cupy

    free, _ = cupy.cuda.runtime.memGetInfo()
    return int(free + cupy.get_default_memory_pool().free_bytes())
