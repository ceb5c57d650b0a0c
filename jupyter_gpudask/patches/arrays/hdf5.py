"""HDF5 datasets as sources of arrays: workers read them, although an open file cannot be sent."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dask.base import normalize_token

from ...inspection.arguments import bind, first_argument
from ...overlay import current_overlay

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dask.array import Array

_OPENED_BY_NAME = ("sec2", "stdio")
"""The drivers of h5py with which other processes can open the file."""


def read_hdf5(original: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function that creates an array; a dataset of h5py each worker opens for itself."""
    __tracebackhide__ = True
    if current_overlay() is None or not _is_of_hdf5(first_argument(original, args, kwargs)):
        return original(*args, **kwargs)
    call = bind(original, args, kwargs)
    first = next(iter(call.arguments))
    call.arguments[first] = Hdf5Dataset(call.arguments[first])
    return original(*call.args, **call.kwargs)


class Hdf5Dataset:
    """A dataset of h5py that can be sent to workers, which open its file for themselves.

    Parameters
    ----------
    dataset
        A dataset in a file. What was written into it before it is sent is written to the file then.
    """

    def __init__(self, dataset: Any) -> None:
        self.filename, self.name = _path_of(dataset), dataset.name
        self.shape, self.dtype, self.chunks, self.ndim = dataset.shape, dataset.dtype, dataset.chunks, dataset.ndim
        self._token = normalize_token(dataset)
        self._dataset = dataset  # only in the process that has opened it

    def __getitem__(self, key: Any) -> Any:
        """The elements, as h5py reads them."""
        if self._dataset is not None:
            return self._dataset[key]
        h5py = import_module("h5py")
        with h5py.File(self.filename, "r", locking=False) as file:  # the kernel may have it open for writing
            return file[self.name][key]

    def __dask_tokenize__(self) -> Any:
        return self._token

    def __getstate__(self) -> dict[str, Any]:
        if self._dataset:  # and not closed
            self._dataset.file.flush()
        return {**vars(self), "_dataset": None}


def reads_file_of(target: Any, source: Array) -> bool:
    """Whether blocks of `source` are read from the HDF5 file in which the dataset `target` is."""
    if not _is_of_hdf5(target):
        return False
    layers = source.dask.layers.values()
    values = (value for layer in layers for value in getattr(layer, "mapping", {}).values())
    inlined = (value for layer in layers for value, _ in getattr(layer, "indices", ()))
    datasets = (value for value in (*values, *inlined) if isinstance(value, Hdf5Dataset))
    return any(dataset.filename == _path_of(target) for dataset in datasets)


def _is_of_hdf5(value: Any) -> bool:
    """Whether this is a dataset in a file that other processes can open."""
    h5py = sys.modules.get("h5py")
    if h5py is None or not isinstance(value, h5py.Dataset) or value.name is None:
        return False
    return value.file.driver in _OPENED_BY_NAME


def _path_of(dataset: Any) -> str:
    return str(Path(dataset.file.filename).resolve())
