"""Blocks of Zarr arrays, read into page-locked memory and written in the thread of their task.

Zarr reads and decodes the chunks of an array in threads, but puts them together in one thread of the process, in new
memory, which the operating system provides page by page. If several tasks read, they wait for that thread. Here each
task reads and decodes the files of its chunks itself, straight to where they belong. For other stores and codecs Zarr
only notes where its chunks belong, and each task puts those of its block together.

Writing is the same: each task encodes and writes the files of its chunks, and Zarr writes the others, with an event
loop of its own for each task.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from dask.base import normalize_token
from dask.utils import typename

from . import page_locked


class Reader:
    """A Zarr array that is read into page-locked memory where that is possible, else as `indexed`, with its methods."""

    def __init__(self, array: Any, indexed: Any) -> None:
        self._array, self._indexed = array, indexed

    def __getitem__(self, key: Any) -> Any:
        """The elements, as Zarr reads them."""
        block = None
        with suppress(Exception):  # an error of the file is raised below
            block = _read(self._array, key)
        return self._indexed[key] if block is None else block

    @property
    def oindex(self) -> Reader:
        """As Zarr's; a block is the same as without it."""
        return Reader(self._array, self._array.oindex)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._array, name)


def _read(array: Any, key: Any) -> Any:
    """A block of numbers; `None` if it is something else, or is not worth it, or there is no page-locked memory."""
    parts = key if isinstance(key, tuple) else (key,)
    if any(type(part) not in (int, slice) for part in parts) or array.dtype.kind not in "biufc" or array.order != "C":
        return None
    parts = *parts, *[slice(None)] * (array.ndim - len(parts))
    sizes = zip(parts, array.shape, strict=True)
    shape = tuple(len(range(*part.indices(size))) for part, size in sizes if type(part) is slice)
    buffers = import_module("zarr.core.buffer")
    if buffers.default_buffer_prototype() != buffers.cpu.buffer_prototype:
        return None  # the user has configured Zarr otherwise
    memory = page_locked.empty(shape, array.dtype)
    if memory is not None and not _read_files(array, parts, memory):
        out = _target_class(buffers.cpu.NDBuffer)(memory)
        array.get_basic_selection(parts, out=out)
        out.put_together()
    return memory


def _read_files(array: Any, parts: tuple[Any, ...], memory: Any) -> bool:
    """Read and decode the files of a block; `False` if Zarr has to, which also raises what is wrong with a file."""
    codec, chunks = _codec_of(array), _Chunks.of(array, parts)
    if codec is None or chunks is None:
        return False
    target = memory.reshape(chunks.shape)
    scratch: Any = None
    for file, places, within, _ in chunks:
        place = target[places]
        is_whole = place.shape == array.chunks and place.flags.c_contiguous
        if not is_whole and scratch is None:
            scratch = page_locked.scratch(array.chunks, array.dtype)
        try:
            if not _read_file(codec, file, place if is_whole else scratch):
                return False
        except FileNotFoundError:
            place[...] = _fill_value_of(array)
            continue
        except Exception:  # noqa: BLE001 - of any codec
            return False
        if not is_whole:
            place[...] = scratch[within]
    return True


class _Chunks(list[tuple[Path, tuple[slice, ...], tuple[slice, ...], bool]]):
    """The chunks of a block: their files, places in the block, places in the chunk, and whether these are all."""

    folder: Path
    shape: list[int]

    @classmethod
    def of(cls, array: Any, parts: tuple[Any, ...]) -> _Chunks | None:
        """The chunks of a part of an array; `None` if its store is no folder, or the part is no simple one."""
        root, axes = _root_of(array.store), axes_of(parts, array.shape)
        if root is None or not axes or len(parts) != array.ndim:
            return None
        found = cls()
        found.folder = Path(root, array.store_path.path)
        found.shape = list(map(len, axes))
        for chunk in itertools.product(*map(pieces, axes, array.chunks, array.shape)):
            number, places, within, are_all = zip(*chunk, strict=True)
            found.append((found.folder / array.metadata.encode_chunk_key(number), places, within, all(are_all)))
        return found


