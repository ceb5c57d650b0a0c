"""Operand placement: lists and NumPy arrays that are passed to Dask's functions in a GPU cell.

Dask looks up its backend in a few creation functions only. The others call those of this module, or are wrapped here.
Code for NumPy adds a NumPy array to a Dask array, or passes a list to a function of `dask.array`, which makes a Dask
array from it. In a GPU cell that array is placed on the GPUs. If an operation then meets a collection from outside the
cell, which is on the CPU, it takes the array back.

A graph has the names of its layers, but no metadata: the layers are marked with the device of their arrays, for arrays
that are computed from them. The marks stay in the kernel, and are lost when a graph is optimized, for example by
``persist``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal

import dask.config
import numpy as np
from dask.array.backends import array_creation_dispatch
from dask.array.core import Array, asanyarray, asarray, from_array
from dask.array.creation import eye
from dask.base import is_dask_collection
from dask.highlevelgraph import HighLevelGraph

from ...fallback.twins import with_twin
from ...inspection.arguments import bind, calling_frame, first_argument, is_own_frame
from ...inspection.placement import can_move, place_of, to_gpu, to_host
from .storing import read_open_file

_NAME = "_jupyter_gpudask_mark"

Mark = Literal["gpu", "not for GPUs", "plain data", "plain data on a GPU"]
"""The array is on a GPU; CuPy cannot hold it; Dask made it of plain data on the host, or on a GPU."""


def mark(array: Array, what: Mark) -> None:
    """Mark the layer of an array."""
    graph = array.dask
    if isinstance(graph, HighLevelGraph) and array.name in graph.layers:
        setattr(graph.layers[array.name], _NAME, what)


def has_mark(array: Array, names: Iterable[str], *marks: Mark) -> bool:
    """Whether one of the layers with these names in the graph of an array has one of the marks."""
    layers: Any = getattr(array.dask, "layers", {})
    return any(getattr(layers.get(name), _NAME, None) in marks for name in names)


def is_plain_on_gpu(array: Array) -> bool:
    """Whether Dask made an array on a GPU of nothing but plain data."""
    return has_mark(array, [array.name], "plain data on a GPU")


def mark_computed(array: Array, names: Iterable[str]) -> None:
    """Mark an array on a GPU that is computed from the layers with these names."""
    plain = [has_mark(array, [name], "plain data on a GPU") for name in names]
    mark(array, "plain data on a GPU" if plain and all(plain) else "gpu")


def may_be_moved(array: Any) -> bool:
    """Whether an array on the host is there for want of a type in CuPy, and not because the user created it there.

    It was on a GPU before, or is computed from an array that CuPy cannot hold, or is plain data beside such an array.
    """
    names: Any = getattr(array.dask, "layers", {})
    return has_mark(array, [array.name], "plain data") or has_mark(array, names, "gpu", "not for GPUs")


def mark_frame(expression: Any) -> None:
    """Mark the expression of a dataframe that Dask made of plain data."""
    object.__setattr__(expression, _NAME, "plain data")  # Dask's own sets an operand


def is_plain_data(expression: Any) -> bool:
    """Whether a dataframe is made of nothing but plain data that the user has passed to functions of Dask."""
    inputs = [part for part in expression.walk() if not part.dependencies()]
    return all(vars(part).get(_NAME) == "plain data" for part in inputs)


_LIBRARIES = ("dask", "dask_cudf")
_READERS = ("dask.array.image", "dask.dataframe.io.", "dask.datasets")
_NUMBERS = (bool, int, float, complex, str)
_DASK = "dask"
_ARRAYS = "dask.array."
_CALLED_BY_DASK = (asarray.__name__, asanyarray.__name__, from_array.__name__, eye.__name__)
"""Functions that Dask calls with plain data of the user, or, as for the inverse of a matrix, with none."""
_OTHER_CALLERS = (asarray.__name__, asanyarray.__name__)
"""Functions whose calls are not changed, because `create_array` wraps them."""

_ON_HOST_ONLY = ("dask.array.ma", "dask.array.random")
"""CuPy has no masked arrays, and random numbers are placed by their generator."""


def create_array(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a function of `dask.array` that creates an array on the host; in a GPU cell it is moved to the GPUs.

    An array that Dask itself creates from plain data is placed with the other operands.
    """
    __tracebackhide__ = True
    array = read_open_file(original, args, kwargs)
    if array_creation_dispatch.backend != "cupy" or place_of(array) != "host" or not can_move(array):
        return array
    if is_called_by_user(args, kwargs):
        return to_gpu(array)
    if original.__name__ not in _CALLED_BY_DASK or is_dask_collection(first_argument(original, args, kwargs)):
        return array
    caller = calling_frame()
    is_for_arrays = _module_of(caller).startswith(_ARRAYS) and caller.f_code.co_name not in _OTHER_CALLERS
    return place_array(array, caller) if is_for_arrays else array


def is_read_by_user() -> bool:
    """Whether the user's code called the reader of Dask that makes an array, which is no function of `create_array`."""
    return _module_of(calling_frame()).startswith(_READERS) and is_called_by_user((), {})


