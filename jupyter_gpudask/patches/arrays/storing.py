"""``da.store`` into what only the kernel has.

Dask sends the target of `dask.array.store` to the workers. They write into a file by its name; but of a NumPy array, of
a Zarr array in memory or of an object of the user's own class they get copies, so that nothing would arrive in the
kernel, and an open HDF5 file cannot be sent. Into such targets the kernel writes the blocks that the workers have
computed.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.array import Array, from_array
from dask.array.core import load_store_chunk, slices_from_chunks
from dask.base import get_scheduler, is_dask_collection
from distributed import Client, Future, futures_of
from distributed.protocol.pickle import dumps

from ...inspection.arguments import bind
from ...inspection.placement import name_of, to_host
from ...overlay.config_overlay import current_overlay, current_record

if TYPE_CHECKING:
    from collections.abc import Callable


def store(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.store`; in a cell with a cluster the kernel writes into targets that the workers cannot reach."""
    __tracebackhide__ = True
    if current_overlay() is None:
        return original(*args, **kwargs)
    call = bind(original, args, kwargs)
    call.apply_defaults()
    given = call.arguments
    sources, targets, regions = given["sources"], given["targets"], given["regions"]
    if isinstance(sources, Array):
        sources, targets = [sources], [targets]
    if not isinstance(sources, list | tuple):
        return original(*args, **kwargs)
    if regions is None or isinstance(regions, tuple):
        regions = [regions] * len(sources)
    client = _client_of(sources, given["kwargs"].get("scheduler"))
    can_be_written = given["compute"] and len(sources) == len(targets) == len(regions)
    if client is None or not can_be_written or all(map(_is_reached_by_workers, targets)):
        return original(*args, **kwargs)
    results = []
    for source, target, region in zip(sources, targets, regions, strict=True):
        if _is_reached_by_workers(target):
            results.append(original(source, target, **{**_options(given), "regions": region}))
        else:
            _write(client, source, target, region, given["lock"])
            results.append(_stored(source, target, region) if given["return_stored"] else None)
    if not given["return_stored"]:
        return None
    return results[0] if len(results) == 1 else tuple(results)


def to_existing_zarr(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As the function behind `dask.array.to_zarr`, which refuses Zarr arrays in memory if there is a cluster."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    if current_overlay() is not None and _is_in_memory(call.arguments["url"]) and call.arguments["compute"]:
        call.arguments["zarr_mem_store_types"] = ()
    return original(*call.args, **call.kwargs)


def _client_of(sources: Any, scheduler: Any) -> Client | None:
    """The client that would compute the sources; `None` without a cluster."""
    owner = getattr(get_scheduler(scheduler=scheduler, collections=sources), "__self__", None)
    return owner if isinstance(owner, Client) else None


def _options(given: dict[str, Any]) -> dict[str, Any]:
    return {"lock": given["lock"], "return_stored": given["return_stored"], **given["kwargs"]}


def _is_reached_by_workers(target: Any) -> bool:
    """Whether workers can write into a target, which is sent to them."""
    if is_dask_collection(target) or isinstance(target, Future):
        return True
    if isinstance(target, np.ndarray) or type(target).__module__ == "__main__" or _is_in_memory(target):
        return False
    try:
        dumps(target)
    except Exception:  # noqa: BLE001 - of any class, as of h5py and netCDF4
        return False
    return True


def _is_in_memory(target: Any) -> bool:
    """Whether this is a Zarr array in memory, or one in an object of xarray."""
    store = getattr(getattr(target, "_array", target), "store", None)
    zarr = sys.modules.get("zarr")
    return zarr is not None and isinstance(store, dict | zarr.storage.MemoryStore)


def _write(client: Client, source: Array, target: Any, region: Any, lock: Any) -> None:
    """Write the blocks of an array as they are computed, in their order; none is kept longer than that."""
    on_host = to_host(source)
    record = current_record()
    if on_host is not source and record is not None:
        record.moved_for_result.add(name_of(on_host))  # it did not stay on the CPU
    by_key = {future.key: future for future in futures_of(client.persist(on_host))}
    keys = ((on_host.name, *place) for place in np.ndindex(*on_host.numblocks))
    places = slices_from_chunks(on_host.chunks)
    blocks = deque((by_key.pop(key), place) for key, place in zip(keys, places, strict=True))
    own_lock = lock if hasattr(lock, "acquire") else None
    while blocks:
        future, place = blocks.popleft()
        load_store_chunk(future.result(), target, place, region, own_lock, return_stored=False, load_stored=False)


def _stored(source: Array, target: Any, region: Any) -> Array:
    """What was written, as an array with the chunks of its source."""
    stored: Array = from_array(np.asarray(target[region if region is not None else ...]), chunks=source.chunks)
    return stored
