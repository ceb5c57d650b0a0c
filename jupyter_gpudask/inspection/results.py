"""Move results to the host, with all that they consist of, and measure the moves within a task.

Dask's dashboard shows the moves as fine performance metrics, and ``%%gpudask --profile`` in its table.
"""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from distributed.metrics import context_meter

from .placement import is_type_of_gpu, to_host

TO_GPU = "host-to-device"
TO_HOST = "device-to-host"


@contextmanager
def transfer(label: str, size: int) -> Iterator[None]:
    """Measure the move of `size` bytes in this context.

    `label`: `TO_GPU` or `TO_HOST`. `size`: in bytes.
    """
    with context_meter.meter(label):
        yield
    context_meter.digest_metric(label, size, "bytes")


_WITH_PARTS = (dict, list, set, tuple, np.ndarray)


def results_to_host(result: Any) -> Any:
    """A result as NumPy and pandas, with the contents of containers, dataclasses, and arrays and columns of objects."""
    return in_containers(_with_parts_on_host, result)


def _with_parts_on_host(value: Any) -> Any:
    on_host = to_host(value)
    if on_host is not value:  # arrays and dataframes in device memory have no objects
        return on_host
    if type(value) is np.ndarray:
        return _elements_on_host(value)
    if type(value) is pd.Series:
        elements = value.to_numpy() if value.dtype == object else None
        moved = None if elements is None else _elements_on_host(elements)
        # As on the CPU, a column of numbers has their dtype.
        return value if moved is elements else pd.Series(moved, value.index, name=value.name).infer_objects()
    if type(value) is pd.DataFrame:
        return _columns_on_host(value)
    if type(value).__module__.startswith("xarray."):
        return _of_xarray_on_host(value)
    return _fields_on_host(value)


def _of_xarray_on_host(value: Any) -> Any:
    """A computed dataset, array or variable of xarray, with its coordinates, as one that has arrays of NumPy."""
    parts = [value, *getattr(value, "coords", {}).values(), *getattr(value, "data_vars", {}).values()]
    data = (getattr(getattr(part, "variable", part), "_data", None) for part in parts)  # `data` would read a file
    return value.as_numpy() if any(is_type_of_gpu(type(each)) for each in data) else value


def _columns_on_host(frame: pd.DataFrame) -> pd.DataFrame:
    columns = {place: frame.iloc[:, place] for place, dtype in enumerate(frame.dtypes) if str(dtype) == "object"}
    moved = {place: _with_parts_on_host(column) for place, column in columns.items()}
    if all(moved[place] is column for place, column in columns.items()):
        return frame
    on_host = frame.copy(deep=False)
    for place, column in moved.items():
        on_host.isetitem(place, column)
    return on_host


def _elements_on_host(array: Any) -> Any:
    """An array with its objects on the host; the same array if there is nothing to move."""
    if array.dtype != object or not any(map(_may_change, set(map(type, array.flat)))):
        return array
    on_host = np.empty_like(array)
    for place, part in np.ndenumerate(array):
        on_host[place] = results_to_host(part)
    return on_host


def _fields_on_host(value: Any) -> Any:
    """An object of a subclass of `dict`, or of a dataclass, as a copy with its values on the host."""
    is_dict = isinstance(value, dict)
    if not is_dict and (not dataclasses.is_dataclass(value) or isinstance(value, type)):
        return value
    if not is_dict:
        return with_fields(value, {name: results_to_host(part) for name, part in fields_of(value).items()})
    moved = {name: (part, results_to_host(part)) for name, part in value.items()}
    changed = {name: new for name, (old, new) in moved.items() if new is not old}
    if not changed:
        return value
    on_host = copy.copy(value)
    for name, part in changed.items():  # `Counter.update` adds
        on_host[name] = part
    return on_host


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of an object of a dataclass, without those that it does not have."""
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value) if hasattr(value, each.name)}


def with_fields(value: Any, fields: Mapping[str, Any]) -> Any:
    """A copy of an object of a dataclass with these fields; the same object if they are what it has."""
    changed = {name: part for name, part in fields.items() if part is not getattr(value, name)}
    if not changed:
        return value
    copied = copy.copy(value)
    for name, part in changed.items():
        object.__setattr__(copied, name, part)  # the dataclass may be frozen
    return copied


def _may_change(kind: type) -> bool:
    """Whether an object of this type is in device memory, or may contain such objects."""
    return is_type_of_gpu(kind) or issubclass(kind, _WITH_PARTS) or dataclasses.is_dataclass(kind)


def in_containers(function: Callable[[Any], Any], value: Any) -> Any:
    """What `function` returns for a value; for tuples, lists, sets and dicts, the same with their contents.

    A container whose contents `function` returns unchanged is the same object.
    """
    if type(value) is dict:
        changed = {key: in_containers(function, part) for key, part in value.items()}
        return value if all(changed[key] is part for key, part in value.items()) else changed
    if type(value) in (list, set) or is_plain_tuple(value):
        parts = [in_containers(function, part) for part in value]
        return value if all(map(operator.is_, parts, value)) else type(value)(parts)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = [in_containers(function, part) for part in value]
        return value if all(map(operator.is_, parts, value)) else type(value)(*parts)
    return function(value)


def is_plain_tuple(value: Any) -> bool:
    """Whether its type takes the elements in one iterable: a tuple, or one of Dask's own that only has another name."""
    kind = type(value)
    return kind is tuple or (
        issubclass(kind, tuple) and kind.__module__.startswith("dask.") and "_fields" not in kind.__dict__
    )
