"""Operations that mix CPU and GPU collections: refused at the line that builds them, with the names of both.

An operation with what no GPU library can hold, such as an array of objects or with a mask, runs on the CPU instead,
unless ``GpuDask.fallback`` is ``"error"``. Numbers that were computed from such an array are moved to the GPUs, and so
is what is computed from arrays on GPUs with NumPy metadata, as by ``meta=np.array(())``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from dask._expr import Expr
from dask.array.core import Array
from dask.base import unpack_collections
from dask.utils import funcname

from ..errors import MixedBackendsError
from ..inspection.placement import can_move, name_of, place_of, place_of_partitions, to_gpu
from ..inspection.results import results_to_host
from ..inspection.user_code import description_of, names_behind, names_of
from ..overlay import current_record
from .arrays import numeric
from .arrays.operand_placement import is_movable, is_plain_data, may_be_moved, on_numpy, plain_data_to_host
from .host_fallback import note_on_host, on_host, place_of_inputs, refuse_if_strict

_INDEXING = ("getitem", "getitem_variadic")
_OF_CUPY = ("Unsupported type <class 'numpy.ndarray'>", "Implicit conversion to a NumPy array is not allowed")
_MAY_MIX = ("Fused", "MapOverlap", "MapOverlapAlign", "MapPartitions")
"""Expressions for which no operation mixes its inputs: functions of the user, and what an optimizer has fused, such as
the move of a dataframe to a GPU with an operation on two."""


def check_arrays(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As the wrapped operation on arrays; refuses to mix operands on the CPU and on GPUs.

    Raises `MixedBackendsError`: the operands are mixed, and one is on the CPU because the user created it there. Raises
    `NotOnGpuError`: CuPy cannot hold one of them, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    args, kwargs, context = _arrays_in_one_place(original.__name__, args, kwargs)
    with context:
        return original(*args, **kwargs)


def elemwise(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `dask.array.core.elemwise`, likewise, with the quotients and remainders of NumPy."""
    __tracebackhide__ = True
    args, kwargs, context = _arrays_in_one_place(original.__name__, args, kwargs)
    with context:
        return numeric.elemwise(original, *args, **kwargs)