def axes_of(key: Any, shape: tuple[int, ...]) -> list[range] | None:
    """The places of a part of an array along each axis, one for an integer; `None` if the part is no simple one."""
    parts = key if isinstance(key, tuple) else (key,)
    is_simple = all(type(part) is int or (type(part) is slice and (part.step or 1) > 0) for part in parts)
    if not is_simple or len(parts) > len(shape):
        return None
    sizes: Any = itertools.zip_longest(parts, shape, fillvalue=slice(None))
    return [
        range(*part.indices(size)) if type(part) is slice else range(size)[part : part + 1 or None]
        for part, size in sizes
    ]


def pieces(axis: range, size: int, length: int) -> Iterator[tuple[int, slice, slice, bool]]:
    """The chunks along an axis: number, places in `axis`, places in the chunk, and whether these are all."""
    for number in range(axis[0] // size, axis[-1] // size + 1) if axis else ():
        start, stop = number * size, min(number * size + size, length)
        first, last = (max(0, -(-(edge - axis.start) // axis.step)) for edge in (start, stop))
        if part := axis[first:last]:
            within = slice(part[0] - start, part[-1] - start + 1, axis.step)
            yield number, slice(first, first + len(part)), within, len(part) == stop - start


def _fill_value_of(array: Any) -> Any:
    return np.asarray(0 if array.fill_value is None else array.fill_value, array.dtype)


def _root_of(store: Any) -> Any:
    """The folder of a store on this machine, also one of fsspec or obstore; else `None`."""
    kind, system = typename(type(store)), getattr(store, "fs", None)
    if typename(type(getattr(system, "sync_fs", system))).endswith(".LocalFileSystem"):
        return store.path
    inner = store.store if kind.endswith(".ObjectStore") else store
    return getattr(inner, {"zarr": "root", "obstore": "prefix"}.get(type(inner).__module__.partition(".")[0], ""), None)


_THREADS = 4
"""Of one task for which Zarr encodes and writes the chunks of a block."""


class Target:
    """A Zarr array in a folder of this machine, into which several threads of a process write at a time."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __setitem__(self, key: Any, block: Any) -> None:
        parts = key if isinstance(key, tuple) else (key,)
        if _write_files(self._array, parts, block):
            return
        if asyncio._get_running_loop() or any(type(part) not in (int, slice) for part in parts):  # noqa: SLF001
            self._array[key] = block  # the first: in the main thread of a kernel
            return
        with ThreadPoolExecutor(_THREADS) as pool, asyncio.Runner() as runner:
            runner.get_loop().set_default_executor(pool)
            runner.run(self._array.async_array.setitem(parts, block))

    def has_chunks_of(self, source: Any) -> bool:
        """Whether no two blocks of an array with this shape belong to one chunk."""
        is_same = source.shape == self.shape and self._array.shards is None
        sizes = zip(source.chunks, self._array.chunks, strict=True) if is_same else ()
        return is_same and not any(size % chunk for along, chunk in sizes for size in along[:-1])

    def __dask_tokenize__(self) -> Any:
        return normalize_token(self._array)


def with_threads(target: Any) -> Any:
    """A target of `dask.array.store`, as a `Target` if it can be one."""
    kind, store = getattr(sys.modules.get("zarr"), "Array", None), getattr(target, "store", None)
    is_one = kind is not None and type(target) is kind and hasattr(target, "async_array")
    return Target(target) if is_one and typename(type(store)).endswith(".LocalStore") else target


def _write_files(array: Any, parts: tuple[Any, ...], block: Any) -> bool:
    """Encode and write the files of a block; `False` if Zarr has to."""
    if type(block) is not np.ndarray or block.dtype != array.dtype or array.dtype.kind not in "biufc":
        return False
    codec, chunks = _codec_of(array), _Chunks.of(array, parts)
    if codec is None or chunks is None or array.order != "C" or not all(are_all for *_, are_all in chunks):
        return False
    if math.prod(chunks.shape) != block.size or [each for each in block.shape if each > 1] != [
        each for each in chunks.shape if each > 1
    ]:
        return False  # and raises an error
    chunks.folder.stat()  # raises an error if it is gone, as that of a lost mount; it is not made again
    source, fill_value = block.reshape(chunks.shape), _fill_value_of(array)
    inner = array.async_array
    config = inner.config if hasattr(inner, "config") else inner._config  # noqa: SLF001 - of Zarr 3.0
    for file, places, within, _ in chunks:
        chunk = np.ascontiguousarray(source[places])
        if chunk.shape != array.chunks:
            inside, chunk = chunk, np.full(array.chunks, fill_value)
            chunk[within] = inside
        if config.write_empty_chunks or not _is_filled(chunk, fill_value):
            _write_file(codec, file, chunk)
        else:
            file.unlink(missing_ok=True)
    return True


def _is_filled(chunk: Any, value: Any) -> bool:
    """Whether all elements have the bits of a value."""
    bits = f"u{min(8, chunk.itemsize)}"
    chunk, value = chunk.reshape(-1, 1).view(bits), value.reshape(1, 1).view(bits)
    return bool(np.array_equal(chunk[:1], value) and (chunk == value).all())


_CODECS = ("blosc", "gzip", "lz4", "zlib", "zstd")
"""Of numcodecs, which in a thread work without the interpreter's lock, and decode to where they are told."""

_ZSTD = 3
"""The level that Zstandard takes for 0."""


def _codec_of(array: Any) -> Any:
    """The only codec of the files of an array, of numcodecs; `False` if there is none, `None` if that needs Zarr."""
    codecs = array.compressors
    endian = getattr(getattr(array.serializer, "endian", None), "value", sys.byteorder)  # of formats 3; of 2: the dtype
    is_plain = array.serializer is None or typename(type(array.serializer)).endswith(".BytesCodec")
    is_plain = is_plain and endian == sys.byteorder
    is_plain = is_plain and array.dtype.isnative and not array.filters and array.shards is None
    if not is_plain or len(codecs) > 1:
        return None
    if not codecs:
        return False
    name = getattr(codecs[0], "codec_id", None) or codecs[0].to_dict()["name"]
    if name not in _CODECS:
        return None
    return codecs[0] if hasattr(codecs[0], "codec_id") else getattr(codecs[0], f"_{name}_codec", None)


def _read_file(codec: Any, path: Path, out: Any) -> bool:
    """Read the file of a chunk into an array; whether it has filled it."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if codec is False:
            return size == out.nbytes and fill(out, file)
        data = page_locked.scratch((1 << max(size - 1, 0).bit_length(),), np.dtype("u1"))[:size]
        if not fill(data, file):
            return False
    # A codec that finds less than a chunk in the file returns without an error; then the end is as before.
    end = out.reshape(-1).view("u1")[-8:]
    before = end[:] = np.frombuffer(os.urandom(end.size), "u1")
    codec.decode(data, out)
    return not np.array_equal(end, before)


def fill(out: Any, file: Any, offset: int = 0) -> bool:
    """Read an array without gaps from a file; whether the file has as much."""
    view = memoryview(out.reshape(-1).view("u1"))
    while view:
        count = os.preadv(file.fileno(), [view], offset)
        if not count:
            return False
        view, offset = view[count:], offset + count
    return True


def _write_file(codec: Any, path: Path, chunk: Any) -> None:
    """Write the file of a chunk; another process sees the file as it was, or the whole new one."""
    data = memoryview(chunk.reshape(-1).view("u1"))
    if codec is not False:
        data = _zstd(codec.level).compress(data, asbytes=False) if _is_plain_zstd(codec) else codec.encode(chunk)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{uuid4().hex}.partial")  # as Zarr names it
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _is_plain_zstd(codec: Any) -> bool:
    return codec.codec_id == "zstd" and not getattr(codec, "checksum", False)


def _zstd(level: int) -> Any:
    """A codec of Arrow; that of numcodecs copies what it has encoded, and no other thread runs meanwhile."""
    return import_module("pyarrow").Codec("zstd", compression_level=level or _ZSTD)


@cache
def _target_class(of_host: Any) -> Any:
    """A class of Zarr's buffers, in memory of the host, that only note what belongs where."""

    class Target(of_host):  # type: ignore[misc]
        def __init__(self, memory: Any) -> None:
            super().__init__(memory)
            self._parts: list[tuple[Any, Any]] = []

        def __setitem__(self, place: Any, part: Any) -> None:
            self._parts.append((place, part))

        def put_together(self) -> None:
            for place, part in self._parts:
                super().__setitem__(place, part)

    return Target
