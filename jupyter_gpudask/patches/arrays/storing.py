"""Sources and targets of arrays that cannot be sent to workers: open files, and targets that only the kernel has.

Dask sends the target of `dask.array.store` to the workers. They write into a file by its name; but of an array in
memory, of NumPy, CuPy or Zarr, or of an object of another class they get copies, so that nothing would arrive in the
kernel, and an open HDF5 file cannot be sent. Into such targets the kernel writes the blocks that the workers have
computed. Of an open HDF5 or TIFF file as a source, the workers read the file by its name.
"""

from __future__ import annotations

import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from dask.array.core import Array, from_array, load_store_chunk, slices_from_chunks
from dask.base import get_scheduler, is_dask_collection, normalize_token
from distributed import Client, Future, futures_of, wait
from distributed.protocol.pickle import dumps

from ...fallback.hdf5_blocks import Hdf5Dataset, path_of
from ...fallback.values import to_gpu
from ...fallback.zarr_blocks import Target, with_threads
from ...inspection.arguments import bind, first_argument
from ...inspection.placement import name_of, place_of, to_host
from ...inspection.user_code import user_frame
from ...overlay import current_overlay, current_record

_Blocks = dict[Any, tuple[Future[Any], list[tuple[Any, Any, Any]]]]

_OPENED_BY_NAME = ("sec2", "stdio")
"""The drivers of h5py with which other processes can open the file."""