def add_products(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As `check_arrays`, with the dtypes of NumPy."""
    __tracebackhide__ = True
    args, kwargs, context = _arrays_in_one_place(original.__name__, args, kwargs)
    with context:
        return numeric.add_products(original, *args, **kwargs)


def _arrays_in_one_place(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], AbstractContextManager[None]]:
    """The arguments of an operation with all arrays on GPUs, or all on the host, and the context for it."""
    __tracebackhide__ = True
    # Dask treats these as numbers, CuPy does not.
    args = tuple(arg[()] if isinstance(arg, np.ndarray) and not arg.ndim else arg for arg in args)
    first = args[0] if args else None
    name = funcname(first) if callable(first) and not isinstance(first, Array) else name
    given = [*args, *(value for name, value in kwargs.items() if name != "out")]
    parts = [part for arg in given for part in (arg if isinstance(arg, list | tuple) else [arg])]
    arrays = [part for part in parts if isinstance(part, Array)]
    places = {place: [part for part in arrays if place_of(part) == place] for place in ("host", "gpu")}
    on_host = [part for part in places["host"] if part.ndim]
    if (on_host or (places["host"] and places["gpu"])) and all(map(is_movable, places["gpu"])):
        return plain_data_to_host(args), plain_data_to_host(kwargs), on_numpy()
    mixed = _mixture(part for part in arrays if part.ndim)  # scalars can be mixed
    if not mixed or name in _INDEXING:  # CuPy accepts indices on the host
        return args, kwargs, nullcontext()
    if not (_falls_back() and all(map(_may_follow, on_host))):
        _refuse(mixed)
    lacking = next((part for part in on_host if not can_move(part)), None)
    if lacking is None:
        return _on_gpu(args), _on_gpu(kwargs), nullcontext()
    reason = f"TypeError: CuPy has no {_kind(lacking)}"
    refuse_if_strict(name, name_of(mixed["gpu"]), reason)
    note_on_host(name, reason, mixed["gpu"].npartitions)
    return tuple(results_to_host(args)), results_to_host(kwargs), on_numpy()


def _may_follow(array: Any) -> bool:
    """Whether an array on the host is there for another reason than that the user created it there."""
    return not can_move(array) or may_be_moved(array)


def _on_gpu(value: Any) -> Any:
    """The arguments of an operation with the arrays of the host on GPUs."""
    if isinstance(value, dict):
        return {name: part if name == "out" else _on_gpu(part) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_on_gpu, value))
    return to_gpu(value) if isinstance(value, Array) and value.ndim and place_of(value) == "host" else value


def _kind(array: Any) -> str:
    is_masked = isinstance(array._meta, np.ma.MaskedArray)  # noqa: SLF001
    return "masked arrays" if is_masked else f"arrays of {array.dtype}"


def in_one_place(expression: Any, make_collection: Callable[..., Any]) -> Any:
    """The expression with all its dataframes on GPUs, or all on the host.

    Plain data that the user has passed to the operation, such as a dataframe of pandas to ``merge``, is moved to the
    GPUs. What was on a GPU before is not on the CPU because the user created it there; then the others are moved there,
    too.

    Raises `MixedBackendsError`: the operands are mixed, and one is on the CPU because the user created it there. Raises
    `NotOnGpuError`: the others would be moved to the host, and the cell has ``--strict``.
    """
    __tracebackhide__ = True
    if type(expression).__name__ in _MAY_MIX:
        return expression
    expression = _with_plain_data_on_gpu(expression, make_collection)
    first = {place_of_partitions(part): part for part in reversed(expression.dependencies())}
    if first.keys() >= {"host", "gpu"}:
        host = [part for part in expression.dependencies() if place_of_partitions(part) == "host"]
        if not (_falls_back() and all(map(_was_on_gpu, host))):
            _refuse({place: make_collection(first[place]) for place in ("host", "gpu")})
        operation, reason = type(expression).__name__, "the other operand is on the CPU"
        refuse_if_strict(operation, expression._name, reason)  # noqa: SLF001
        note_on_host(operation, reason, make_collection(first["gpu"]).npartitions)
        return on_host(expression, make_collection)
    return expression


def _with_plain_data_on_gpu(expression: Any, make_collection: Callable[..., Any]) -> Any:
    """The expression with the dataframes of pandas that the user has passed to it on GPUs, if another one is there."""
    if place_of_inputs(expression) != "gpu":
        return expression
    plain = [
        isinstance(part, Expr) and place_of_partitions(part) == "host" and is_plain_data(part)
        for part in expression.operands
    ]
    if not any(plain):
        return expression
    pairs = zip(expression.operands, plain, strict=True)
    return type(expression)(*(to_gpu(make_collection(part)).expr if is_plain else part for part, is_plain in pairs))


def _was_on_gpu(expression: Any) -> bool:
    return any(place_of_partitions(part) == "gpu" for part in expression.walk())


def _falls_back() -> bool:
    record = current_record()
    return record is not None and record.watches


@contextmanager
def explain_mixed_blocks(collections: Iterable[Any], *, traverse: bool) -> Iterator[None]:
    """Raise the same error if the mixture is found only when the blocks of the collections are computed."""
    __tracebackhide__ = True
    try:
        yield
    except TypeError as error:
        if not str(error).startswith(_OF_CUPY):
            raise
        for names in map(names_behind, unpack_collections(*collections, traverse=traverse)[0]):
            if names["host"] and names["gpu"]:
                host, gpu = (" and ".join(names[place][:3]) for place in ("host", "gpu"))
                raise MixedBackendsError(host, gpu, movable=True) from None
        raise


def _mixture(operands: Iterable[Any]) -> dict[str, Any]:
    """The first operand on the CPU and the first on GPUs; empty if all are in one place."""
    first: dict[str, Any] = {}
    for operand in operands:
        place = place_of(operand)
        if place is not None:
            first.setdefault(place, operand)
    return first if len(first) == 2 else {}


def _refuse(mixed: Mapping[str, Any]) -> None:
    __tracebackhide__ = True
    if mixed:
        host, gpu = mixed["host"], mixed["gpu"]
        raise MixedBackendsError(_describe(host), _describe(gpu), movable=bool(names_of(host)))


def _describe(value: Any) -> str:
    return " and ".join(names_of(value)[:3]) or description_of(value)
