"""Arrays in files, as objects that read blocks in the thread of their task."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import Any

from dask._task_spec import GraphNode, Task
from dask.array.core import getter, getter_inline, getter_nofancy
from dask.utils import typename

from . import tiff_images
from .hdf5_blocks import Hdf5Dataset, reader_class
from .zarr_blocks import Reader

_GETTERS = (getter, getter_inline, getter_nofancy)
_OF_XARRAY = ("xarray.backends.", "xarray.coding.", "xarray.core.indexing")
"""Modules whose objects read and decode parts of an array in a file."""

_OF_NETCDF = {"xarray.backends.h5netcdf_.H5NetCDFArrayWrapper", "xarray.backends.netCDF4_.NetCDF4ArrayWrapper"}


def with_readers(task: GraphNode, values: Mapping[Any, Any]) -> tuple[GraphNode, Mapping[Any, Any]]:
    """A task and what it gets; if it is Dask's of reading a block, with such objects for arrays in files.

    Those that xarray's objects have are exchanged, too, and so is the function that reads an image.
    """
    if any(getattr(task, "func", None) is function for function in _GETTERS):
        return task, {key: _reader(values[key]) for key in task.dependencies}
    first = next(iter(getattr(task, "args", ())), None)
    if isinstance(first, Task) and tiff_images.is_reader(first.func) and len(first.args) == 1 and not first.kwargs:
        changed: Any = task.copy()
        changed.args = (Task(None, tiff_images.read, *first.args), *changed.args[1:])
        return changed, values
    return task, values


def _reader(value: Any) -> Any:
    kind: Any = type(value)
    if kind is getattr(sys.modules.get("zarr"), "Array", None):
        return Reader(value, value)
    if kind is Hdf5Dataset:
        return value.reader()
    if not kind.__module__.startswith(_OF_XARRAY):
        return value
    if typename(kind) in _OF_NETCDF:
        changed = copy.copy(value)
        changed.__class__ = reader_class(kind)
        return changed
    for name in ("array", "_array"):
        inside = getattr(value, name, None)
        reader = _reader(inside)
        if reader is not inside:
            changed = copy.copy(value)
            setattr(changed, name, reader)
            return changed
    return value