def is_called_by_user(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether the user's code called a patched function, without a collection from outside the cell as an argument.

    Readers of Dask count as the user's code: what they return is what the function has created; so does the method
    ``x.map_blocks``.
    """
    frame = calling_frame()
    while frame.f_back is not None and (_module_of(frame).startswith(_READERS) or _is_method(frame)):
        frame = frame.f_back
    library = _module_of(frame).partition(".")[0]
    return library not in _LIBRARIES and not any(map(_has_collection_on_host, [*args, *kwargs.values()]))


def _is_method(frame: FrameType) -> bool:
    method: Any = Array.map_blocks
    return frame.f_code is method.__code__


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _has_collection_on_host(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_has_collection_on_host(part) for part in value if type(part) not in _NUMBERS)
    return is_dask_collection(value) and place_of(value) == "host"


def blockwise(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.blockwise`; metadata is inferred from where plain data is placed, and not from the data itself."""
    __tracebackhide__ = True
    if args and array_creation_dispatch.backend == "cupy":
        args = (with_twin(args[0]), *args[1:])
    first, operands, indices = args[:2], args[2::2], args[3::2]
    if array_creation_dispatch.backend != "cupy" or len(operands) != len(indices):
        return original(*args, **kwargs)
    if may_be_placed(operands):
        operands = tuple(map(_as_array, operands, indices))
        return original(*first, *(part for pair in zip(operands, indices, strict=True) for part in pair), **kwargs)
    with on_numpy():
        return original(*plain_data_to_host(args), **plain_data_to_host(kwargs))


def _as_array(operand: Any, index: Any) -> Any:
    return operand if index is None or not is_plain(operand) else asanyarray(operand)


@contextmanager
def on_numpy() -> Iterator[None]:
    """Create arrays with NumPy: an operand is on the CPU."""
    with dask.config.set({"array.backend": "numpy"}):
        yield


def plain_data_to_host(value: Any) -> Any:
    """The arguments of an operation on the CPU; what Dask made of plain data in this cell is moved there."""
    if isinstance(value, dict):
        return {name: plain_data_to_host(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(plain_data_to_host, value))
    return _to_host(value) if is_movable(value) else value


def _to_host(array: Array) -> Array:
    """An array of plain data on the host, as it was before `place_array` has moved it, if it was."""
    graph, name = array.dask, array.name
    (source, *others) = graph.dependencies[name]
    if others or has_mark(array, [source], "plain data on a GPU"):
        on_host: Array = to_host(array)
        return on_host
    layers, needs = (
        {key: part for key, part in parts.items() if key != name} for parts in (graph.layers, graph.dependencies)
    )
    meta = np.empty((0,) * array.ndim, array.dtype)
    return Array(HighLevelGraph(layers, needs), source, array.chunks, meta=meta)  # Dask may have changed the chunks


def is_movable(value: Any) -> bool:
    """Whether this is an array on a GPU that Dask made of nothing but plain data."""
    return isinstance(value, Array) and is_plain_on_gpu(value)


def of_one_array(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As a function of Dask that infers metadata or a name from its argument, which may be plain data."""
    __tracebackhide__ = True
    call = bind(original, args, kwargs)
    name, operand = next(iter(call.arguments.items()))
    if is_plain(operand) and may_be_placed([operand]):
        call.arguments[name] = asanyarray(operand)
    return original(*call.args, **call.kwargs)


def may_be_placed(operands: Iterable[Any]) -> bool:
    """Whether plain data among the operands belongs on the GPUs: the cell is for them, and no operand is on the CPU."""
    return array_creation_dispatch.backend == "cupy" and not any(_is_on_host(_data_of(each)) for each in operands)


def is_plain(value: Any) -> bool:
    """Whether this is an array or a number of NumPy, which xarray may have labelled."""
    return isinstance(_data_of(value), np.ndarray | np.generic)


def _data_of(value: Any) -> Any:
    return value.data if type(value).__module__.partition(".")[0] == "xarray" and hasattr(value, "data") else value


def place_array(array: Any, caller: FrameType) -> Any:
    """An array on the host that the function of `caller`, one of Dask, has created, on a GPU.

    An operation with a collection on the CPU takes it back there.
    """
    if _is_for_host_only(caller):
        mark(array, "plain data")
        return array
    moved = to_gpu(array)
    mark(moved, "plain data on a GPU")
    return moved


def _is_for_host_only(caller: FrameType) -> bool:
    """Whether a Dask function on the stack works on the host only."""
    frame: FrameType | None = caller
    while frame is not None and (is_own_frame(frame) or _module_of(frame).partition(".")[0] == _DASK):
        if _module_of(frame) in _ON_HOST_ONLY:
            return True
        frame = frame.f_back
    return False


def _is_on_host(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(isinstance(part, Array) and _is_on_host(part) for part in value)
    return isinstance(value, Array) and value.ndim > 0 and place_of(value) == "host"
