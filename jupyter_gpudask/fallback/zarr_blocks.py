"""Blocks of Zarr arrays, read into page-locked memory and written in the thread of their task.

Zarr reads and decodes the chunks of an array in threads, but puts them together in one thread of the process, in new
memory, which the operating system provides page by page. If several tasks read, they wait for that thread. Here each
task reads and decodes the files of its chunks itself, straight to where they belong. For other stores and codecs Zarr
only notes where its chunks belong, and each task puts those of its block together.

Before Zarr writes a chunk, it compares all its numbers with the fill value, in that one thread, too. Here each task has
an event loop of its own for that.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from dask._task_spec import GraphNode
from dask.array.core import getter, getter_inline, getter_nofancy
from dask.base import normalize_token
from dask.utils import typename

from . import page_locked

_GETTERS = (getter, getter_inline, getter_nofancy)
_OF_XARRAY = ("xarray.backends.", "xarray.coding.", "xarray.core.indexing")
"""Modules whose objects read and decode parts of an array in a file."""


def with_readers(task: GraphNode, values: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """What a task gets; if it is Dask's of reading a block, with Zarr arrays, also in xarray's, that are read so."""
    kind = getattr(sys.modules.get("zarr"), "Array", None)
    if kind is None or not any(getattr(task, "func", None) is function for function in _GETTERS):
        return values
    return {key: _reader(values[key], kind) for key in task.dependencies}


def _reader(value: Any, kind: Any) -> Any:
    if type(value) is kind:
        return Reader(value, value)
    if type(value).__module__.startswith(_OF_XARRAY):
        for name in ("array", "_array"):
            inside = getattr(value, name, None)
            reader = _reader(inside, kind)
            if reader is not inside:
                changed = copy.copy(value)
                setattr(changed, name, reader)
                return changed
    return value


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
    root, decode = _root_of(array.store), _decoder(array)
    if root is None or decode is None or any(type(part) is slice and part.step not in (None, 1) for part in parts):
        return False
    ranges = [
        range(*part.indices(size)) if type(part) is slice else range(size)[part : part + 1 or None]
        for part, size in zip(parts, array.shape, strict=True)
    ]
    target = memory.reshape([len(each) for each in ranges])
    scratch: Any = None
    folder = Path(root, array.store_path.path)
    fill_value = 0 if array.fill_value is None else array.fill_value
    for chunk in itertools.product(
        *(range(each.start // size, -(-each.stop // size)) for each, size in zip(ranges, array.chunks, strict=True))
    ):
        starts = [number * size for number, size in zip(chunk, array.chunks, strict=True)]
        inside = [
            (max(each.start, start), min(each.stop, start + size))
            for each, start, size in zip(ranges, starts, array.chunks, strict=True)
        ]
        place = target[
            tuple(slice(a - each.start, b - each.start) for (a, b), each in zip(inside, ranges, strict=True))
        ]
        is_whole = place.shape == array.chunks and place.flags.c_contiguous
        if not is_whole and scratch is None:
            scratch = np.empty(array.chunks, array.dtype)
        try:
            if not decode(folder / array.metadata.encode_chunk_key(chunk), place if is_whole else scratch):
                return False
        except FileNotFoundError:
            place[...] = fill_value
            continue
        except Exception:  # noqa: BLE001 - of any codec
            return False
        if not is_whole:
            place[...] = scratch[tuple(slice(a - s, b - s) for (a, b), s in zip(inside, starts, strict=True))]
    return True


def _root_of(store: Any) -> Any:
    """The folder of a store on this machine, also one of fsspec or obstore; else `None`."""
    kind, system = typename(type(store)), getattr(store, "fs", None)
    if typename(type(getattr(system, "sync_fs", system))).endswith(".LocalFileSystem"):
        return store.path
    inner = store.store if kind.endswith(".ObjectStore") else store
    return getattr(inner, {"zarr": "root", "obstore": "prefix"}.get(type(inner).__module__.partition(".")[0], ""), None)


_THREADS = 4
"""Of one task, which encode and write the chunks of its block."""


class Target:
    """A Zarr array in a folder of this machine, into which several threads of a process write at a time."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __setitem__(self, key: Any, block: Any) -> None:
        parts = key if isinstance(key, tuple) else (key,)
        if asyncio._get_running_loop() or any(type(part) not in (int, slice) for part in parts):  # noqa: SLF001
            self._array[key] = block  # the first: in the main thread of a kernel
            return
        with ThreadPoolExecutor(_THREADS) as pool, asyncio.Runner() as runner:
            runner.get_loop().set_default_executor(pool)
            runner.run(self._array.async_array.setitem(parts, block))

    def __dask_tokenize__(self) -> Any:
        return normalize_token(self._array)


def with_threads(target: Any) -> Any:
    """A target of `dask.array.store`, as a `Target` if it can be one."""
    kind, store = getattr(sys.modules.get("zarr"), "Array", None), getattr(target, "store", None)
    is_one = kind is not None and type(target) is kind and hasattr(target, "async_array")
    return Target(target) if is_one and typename(type(store)).endswith(".LocalStore") else target


_CODECS = ("blosc", "gzip", "lz4", "zlib", "zstd")
"""Of numcodecs, which in a thread decode without the interpreter's lock, and to where they are told."""


def _decoder(array: Any) -> Callable[[Path, Any], bool] | None:
    """What reads the file of a chunk into an array, and returns whether it has filled it; `None` if that needs Zarr."""
    codecs = array.compressors
    endian = getattr(getattr(array.serializer, "endian", None), "value", sys.byteorder)  # of formats 3; of 2: the dtype
    is_plain = array.serializer is None or typename(type(array.serializer)).endswith(".BytesCodec")
    is_plain = is_plain and endian == sys.byteorder
    is_plain = is_plain and array.dtype.isnative and not array.filters and array.shards is None
    if not is_plain or len(codecs) > 1:
        return None
    if not codecs:
        return _read_plain
    name = getattr(codecs[0], "codec_id", None) or codecs[0].to_dict()["name"]
    if name not in _CODECS:
        return None
    codec = import_module("numcodecs").get_codec({"id": name})

    def read(file: Path, out: Any) -> bool:
        # A codec that finds less than a chunk in the file returns without an error; then the end is as before.
        end = out.reshape(-1).view("u1")[-8:]
        before = end[:] = np.frombuffer(os.urandom(end.size), "u1")
        codec.decode(file.read_bytes(), out)
        return not np.array_equal(end, before)

    return read


def _read_plain(path: Path, out: Any) -> bool:
    view = memoryview(out.reshape(-1).view("u1"))
    with path.open("rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size != len(view):
            return False
        while view:
            count = file.readinto(view)
            if not count:
                return False
            view = view[count:]
    return True


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