def read_open_file(original: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function that creates an array; a dataset of h5py, or a TIFF file, each worker opens for itself."""
    __tracebackhide__ = True
    given = None if current_overlay() is None else first_argument(original, args, kwargs)
    kind = Hdf5Dataset if _is_of_hdf5(given) else TiffImages if _is_of_tiff(given) else None
    if kind is None:
        return original(*args, **kwargs)
    call = bind(original, args, kwargs)
    first = next(iter(call.arguments))
    call.arguments[first] = kind(given)
    return original(*call.args, **call.kwargs)


class TiffImages:
    """A Zarr array that tifffile makes of an open TIFF file; it can be sent to workers, which open the file again.

    - `array`: of ``tifffile.imread(path, aszarr=True)``, one level of a series.
    """

    def __init__(self, array: Any) -> None:
        store = array.store
        level = store._data[int(array.path or 0)]  # noqa: SLF001 - of a pyramid, arrays are named by their levels
        file = level.parent
        places = ((number, series.levels) for number, series in enumerate(file.series) if level in series.levels)
        number, levels = next(places)
        self.filename = str(Path(file.filehandle.path).resolve())
        self.options = {"series": number, "level": levels.index(level), "chunkmode": int(store._chunkmode)}  # noqa: SLF001
        self.shape, self.dtype, self.chunks, self.ndim = array.shape, array.dtype, array.chunks, array.ndim

    def __getitem__(self, key: Any) -> Any:
        """The elements, as Zarr reads them."""
        return _images(self.filename, Path(self.filename).stat().st_mtime_ns, *self.options.values())[key]

    def __dask_tokenize__(self) -> Any:
        return self.filename, Path(self.filename).stat().st_mtime_ns, self.options


@lru_cache(maxsize=32)
def _images(filename: str, time: int, series: int, level: int, chunkmode: int) -> Any:  # noqa: ARG001 - of its contents
    """The Zarr array of a TIFF file as it was at a time; to find the images in it takes longer than to read one."""
    tifffile, zarr = import_module("tifffile"), import_module("zarr")
    store = tifffile.imread(filename, aszarr=True, series=series, level=level, chunkmode=chunkmode)
    return zarr.open_array(store=store, mode="r")


def reads_file_of(target: Any, source: Array) -> bool:
    """Whether blocks of `source` are read from the HDF5 file in which the dataset `target` is."""
    if not _is_of_hdf5(target):
        return False
    layers = source.dask.layers.values()
    values = (value for layer in layers for value in getattr(layer, "mapping", {}).values())
    inlined = (value for layer in layers for value, _ in getattr(layer, "indices", ()))
    datasets = (value for value in (*values, *inlined) if isinstance(value, Hdf5Dataset))
    return any(dataset.filename == path_of(target) for dataset in datasets)


def _is_of_hdf5(value: Any) -> bool:
    """Whether this is a dataset in a file that other processes can open."""
    h5py = sys.modules.get("h5py")
    if h5py is None or not isinstance(value, h5py.Dataset) or value.name is None:
        return False
    return value.file.driver in _OPENED_BY_NAME


def _is_of_tiff(value: Any) -> bool:
    """Whether this is a Zarr array of images in one file, of which tifffile knows the place."""
    zarr, tiff = sys.modules.get("zarr"), sys.modules.get("tifffile.zarr")
    if zarr is None or tiff is None or not isinstance(value, zarr.Array) or type(value.store) is not tiff.ZarrTiffStore:
        return False
    return any(level in series.levels for level in value.store._data for series in level.parent.series)  # noqa: SLF001


_WRITTEN_BY_WORKERS = ("zarr.", "xarray.backends.")
"""The modules of targets that workers can open for themselves."""

_GATHERED = 2**26
"""The bytes of small blocks that are gathered at once, because each request takes some milliseconds."""

_LATER = (
    "da.store with compute=False: the workers of a cluster write into copies of this target; nothing arrives in it. "
    'Leave compute=False out, or compute the result with scheduler="threads".'
)


def store(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.store`; in a cell with a cluster the kernel writes into targets that the workers cannot reach."""
    __tracebackhide__ = True
    if current_record() is None:
        return original(*args, **kwargs)
    call = bind(original, args, kwargs)
    call.apply_defaults()
    given = dict(call.arguments)
    options, sources, targets, regions = (given.pop(name) for name in ("kwargs", "sources", "targets", "regions"))
    if isinstance(sources, Array):
        sources, targets = [sources], [targets]
    if not isinstance(sources, list | tuple) or not all(isinstance(source, Array) for source in sources):
        return original(*args, **kwargs)
    if regions is None or isinstance(regions, tuple):
        regions = [regions] * len(sources)
    _set_lock_order(targets)
    client = _client_of(sources, options.get("scheduler"))
    here = [number for number, target in enumerate(targets) if not _is_reached_by_workers(target)]
    if not given["return_stored"]:
        targets = [
            target if number in here else with_threads(with_reasons(target)) for number, target in enumerate(targets)
        ]
        given["lock"] = _lock_of(given["lock"], sources, targets, regions)
    if client is None or not here or not len(sources) == len(targets) == len(regions):
        call.arguments |= {"sources": sources, "targets": targets, "lock": given["lock"]}
        return original(*call.args, **call.kwargs)
    if not given["compute"]:
        _warn(_LATER)
        return original(*args, **kwargs)

    stored: dict[int, Any] = {}
    if there := [number for number in range(len(targets)) if number not in here]:
        lists = {"sources": sources, "targets": targets, "regions": regions}
        chosen = {name: [values[number] for number in there] for name, values in lists.items()}
        arrays = original(**chosen, **given, **options)
        stored.update(zip(there, arrays if isinstance(arrays, tuple) else [arrays], strict=False))
    parts = [(sources[number], targets[number], regions[number]) for number in here]
    _write(client, parts, given["lock"], options)
    if not given["return_stored"]:
        return None
    stored.update(zip(here, (_store_block(*part) for part in parts), strict=True))
    return stored[0] if len(stored) == 1 else tuple(stored[number] for number in range(len(stored)))


class FileTarget:
    """A variable in a file that xarray writes, such as of netCDF, with errors that say what is wrong with the disk."""

    def __init__(self, variable: Any, path: str) -> None:
        self._variable, self._path = variable, path
        self.shape, self.dtype = variable.shape, variable.dtype

    def __setitem__(self, key: Any, block: Any) -> None:
        try:
            self._variable[key] = block
        except (OSError, RuntimeError) as error:
            try:
                with tempfile.TemporaryFile(dir=Path(self._path).parent) as file:
                    file.write(bytes(block.nbytes))
            except OSError as reason:
                raise OSError(reason.errno, reason.strerror, self._path) from error
            raise

    def __dask_tokenize__(self) -> Any:
        return normalize_token(self._variable)


def with_reasons(target: Any) -> Any:
    """A target of `dask.array.store`, as a `FileTarget` if it is a variable in a file of xarray."""
    path = getattr(getattr(target, "datastore", None), "_filename", None)
    return FileTarget(target, path) if type(target).__module__.startswith("xarray.backends.") and path else target


def _lock_of(lock: Any, sources: Any, targets: Any, regions: Any) -> Any:
    """The lock for writing, of which Dask makes one for all blocks of an array that it overwrites; chunks need none."""

    def is_free(source: Array, target: Any, region: Any) -> bool:
        return region is None and isinstance(target, Target) and target.has_chunks_of(source)

    return False if lock is True and all(map(is_free, sources, targets, regions)) else lock


class LocksInOrder:
    """Several locks that all threads acquire in one order; a context manager.

    xarray sorts the locks of a file by their addresses. Of a lock of Dask each task has another object, so that two
    threads of a worker acquire the locks in different orders, and wait for each other forever.
    """

    def __init__(self, locks: Iterable[Any]) -> None:
        self.locks = sorted(locks, key=lambda lock: (type(lock).__module__, str(getattr(lock, "name", lock))))

    def __enter__(self) -> None:
        for lock in self.locks:
            lock.acquire()

    def __exit__(self, *_: object) -> None:
        for lock in reversed(self.locks):
            lock.release()


def _set_lock_order(targets: Any) -> None:
    """Set the order of the locks of files that xarray writes."""
    for target in targets if isinstance(targets, list | tuple) else ():
        source: Any = getattr(target, "datastore", None)
        if type(source).__module__.startswith("xarray.backends.") and hasattr(source.lock, "locks"):
            source.lock = LocksInOrder(source.lock.locks)


def to_existing_zarr(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As the function behind `dask.array.to_zarr`, which refuses Zarr arrays in memory if there is a cluster."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    if current_overlay() is not None and _is_in_memory(call.arguments["url"]) and call.arguments["compute"]:
        call.arguments["zarr_mem_store_types"] = ()
    return original(*call.args, **call.kwargs)


def _warn(text: str) -> None:
    frame = user_frame()
    if frame is not None:
        warnings.warn_explicit(text, UserWarning, frame.f_code.co_filename, frame.f_lineno)


def _client_of(sources: Any, scheduler: Any) -> Client | None:
    """The client that would compute the sources; `None` without a cluster."""
    owner = getattr(get_scheduler(scheduler=scheduler, collections=sources), "__self__", None)
    return owner if isinstance(owner, Client) else None


def _is_reached_by_workers(target: Any) -> bool:
    """Whether workers can write into a target, which is sent to them."""
    if is_dask_collection(target) or isinstance(target, Future):
        return True
    if not type(target).__module__.startswith(_WRITTEN_BY_WORKERS) or _is_in_memory(target):
        return False
    try:
        dumps(target)
    except Exception:  # noqa: BLE001 - of any class, as of netCDF4
        return False
    return True


def _is_in_memory(target: Any) -> bool:
    """Whether only this process has a Zarr array, in memory or in an open ZIP file; also one in an object of xarray."""
    zarr = sys.modules.get("zarr")
    store = getattr(getattr(target, "_array", target), "store", None)
    if zarr is None or store is None:
        return False
    while isinstance(store, _class_of(zarr, "WrapperStore")):
        store = store._store  # noqa: SLF001
    system = getattr(store, "fs", None)
    kinds = (dict, *(_class_of(zarr, name) for name in ("MemoryStore", "KVStore", "ZipStore")))
    return isinstance(store, kinds) or "memory" in (getattr(system, "protocol", None) or ())


def _class_of(zarr: Any, name: str) -> Any:
    """A class of stores that some versions of Zarr have; else none."""
    return getattr(zarr.storage, name, ())


def _write(client: Client, parts: Sequence[tuple[Array, Any, Any]], lock: Any, options: dict[str, Any]) -> None:
    """Write blocks of sources into regions of targets as they are computed, several small ones at a time.

    None is kept longer than that.
    """
    blocks = _blocks(client, parts, options)
    own_lock = lock if hasattr(lock, "acquire") else None
    size = max(math.prod(source.chunksize) * source.dtype.itemsize for source, _, _ in parts)
    most = max(1, int(_GATHERED // size)) if size > 0 else 1  # it is NaN for unknown chunks
    futures: list[Future[Any]] = []
    try:
        if any(reads_file_of(target, source) for _, target, _ in parts for source, _, _ in parts):
            wait([future for future, _ in blocks.values()])  # what the workers read does not change meanwhile
        while blocks:
            finished = [key for key, (future, _) in blocks.items() if future.done()]
            keys = finished[:most] or [next(iter(blocks))]
            targets = [blocks[key][1] for key in keys]
            futures = [blocks.pop(key)[0] for key in keys]
            for block, places in zip(client.gather(futures), targets, strict=True):
                for target, place, region in places:
                    written = to_gpu(block, ("cupy",)) if place_of(target) == "gpu" else block
                    load_store_chunk(written, target, place, region, own_lock, return_stored=False, load_stored=False)
    finally:
        blocks.clear()  # the traceback of an error refers to both
        futures.clear()


def _blocks(client: Client, parts: Sequence[tuple[Array, Any, Any]], options: dict[str, Any]) -> _Blocks:
    """The blocks of the sources, by key: their futures, and where each is to be written."""
    record = current_record()
    arrays = [to_host(source) for source, _, _ in parts]
    if record is not None:  # they did not stay on the CPU
        moved = (array for array, (source, _, _) in zip(arrays, parts, strict=True) if array is not source)
        record.moved_for_result.update(map(name_of, moved))
    options = {name: value for name, value in options.items() if name not in ("scheduler", "traverse")}
    futures = {future.key: future for future in futures_of(client.persist(arrays, **options))}
    blocks: _Blocks = {}
    for array, (_, target, region) in zip(arrays, parts, strict=True):
        keys = ((array.name, *place) for place in np.ndindex(*array.numblocks))
        for key, place in zip(keys, slices_from_chunks(array.chunks), strict=True):
            blocks.setdefault(key, (futures[key], []))[1].append((target, place, region))
    return blocks


def _store_block(source: Array, target: Any, region: Any) -> Array:
    """What was written, as an array with the chunks of its source."""
    written = to_host(target[region if region is not None else ...])
    stored: Array = from_array(np.asarray(written), chunks=source.chunks)
    return stored
