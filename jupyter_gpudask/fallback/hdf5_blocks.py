"""Blocks of HDF5 and netCDF4 files, read and decompressed in the thread of their task.

HDF5 has one lock in a process: while it reads and decompresses for one task, all others wait. Here h5py only finds out
where the chunks of a dataset are in the file, once in a process, and each task reads and decodes those of its block.
What is not an array of plain numbers, or is encoded otherwise, HDF5 reads as before.
"""

from __future__ import annotations

import copy
import ctypes
import itertools
import math
import os
import sys
import threading
from contextlib import nullcontext, suppress
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from dask.base import normalize_token
from distributed import get_worker

from . import page_locked
from .zarr_blocks import axes_of, fill, pieces

_LEAST = 2**16
"""Bytes of a chunk, or of what is contiguous in the file; for less, HDF5 is faster."""

_MOST_CHUNKS = 2**22
_LEAST_USED = 4
"""One in so many elements of the chunks of a block are in the block; for less, HDF5 may still have the chunk."""

_OF_FILTERS = {1: "deflate", 2: "shuffle", 32015: "zstd"}
_finding = threading.Lock()


def read(path: str, name: str, key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The elements of a dataset; `None` if HDF5 has to read them, which also raises what is wrong with the file.

    Only in a worker: in a kernel HDF5 may know what somebody has written that is not in the file yet.
    """
    with suppress(Exception):
        get_worker()
        axes = axes_of(key, shape)
        with Path(path).open("rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            with _finding:
                layout = _layout_of(path, name, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
            if axes is None or layout is None or (layout.shape, layout.dtype) != (shape, dtype):
                return None
            out = page_locked.scratch(tuple(map(len, axes)), dtype)
            is_read = layout.read_chunks(file, axes, out) if layout.chunks else layout.read_run(file, axes, out)
            parts = key if isinstance(key, tuple) else (key,)
            return out[tuple(0 if type(part) is int else slice(None) for part in parts)] if is_read else None
    return None


@lru_cache(maxsize=128)  # as many as the files that xarray keeps open
def _layout_of(path: str, name: str, *_of_contents: int) -> _Layout | None:
    with _lock():
        return _open(path, name)


def _lock() -> Any:
    """That of xarray for HDF5, as h5py and netCDF4 may use one library, which does not lock itself."""
    return getattr(sys.modules.get("xarray.backends.locks"), "HDF5_LOCK", nullcontext())


def _open(path: str, name: str) -> _Layout | None:
    # As another process may have it open for writing; but h5py opens a file in a process always in the same way.
    for options in ({"locking": False}, {}):
        with suppress(Exception), import_module("h5py").File(path, "r", **options) as file:
            return _Layout(file[name]) if file.userblock_size == 0 else None
    return None


class _Layout:
    """Where the numbers of a dataset of h5py are in its file; raises `ValueError` if HDF5 has to read them."""

    def __init__(self, dataset: Any) -> None:
        h5py: Any = import_module("h5py")
        self.shape, self.dtype, self.chunks = dataset.shape, dataset.dtype, dataset.chunks
        kind, properties = dataset.id.get_type(), dataset.id.get_create_plist()
        filters = [properties.get_filter(number) for number in range(properties.get_nfilters())]
        self.filters = [_OF_FILTERS[code] for code, *_ in filters]
        shuffled = self.filters[:1] == ["shuffle"] and filters[0][2][0] == self.dtype.itemsize
        is_plain = (
            kind.get_class() in {h5py.h5t.INTEGER, h5py.h5t.FLOAT}
            and kind == h5py.h5t.py_create(self.dtype)
            and self.dtype.isnative
            and properties.get_layout() in {h5py.h5d.CHUNKED, h5py.h5d.CONTIGUOUS}
            and not properties.get_external_count()
            and self.filters[shuffled:] in ([], ["deflate"], ["zstd"])
            and self.filters != ["shuffle"]  # HDF5 may not have filtered the last chunks, which others show by an error
        )
        if not is_plain:
            raise ValueError(dataset.name)
        if not self.chunks:
            self.offset: Any = dataset.id.get_offset()
            return
        numbers = tuple(-(-length // size) for length, size in zip(self.shape, self.chunks, strict=True))
        if math.prod(numbers) > _MOST_CHUNKS or math.prod(self.chunks) * self.dtype.itemsize < _LEAST:
            raise ValueError(dataset.name)
        self.places = np.zeros((*numbers, 2), np.int64)  # offset and size; 0 for those that HDF5 has to read

        def note(chunk: Any) -> None:
            number, rests = zip(*map(divmod, chunk.chunk_offset, self.chunks), strict=True)
            if any(rests):
                raise ValueError(dataset.name)
            if not chunk.filter_mask:
                self.places[number] = chunk.byte_offset, chunk.size

        dataset.id.chunk_iter(note)

    def read_run(self, file: Any, axes: list[range], out: Any) -> bool:
        """Read a block of a dataset without chunks; `False` if not much of it is contiguous in the file."""
        inner = len(axes)
        while inner and axes[inner - 1] == range(self.shape[inner - 1]):
            inner -= 1
        along = max(inner - 1, 0)
        steps = [math.prod(self.shape[number + 1 :]) * self.dtype.itemsize for number in range(len(axes))]
        length = len(axes[along]) * steps[along] if axes else 0
        if length < _LEAST or axes[along].step != 1:
            return False
        for number, outer in zip(np.ndindex(out.shape[:along]), itertools.product(*axes[:along]), strict=True):
            places = (*outer, axes[along].start)
            offset = self.offset + sum(place * step for place, step in zip(places, steps, strict=False))
            if not fill(out[number], file, offset):
                return False
        return True

    def read_chunks(self, file: Any, axes: list[range], out: Any) -> bool:
        """Read and decode the chunks of a block; `False` if HDF5 has to."""
        sizes = list(zip(axes, self.chunks, self.shape, strict=True))
        spans = [
            min((axis[-1] // size + 1) * size, length) - axis[0] // size * size if axis else 0
            for axis, size, length in sizes
        ]
        if out.size * _LEAST_USED < math.prod(spans):
            return False
        chunk: Any = None
        for parts in itertools.product(*itertools.starmap(pieces, sizes)):
            number, places, within, _ = zip(*parts, strict=True)
            place = out[places]
            is_whole = place.shape == self.chunks and place.flags.c_contiguous
            if not is_whole and chunk is None:
                chunk = page_locked.scratch(self.chunks, self.dtype)
            if not self._read_chunk(file, number, place if is_whole else chunk):
                return False
            if not is_whole:
                place[...] = chunk[within]
        return True

    def _read_chunk(self, file: Any, number: tuple[int, ...], out: Any) -> bool:
        offset, size = map(int, self.places[number])
        if not self.filters:
            return size == out.nbytes and fill(out, file, offset)
        data = page_locked.scratch((1 << max(size - 1, 0).bit_length(),), np.dtype("u1"))[:size]
        if not size or not fill(data, file, offset):
            return False
        is_shuffled = self.filters[0] == "shuffle"
        decoded = page_locked.scratch((out.nbytes,), np.dtype("u1")) if is_shuffled else out.reshape(-1).view("u1")
        if self.filters[-1] == "zstd":
            codec: Any = import_module("pyarrow").Codec("zstd")  # one for each thread
            decoded[:] = np.frombuffer(codec.decompress(data, out.nbytes), "u1")
        elif not _inflate(data, decoded):
            return False
        if is_shuffled:
            _unshuffle(decoded, out.reshape(-1))
        return True


def _inflate(data: Any, out: Any) -> bool:
    """Decompress `data`; whether it fills `out`.

    Python's own module needs new memory for the result, or returns it in pieces, after each of which a thread waits for
    Python's lock: of 47 MB, beside a thread that computes, longer than to decompress it.
    """
    size = ctypes.c_ulong(len(out))
    status = _zlib().uncompress(out.ctypes.data, ctypes.byref(size), data.ctypes.data, len(data))
    return bool(status == 0 and size.value == len(out))


@cache
def _zlib() -> Any:
    library = ctypes.CDLL("libz.so.1")
    address, size = ctypes.c_void_p, ctypes.c_ulong
    library.uncompress.argtypes = [address, ctypes.POINTER(size), address, size]
    return library


def _unshuffle(data: Any, out: Any) -> None:
    """Put numbers together, of which `data` has first the first bytes, and then the second ones, and so on."""
    numbers = out.view("u1").reshape(-1, out.itemsize)
    for byte, values in enumerate(data.reshape(out.itemsize, -1)):
        numbers[:, byte] = values


class Hdf5Dataset:
    """A dataset of h5py that can be sent to workers, which open its file for themselves.

    - `dataset`: a dataset in a file. What was written into it before it is sent is written to the file then.
    """

    is_read_here = False

    def __init__(self, dataset: Any) -> None:
        self.filename, self.name = path_of(dataset), dataset.name
        self.shape, self.dtype, self.chunks, self.ndim = dataset.shape, dataset.dtype, dataset.chunks, dataset.ndim
        self._token = normalize_token(dataset)
        self._dataset = dataset  # only in the process that has opened it

    def __getitem__(self, key: Any) -> Any:
        """The elements, as h5py reads them."""
        if self._dataset is not None:
            return self._dataset[key]
        block = read(self.filename, self.name, key, self.shape, self.dtype) if self.is_read_here else None
        if block is not None:
            return block
        h5py = import_module("h5py")
        with h5py.File(self.filename, "r", locking=False) as file:  # the kernel may have it open for writing
            return file[self.name][key]

    def reader(self) -> Hdf5Dataset:
        """One that reads blocks by `read`, where that is possible; in the process that has opened the file, itself."""
        if self._dataset is not None:
            return self
        made = copy.copy(self)
        made.is_read_here = True
        return made

    def __dask_tokenize__(self) -> Any:
        return self._token

    def __getstate__(self) -> dict[str, Any]:
        if self._dataset:  # and not closed
            self._dataset.file.flush()
        return {**vars(self), "_dataset": None}


def path_of(dataset: Any) -> str:
    """The path of the file of a dataset of h5py."""
    return str(Path(dataset.file.filename).resolve())


@cache
def reader_class(kind: type[Any]) -> type[Any]:
    """A class of arrays in netCDF files of xarray, which reads blocks by `read`, where that is possible."""

    class Reader(kind):  # type: ignore[misc]
        __slots__ = ()

        def _getitem(self, key: Any) -> Any:
            path, group = (getattr(self.datastore, name, None) for name in ("_filename", "_group"))
            block = read(path or "", f"{group or ''}/{self.variable_name}", key, self.shape, self.dtype)
            return super()._getitem(key) if block is None else block

    return Reader
