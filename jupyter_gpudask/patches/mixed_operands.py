"""Refuses operations that mix CPU and GPU collections at the line that builds them, with the names of both.

With the fallback to the host, an operation on an array that CuPy cannot hold, such as a masked one, runs on the CPU.
Arrays that have no name in the user's code, such as those that Dask creates for itself, are moved to the GPU, and so
are those that are computed from arrays on GPUs, with ``meta=np.array(())`` for instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from dask.array import core
from dask.base import unpack_collections
from dask.utils import funcname

from ..errors import MixedBackendsError
from ..inspection.arguments import first_argument
from ..inspection.placement import can_move, place_of, place_of_partitions, to_gpu, to_host
from ..inspection.user_code import names_behind, names_of
from ..overlay.config_overlay import current_record
from .arrays.block_meta import has_ancestors_on_gpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_INDEXING = ("getitem", "getitem_variadic")
_OF_CUPY = ("Unsupported type <class 'numpy.ndarray'>", "Implicit conversion to a NumPy array is not allowed")
_OF_THE_USER = ("MapPartitions", "MapOverlap", "MapOverlapAlign")


def check_arrays(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As the wrapped operation on arrays; refuses to mix operands on the CPU and on GPUs."""
    __tracebackhide__ = True
    # Dask treats these as numbers, CuPy does not.
    args = tuple(arg[()] if isinstance(arg, np.ndarray) and not arg.ndim else arg for arg in args)
    first = args[0] if args else None
    # CuPy accepts indices on the host.
    if not (callable(first) and funcname(first) in _INDEXING):
        given = [*args, *(value for name, value in kwargs.items() if name != "out")]
        parts = [part for arg in given for part in (arg if isinstance(arg, list | tuple) else [arg])]
        # Scalars can be mixed, and plain data is placed with the other operands.
        arrays = [part for part in parts if isinstance(part, core.Array) and part.ndim]
        if {place_of(array) for array in arrays} >= {"host", "gpu"}:
            move = _move_of(arrays)
            args = tuple(_moved(arg, move) for arg in args)
            kwargs = {name: value if name == "out" else _moved(value, move) for name, value in kwargs.items()}
    return original(*args, **kwargs)


def _move_of(arrays: list[core.Array]) -> Callable[[core.Array], Any]:
    """Where the operands of an operation are moved: to the host, if CuPy cannot hold one of them, else to the GPU.

    Raises
    ------
    MixedBackendsError
        The user chooses: an operand that was made on the CPU has a name in the cell, or there is no fallback to the
        host.
    """
    __tracebackhide__ = True
    record = current_record()
    on_host = [array for array in arrays if place_of(array) == "host"]
    if record is None or record.fallback != "host":
        _refuse_mixture(arrays)
    if not all(map(can_move, on_host)):
        return to_host
    if any(names_of(array) for array in on_host if not has_ancestors_on_gpu(array)):
        _refuse_mixture(arrays)
    return to_gpu


def _moved(argument: Any, move: Callable[[core.Array], Any]) -> Any:
    if isinstance(argument, list | tuple):
        return type(argument)(_moved(part, move) for part in argument)
    is_operand = isinstance(argument, core.Array) and argument.ndim and place_of(argument) is not None
    return move(argument) if is_operand else argument


def check_frames(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As ``new_collection``; refuses an expression that mixes dataframes on the CPU and on GPUs."""
    __tracebackhide__ = True
    expression = first_argument(original, args, kwargs)
    if type(expression).__name__ not in _OF_THE_USER:
        first = {place_of_partitions(part): part for part in reversed(expression.dependencies())}
        if first.keys() >= {"host", "gpu"}:
            _refuse_mixture([original(first["host"]), original(first["gpu"])])
    return original(*args, **kwargs)


def explain_mixed_blocks(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Raise the same error if the mixture is found only when the blocks are computed."""
    __tracebackhide__ = True
    try:
        return original(*args, **kwargs)
    except TypeError as error:
        if not str(error).startswith(_OF_CUPY):
            raise
        collections, _ = unpack_collections(*args, traverse=kwargs.get("traverse", True))
        for names in map(names_behind, collections):
            if names["host"] and names["gpu"]:
                host, gpu = (" and ".join(names[place][:3]) for place in ("host", "gpu"))
                raise MixedBackendsError(host, gpu, movable=True) from None
        raise


def _refuse_mixture(operands: Iterable[Any]) -> None:
    __tracebackhide__ = True
    first: dict[str, Any] = {}
    for operand in operands:
        place = place_of(operand)
        if place is not None:
            first.setdefault(place, operand)
    if len(first) == 2:
        host, gpu = first["host"], first["gpu"]
        raise MixedBackendsError(_called(host), _called(gpu), movable=bool(names_of(host)))


def _called(value: Any) -> str:
    names = names_of(value)
    if names:
        return " and ".join(names[:3])
    return "a dataframe without a name" if hasattr(value, "expr") else "an array without a name"
