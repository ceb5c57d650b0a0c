"""Blocks of Zarr arrays, read into page-locked memory in the thread of their task.

Zarr reads and decodes the chunks of an array in threads, but puts them together in one thread of the process, in new
memory, which the operating system provides page by page. If several tasks read, they wait for that thread. Here Zarr
only notes where its chunks belong, and each task puts those of its block together.
"""

from __future__ import annotations

import copy
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dask.array.core import getter, getter_inline, getter_nofancy

from . import page_locked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask._task_spec import GraphNode


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
    if memory is not None:
        out = _target_class(buffers.cpu.NDBuffer)(memory)
        array.get_basic_selection(parts, out=out)
        out.put_together()
    return memory


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
